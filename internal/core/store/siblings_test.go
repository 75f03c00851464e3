package store

import (
	"bytes"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// versionsOfPods returns the bytes and metadata of pods in several versions. The resourceVersion of
// each is its index plus one. In every second version, a pod is not similar to its group.
func versionsOfPods(t *testing.T, pods, versions int) (raws [][]byte, metas []wire.Meta) {
	t.Helper()
	sims := []*podsim.Pods{podsim.NewUnlike(20_000, 1), podsim.NewUnlike(20_000, 2)}
	for v := range versions {
		for i := range pods {
			pod := sims[0].Pod(i)
			if v%2 == 1 {
				pod.Spec = sims[1].Pod(i + 5000).Spec
			}
			pod.ResourceVersion = strconv.Itoa(1 + v*pods + i)
			raw, err := pod.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			raws = append(raws, raw)
		}
	}
	metas = make([]wire.Meta, len(raws))
	for i := range raws {
		if err := wire.ReadMeta(wire.Protobuf, raws[i], &metas[i]); err != nil {
			t.Fatal(err)
		}
	}
	return raws, metas
}

// readVersions reads until done is true. It reads the newest versions of the keys, one key after
// another, and also reads old versions that it has kept. It compares all of them with raws.
func readVersions(t *testing.T, s *Store, keys []string, raws [][]byte, first int, done *atomic.Bool) {
	var kept []*Object
	check := func(o *Object) {
		rv, _ := o.ResourceVersionNumber()
		raw, err := o.AppendRaw(nil)
		if err != nil || !bytes.Equal(raw, raws[rv-1]) {
			t.Errorf("%s %d does not come back: %v", o.Key(), rv, err)
		}
	}
	for i := first; !done.Load(); i += 7 {
		if o, ok := s.Get(keys[i%len(keys)]); ok {
			check(o)
			kept = append(kept, o)
			if len(kept) > 500 {
				kept = kept[250:]
			}
			check(kept[i*31%len(kept)])
		}
	}
}

// TestSiblingsUnderChange checks that old and new versions can be read while bases are added and
// dropped.
func TestSiblingsUnderChange(t *testing.T) {
	testenv.SkipUnderRace(t)
	const pods, versions = 200, 4
	raws, metas := versionsOfPods(t, pods, versions)
	keys := make([]string, pods)
	for i := range keys {
		keys[i] = string(wire.AppendKey(nil, &metas[i]))
	}
	for range 2 {
		s := newStore(t, decodeConfig())
		var done atomic.Bool
		var readers sync.WaitGroup
		for r := range 3 {
			readers.Go(func() { readVersions(t, s, keys, raws, r, &done) })
		}
		w := s.Writer(Scope{})
		for i := range raws {
			at := i
			if v := i / pods; v > 1 {
				at = v*pods + i*37%pods
			}
			if err := w.Put(&metas[at], raws[at]); err != nil {
				t.Error(err)
				break
			}
			if i%97 == 0 {
				w.Flush()
			}
			if i%500 == 0 {
				runtime.GC()
			}
		}
		w.Flush()
		done.Store(true)
		readers.Wait()
	}
}

// TestMemoryCountsPins checks a base whose own object has changed or was deleted, while other
// objects are still packed against the base. Memory must count the base as a dictionary.
func TestMemoryCountsPins(t *testing.T) {
	testenv.SkipUnderRace(t)
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a garbage collection drops unpacked bases
	s := newStore(t, decodeConfig())
	w := s.Writer(Scope{})
	sim := podsim.NewUnlike(20_000, 1)
	const pods = 400
	var keys []string
	// tell calls one of the writer's methods with a version of a pod.
	tell := func(method func(m *wire.Meta, raw []byte) error, i, version int) {
		pod := sim.Pod(i)
		pod.ResourceVersion = strconv.Itoa(version*pods + i + 1)
		raw, err := pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		var m wire.Meta
		if err := wire.ReadMeta(wire.Protobuf, raw, &m); err != nil {
			t.Fatal(err)
		}
		if version == 0 {
			keys = append(keys, string(wire.AppendKey(nil, &m)))
		}
		if err := method(&m, raw); err != nil {
			t.Fatal(err)
		}
	}
	for i := range pods {
		tell(w.Put, i, 0)
	}
	w.Flush()
	before := s.Memory().Dictionary
	alone := 0 // bytes of the objects that may be bases of other objects
	for _, key := range keys {
		if o, ok := s.Get(key); ok && o.layout.dict != nil {
			alone += len(o.packed)
		}
	}
	for i := range pods / 2 {
		tell(w.Put, i, 1)
		if i%20 < 5 { // the objects of each group that were packed first
			tell(w.Delete, i+pods/2, 1)
		}
	}
	w.Flush()
	if pinned := s.Memory().Dictionary - before; pinned < 1000 || pinned > int64(alone) {
		t.Errorf("%d bytes more are held for siblings, of %d", pinned, alone)
	}
}
