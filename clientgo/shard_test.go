package clientgo

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// unsharded returns a config whose requests lack the parameter shardSelector. The server then
// answers like a server that does not support the parameter.
func unsharded(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripperFunc(func(req *http.Request) (*http.Response, error) {
			req = req.Clone(req.Context())
			q := req.URL.Query()
			q.Del("shardSelector")
			req.URL.RawQuery = q.Encode()
			return next.RoundTrip(req)
		})
	})
	return cfg
}

// TestShards checks that the informers of all shards together store each object once, from lists
// and watches. It runs with and without a server that supports shard selectors, and with and
// without capturing.
func TestShards(t *testing.T) {
	for _, selects := range []bool{true, false} {
		for _, noCapture := range []bool{false, true} {
			t.Run(fmt.Sprintf("server selects %v, no capture %v", selects, noCapture), func(t *testing.T) {
				server := serve(t, apiserver.Options{Pods: 200})
				cfg := server.Config()
				if !selects {
					cfg = unsharded(cfg)
				}
				const count = 3
				var infs [count]*informer
				for i := range infs {
					opts := Options{Shard: weir.Shard{Index: i, Count: count}, NoCapture: noCapture}
					infs[i] = NewSharedIndexInformerWithOptions(podsOf(capturing(cfg)), &corev1.Pod{}, 0, nil, opts).(*informer)
					runSynced(t, infs[i])
				}
				client := kubernetes.NewForConfigOrDie(server.Config()).CoreV1().Pods("default")
				for n := range 60 {
					p, err := client.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", n)},
						Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}, metav1.CreateOptions{})
					check.NoError(t, err)
					if p.Labels = map[string]string{"v": "2"}; n%3 == 0 {
						_, err = client.Update(t.Context(), p, metav1.UpdateOptions{})
					} else if n%3 == 1 {
						err = client.Delete(t.Context(), p.Name, metav1.DeleteOptions{})
					}
					check.NoError(t, err)
				}
				want := map[string]string{}
				all, err := kubernetes.NewForConfigOrDie(server.Config()).CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
				check.NoError(t, err)
				for i := range all.Items {
					want[all.Items[i].Namespace+"/"+all.Items[i].Name] = all.Items[i].ResourceVersion
				}
				eventually(t, func() bool {
					got := map[string]string{}
					for _, inf := range infs {
						for _, o := range inf.GetStore().List() {
							p := o.(*corev1.Pod)
							key := p.Namespace + "/" + p.Name
							if _, twice := got[key]; twice {
								t.Fatalf("%s is in two shards", key)
							}
							got[key] = p.ResourceVersion
						}
					}
					return fmt.Sprint(got) == fmt.Sprint(want)
				})
				for i, inf := range infs {
					if n := len(inf.GetStore().ListKeys()); n < 40 || n > 120 {
						t.Errorf("shard %d has %d of %d", i, n, len(want))
					}
					if s := inf.engine.Statuses()[0]; (s.Unwanted == 0) != selects {
						t.Errorf("shard %d: %s", i, s)
					}
				}
			})
		}
	}
}

// TestShardRefused checks that the constructor panics with the reason if the shard is invalid.
func TestShardRefused(t *testing.T) {
	defer func() {
		if err, ok := recover().(error); !ok || !strings.Contains(err.Error(), "Index 2 is not one of 0 to 1") {
			t.Errorf("%v", err)
		}
	}()
	NewSharedIndexInformerWithOptions(&cache.ListWatch{}, &corev1.Pod{}, 0, nil, Options{Shard: weir.Shard{Index: 2, Count: 2}})
}
