package proxy

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
	"github.com/weirproject/weir/proxy"
)

// metric returns the sum of the proxy's metrics that start with name. name is in the exposition
// format: a metric name, with or without labels.
func metric(t *testing.T, ctx context.Context, s *proxy.Server, name string) float64 {
	t.Helper()
	resp := do(t, ctx, through(t, s, shared.Config()), http.MethodGet, s.URL()+"/metrics")
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("/metrics: %s", resp.Status)
	}
	total := 0.0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if line := lines.Text(); strings.HasPrefix(line, name) {
			value, err := strconv.ParseFloat(line[strings.LastIndex(line, " ")+1:], 64)
			check.NoError(t, err)
			total += value
		}
	}
	return total
}

// inform runs client-go's own informer of pods until the test ends. It returns after the informer
// has synced.
func inform(t *testing.T, ctx context.Context, cfg *rest.Config) cache.SharedIndexInformer {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	factory := informers.NewSharedInformerFactory(clientFor(t, cfg), 0)
	inf := factory.Core().V1().Pods().Informer()
	factory.StartWithContext(ctx)
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	if !cache.WaitForCacheSync(ctx.Done(), inf.HasSynced) {
		t.Fatal("the informer has not synced")
	}
	return inf
}

// same waits until the informer has received all earlier writes, and checks that it stores exactly
// the API server's pods.
func same(t *testing.T, ctx context.Context, direct kubernetes.Interface, inf cache.SharedIndexInformer) {
	t.Helper()
	mark, err := direct.CoreV1().Pods("default").Create(ctx, newPod(""), metav1.CreateOptions{})
	check.NoError(t, err)
	testenv.Eventually(t, ctx, "the informer has the mark", func() bool {
		_, ok, _ := inf.GetStore().GetByKey("default/" + mark.Name)
		return ok
	})
	list, err := direct.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	check.NoError(t, err)
	if n := len(inf.GetStore().ListKeys()); n != len(list.Items) {
		t.Errorf("the informer holds %d pods, the server %d", n, len(list.Items))
	}
	for i := range list.Items {
		want := &list.Items[i]
		got, ok, _ := inf.GetStore().GetByKey(want.Namespace + "/" + want.Name)
		if !ok || !apiequality.Semantic.DeepEqual(got, want) {
			t.Errorf("%s/%s differs (there: %v)", want.Namespace, want.Name, ok)
		}
	}
}

func newPod(name string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "e2e"}},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: new(bool),
			Containers:                   []corev1.Container{{Name: "c", Image: "i"}},
		},
	}
	if name == "" {
		p.GenerateName = "mark-"
	}
	return p
}

// TestInformers runs client-go's informers through the proxy: with LIST or WatchList, with JSON or
// protobuf, and with each way to authenticate.
func TestInformers(t *testing.T) {
	for _, watchList := range []bool{false, true} {
		for _, contentType := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
			t.Run(fmt.Sprintf("WatchList=%v/%s", watchList, strings.TrimPrefix(contentType, "application/")), func(t *testing.T) {
				ctx := begin(t)
				t.Setenv("KUBE_FEATURE_WatchListClient", strconv.FormatBool(watchList))
				granted(t, ctx, "reader", readPods)
				granted(t, ctx, "carol", readPods)
				s := start(t, ctx, proxy.Options{Resources: []string{"pods"}, TrustCache: []string{"pods"}})
				direct := clientFor(t, shared.Config())
				front := issue(t, fronts, "front")
				front.WrapTransport = func(rt http.RoundTripper) http.RoundTripper { return remoteUser{rt, "reader"} }
				before := metric(t, ctx, s, "weir_proxy_served_total{")
				for name, cfg := range map[string]*rest.Config{
					"token":       as(t, s, "reader"),
					"certificate": through(t, s, issue(t, callers, "carol")),
					"front proxy": through(t, s, front),
				} {
					if name == "front proxy" {
						cfg.WrapTransport = front.WrapTransport
					}
					cfg.ContentType = contentType
					inf := inform(t, ctx, cfg)
					same(t, ctx, direct, inf)
				}
				// With WatchList, each informer sends only a WATCH. Without it, each informer sends a LIST and
				// a WATCH.
				if served := metric(t, ctx, s, "weir_proxy_served_total{") - before; served < 3 {
					t.Errorf("%v reads were answered by the proxy", served)
				}
				check.Equal(t, metric(t, ctx, s, `weir_proxy_watchers{group="",resource="pods"`), 3, "watches are served from the cache")
			})
		}
	}
}

// remoteUser is a transport that names a user in the headers of a front proxy.
type remoteUser struct {
	http.RoundTripper
	name string
}

func (f remoteUser) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Remote-User", f.name)
	return f.RoundTripper.RoundTrip(r)
}

// TestUpstreamRestarts kills the API server during a WATCH through the proxy. It checks that reads
// from the cache continue, that a consistent read fails, and that the same WATCH receives a later
// change after the restart.
func TestUpstreamRestarts(t *testing.T) {
	ctx := begin(t)
	granted(t, ctx, "reader", readPods)
	s := start(t, ctx, proxy.Options{Resources: []string{"pods"}})
	direct := clientFor(t, shared.Config())
	reader := clientFor(t, as(t, s, "reader"))
	list, err := reader.CoreV1().Pods("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	check.NoError(t, err)
	w, err := reader.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion, LabelSelector: "app=e2e"})
	check.NoError(t, err)
	defer w.Stop()
	if _, err := direct.CoreV1().Pods("default").Create(ctx, newPod("before"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	expect(t, ctx, w, "before")

	shared.KillAPIServer()
	testenv.Eventually(t, ctx, "/readyz says so", func() bool { return readyz(t, ctx, s) == http.StatusServiceUnavailable })
	again, err := reader.CoreV1().Pods("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil || len(again.Items) != len(list.Items)+1 {
		t.Errorf("a read without the upstream: %v", err)
	}
	if _, err := reader.CoreV1().Pods("").List(ctx, metav1.ListOptions{}); err == nil {
		t.Error("a consistent read without the upstream")
	}
	check.NoError(t, shared.StartAPIServer(ctx))
	if _, err := direct.CoreV1().Pods("default").Create(ctx, newPod("after"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	expect(t, ctx, w, "after") // on the same watch
	testenv.Eventually(t, ctx, "the proxy is ready again", func() bool { return readyz(t, ctx, s) == http.StatusOK })
	check.Equal(t, metric(t, ctx, s, "apiserver_watch_cache_initializations_total"), 1, "initializations")
}
