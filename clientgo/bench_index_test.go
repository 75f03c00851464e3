package clientgo

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

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
