package clientgo

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

// BenchmarkSync lists 10,000 pods from a server that has encoded them before, until a handler has
// read all of them: untransformed, or through a transform that sets their kind.
func BenchmarkSync(b *testing.B) {
	const n = 10_000
	server := httptest.NewServer(servePods(b, n))
	defer server.Close()
	cfg := &rest.Config{Host: server.URL, QPS: -1, DisableCompression: true, ContentConfig: rest.ContentConfig{
		ContentType: runtime.ContentTypeProtobuf, AcceptContentTypes: runtime.ContentTypeProtobuf,
	}}
	for _, of := range []struct {
		side  string
		kinds bool
	}{{"weir", false}, {"client-go", false}, {"weir", true}, {"client-go", true}} {
		name := of.side
		if of.kinds {
			name += "/kind"
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var f informers.SharedInformerFactory
				var err error
				if of.side == "weir" {
					f, err = NewSharedInformerFactory(cfg, 0)
				} else {
					f = informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(cfg), 0)
				}
				check.NoError(b, err)
				seen := 0
				inf := f.Core().V1().Pods().Informer()
				told, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
					if obj.(*corev1.Pod).Name != "" {
						seen++
					}
				}})
				if err == nil && of.kinds {
					err = inf.SetTransform(setKind)
				}
				check.NoError(b, err)
				ctx, cancel := context.WithCancel(b.Context())
				f.StartWithContext(ctx)
				if !cache.WaitForCacheSync(ctx.Done(), told.HasSynced) || seen != n {
					b.Fatalf("%d seen", seen)
				}
				cancel()
				f.Shutdown()
			}
		})
	}
}

// setKind is a transform that sets the kind of pods.
func setKind(obj any) (any, error) {
	p := obj.(*corev1.Pod)
	p.APIVersion, p.Kind = "v1", "Pod"
	return p, nil
}

// servePods answers a LIST with n pods, and a WATCH with nothing.
func servePods(b *testing.B, n int) http.HandlerFunc {
	b.Helper()
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "2000000"}}
	sim := podsim.New(n, 1)
	for i := range n {
		p := sim.Pod(i)
		p.ResourceVersion = strconv.Itoa(1_000_000 + i)
		list.Items = append(list.Items, *p)
	}
	raw, err := list.Marshal()
	check.NoError(b, err)
	body, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Raw: raw}).Marshal()
	check.NoError(b, err)
	body = append([]byte("k8s\x00"), body...)
	return func(w http.ResponseWriter, r *http.Request) {
		switch q := r.URL.Query(); {
		case q.Get("sendInitialEvents") != "":
			http.Error(w, "no initial events", http.StatusBadRequest)
		case q.Get("watch") != "":
			w.Header().Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
			_, _ = w.Write(body)
		}
	}
}
