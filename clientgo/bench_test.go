package clientgo

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
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
