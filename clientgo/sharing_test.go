//go:build !weir_safe

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

// TestShareDecoded checks that with ShareDecoded two pods of a workload, and two versions of one
// pod, share their equal parts in memory.
func TestShareDecoded(t *testing.T) {
	for _, share := range []bool{false, true} {
		inf := NewSharedIndexInformerWithOptions(&cache.ListWatch{}, &corev1.Pod{}, 0, nil, Options{ShareDecoded: share}).(*informer)
		t.Cleanup(inf.store.Close)
		w := inf.store.Writer(store.Scope{})
		sim := podsim.New(2, 1)
		put := func(p *corev1.Pod) *store.Object {
			t.Helper()
			var m wire.Meta
			raw := marshal(t, p)
			check.NoError(t, wire.ReadMeta(wire.Protobuf, raw, &m))
			check.NoError(t, w.Put(&m, raw))
			w.Flush()
			o, ok := inf.store.Get(p.Namespace + "/" + p.Name)
			if !ok {
				t.Fatal("not held")
			}
			return o
		}
		see := func(o *store.Object) *corev1.Pod {
			t.Helper()
			_, value, err := inf.indexer.reader.values(&store.Change{New: o, Initial: true})
			check.NoError(t, err)
			return value.(*corev1.Pod)
		}
		a, b := put(sim.Pod(0)), put(sim.Pod(1))
		shared := false
		for range 100 { // a GC may empty the sync.Pool through which values are shared
			shared = shared || &see(a).Spec.Tolerations[0] == &see(b).Spec.Tolerations[0]
		}
		check.Equal(t, shared, share, "share %v: two pods share", share)
		changed := sim.Pod(0)
		changed.ResourceVersion, changed.Status.Message = "999999999", "changed"
		was, is, err := inf.indexer.reader.values(&store.Change{Old: a, New: put(changed)})
		check.NoError(t, err)
		if shared := &was.(*corev1.Pod).OwnerReferences[0] == &is.(*corev1.Pod).OwnerReferences[0]; shared != share {
			t.Errorf("share %v: two versions share %v", share, shared)
		}
	}
}
