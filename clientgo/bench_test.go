package clientgo

import (
	"context"
	"fmt"
	"math/rand/v2"
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

	"github.com/weirproject/weir/internal/core/delivery"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

// BenchmarkRepeatedList lists 20,000 pods repeatedly, like a controller that reads all objects in
// each reconcile.
func BenchmarkRepeatedList(b *testing.B) {
	ours := NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, nil).(*informer)
	defer ours.store.Close()
	for name, x := range map[string]cache.Indexer{
		"client-go": cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
		"weir":      ours.GetIndexer(),
	} {
		for i := range 20_000 {
			check.NoError(b, x.Add(pod(fmt.Sprint("p", i), "1")))
		}
		for range 2 {
			x.List()
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if len(x.List()) != 20_000 {
					b.Fatal("not all")
				}
			}
		})
		b.Run(name+"/one changed", func(b *testing.B) {
			for b.Loop() {
				check.NoError(b, x.Update(pod("p7", "2")))
				if len(x.List()) != 20_000 {
					b.Fatal("not all")
				}
			}
		})
	}
}

// BenchmarkUpdates stores changes of pods and passes old and new versions to a handler, all on one
// goroutine. It measures the CPU per event from the store to the handler. The changes affect the
// resourceVersion only, or the status too.
func BenchmarkUpdates(b *testing.B) {
	const n = 5000
	for _, what := range []string{"version", "status"} {
		b.Run(what, func(b *testing.B) {
			inf := NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, nil).(*informer)
			defer inf.store.Close()
			w := inf.store.Writer(store.Scope{})
			metas, raws := versionsOfPods(b, n, what == "status")
			seen := 0
			r := &registration{informer: inf, callbacks: callbacks{true, true, true}, handler: cache.ResourceEventHandlerFuncs{
				UpdateFunc: func(was, is any) {
					if was.(*corev1.Pod).ResourceVersion != is.(*corev1.Pod).ResourceVersion {
						seen++
					}
				},
			}}
			served := delivery.New(inf.store, r.handle, delivery.Options{})
			r.delivery = served
			cursor := inf.store.Cursor()
			changes := make([]store.Change, 128)
			take := func() {
				w.Flush()
				for got := cursor.Next(changes); got > 0; got = cursor.Next(changes) {
					for _, c := range changes[:got] {
						if c.Old != nil {
							r.handle(b.Context(), store.Change{Old: c.Old, New: c.New, ResourceVersion: c.ResourceVersion})
						}
					}
					clear(changes[:got])
				}
			}
			served.Close()
			for i := range n {
				check.NoError(b, w.Put(&metas[i], raws[i]))
				if i%128 == 0 {
					take()
				}
			}
			take()
			b.ReportAllocs()
			version := uint64(2_000_000)
			text := make([]byte, 0, 20)
			i := 0
			for b.Loop() {
				at := (i/n+1)%2*n + i*37%n
				i++
				version++
				m := metas[at]
				text = strconv.AppendUint(text[:0], version, 10)
				copy(m.ResourceVersion, text) // also changes the raw bytes
				check.NoError(b, w.Put(&m, raws[at]))
				if i%128 == 0 {
					take()
				}
			}
			take()
			if seen < i {
				b.Fatalf("%d of %d seen", seen, i)
			}
		})
	}
}

// versionsOfPods returns two versions of each of n pods, all first versions before the second ones.
// The second versions differ in the resourceVersion only, or in the status too.
func versionsOfPods(b *testing.B, n int, status bool) (metas []wire.Meta, raws [][]byte) {
	b.Helper()
	pods, rnd := podsim.New(n, 1), rand.New(rand.NewPCG(1, 2))
	metas, raws = make([]wire.Meta, 2*n), make([][]byte, 2*n)
	for i := range 2 * n {
		p := pods.Pod(i % n)
		if i >= n && status {
			podsim.Touch(p, rnd)
		}
		p.ResourceVersion = strconv.Itoa(1_000_000 + i)
		raw, err := p.Marshal()
		if err == nil {
			err = wire.ReadMeta(wire.Protobuf, raw, &metas[i])
		}
		check.NoError(b, err)
		raws[i] = raw
	}
	return metas, raws
}

// BenchmarkIndex builds an index of 20,000 pods by a function of a label and looks up all its
// values: for the first time, and again.
func BenchmarkIndex(b *testing.B) {
	const n = 20_000
	byName := func(object any) ([]string, error) {
		if name, ok := object.(*corev1.Pod).Labels["app"]; ok {
			return []string{name}, nil
		}
		return nil, nil
	}
	for side, fill := range map[string]func(*testing.B, int) cache.Indexer{"client-go": podsOfClientgo, "weir": podsOfWeir} {
		x := fill(b, n)
		index, values := "", []string{}
		build := func(b *testing.B) {
			index += "i"
			check.NoError(b, x.AddIndexers(cache.Indexers{index: byName}))
			if values = x.ListIndexFuncValues(index); len(values) == 0 {
				b.Fatal("no values")
			}
		}
		build(b)
		b.Run(side+"/build", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				build(b)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/pod")
		})
		all := func(b *testing.B) {
			found := 0
			for _, value := range values {
				objects, err := x.ByIndex(index, value)
				check.NoError(b, err)
				found += len(objects)
			}
			if found != n {
				b.Fatal(found)
			}
		}
		b.Run(side+"/first", func(b *testing.B) {
			for range b.N {
				all(b)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(values)), "ns/lookup")
		})
		b.Run(side+"/later", func(b *testing.B) {
			all(b)
			all(b)
			for b.Loop() {
				all(b)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(values)), "ns/lookup")
		})
	}
}

func podsOfClientgo(b *testing.B, n int) cache.Indexer {
	pods, x := podsim.New(n, 1), cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for i := range n {
		check.NoError(b, x.Add(pods.Pod(i)))
	}
	return x
}

func podsOfWeir(b *testing.B, n int) cache.Indexer {
	inf := NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, nil).(*informer)
	b.Cleanup(inf.store.Close)
	pods, w := podsim.New(n, 1), inf.store.Writer(store.Scope{})
	for i := range n {
		var m wire.Meta
		raw, err := pods.Pod(i).Marshal()
		if err == nil {
			err = wire.ReadMeta(wire.Protobuf, raw, &m)
		}
		if err == nil {
			err = w.Put(&m, raw)
		}
		check.NoError(b, err)
	}
	w.Flush()
	return inf.indexer
}

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
