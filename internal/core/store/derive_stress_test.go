package store

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestDeriveConcurrently runs several handlers, writers that delete and recreate objects, and
// queries of new and old snapshots. Each handler modifies its copy as soon as Derive has returned.
// One index function reads the store. No query may return a wrong object, and at the end each index
// must have all objects. It is mainly for the race detector.
func TestDeriveConcurrently(t *testing.T) {
	cfg := decodeConfig()
	cfg.LogBytes = 4000
	s := newStore(t, cfg)
	addNodeIndexes(t, s)
	var stop atomic.Bool
	var writing, others sync.WaitGroup
	w := s.Writer(Scope{})
	writing.Go(func() { writeAtRandom(t, w) })
	for range 3 {
		c := s.Cursor()
		others.Go(func() {
			defer c.Close()
			handleAndScribble(t, s, c, &stop)
		})
	}
	for _, index := range []string{"node", "reading", "other"} {
		others.Go(func() {
			var old *Snapshot
			for i := 0; !stop.Load(); i++ {
				sn := s.Snapshot()
				if old == nil || i%10 == 0 {
					old = sn
				}
				findRight(t, sn, index, strconv.Itoa(i%5))
				findRight(t, old, index, strconv.Itoa(i%5))
			}
		})
	}
	writing.Wait()
	stop.Store(true)
	others.Wait()
	sn := s.Snapshot()
	for _, index := range []string{"node", "reading", "other"} {
		n := 0
		for v := range 5 {
			n += findRight(t, sn, index, strconv.Itoa(v))
		}
		if n != sn.Len() {
			t.Errorf("%s: %d found of %d", index, n, sn.Len())
		}
	}
}

// addNodeIndexes adds three indexes by node. The function of one of them reads the store.
func addNodeIndexes(t *testing.T, s *Store) {
	t.Helper()
	value := func(v any) ([]string, error) { return []string{v.(*corev1.Pod).Spec.NodeName}, nil }
	reading := func(v any) ([]string, error) {
		pod := v.(*corev1.Pod)
		if o, ok := s.Get(pod.Name); ok {
			if _, err := o.Decoded(); err != nil {
				t.Error(err)
			}
		}
		if _, err := s.Snapshot().By("other", pod.Spec.NodeName); err != nil {
			t.Error(err)
		}
		return []string{pod.Spec.NodeName}, nil
	}
	for name, fn := range map[string]func(any) ([]string, error){"node": value, "other": value, "reading": reading} {
		check.NoError(t, s.AddIndex(name, FuncIndex(fn)))
	}
}

func writeAtRandom(t *testing.T, w *Writer) {
	rnd := newRand(1)
	for rv := range 1500 {
		i := rnd.IntN(100)
		pod := smallPod("", "p"+strconv.Itoa(i), rnd.IntN(3)+3*i, 1+rv, nil, strconv.Itoa(rnd.IntN(5)))
		if rnd.IntN(5) == 0 {
			deletePod(t, w, pod)
		} else {
			putPod(t, w, pod)
		}
		if rnd.IntN(8) == 0 {
			w.Flush()
		}
	}
	w.Flush()
}

// findRight returns the number of objects that an index finds under value. It checks that these
// objects are in the snapshot, have the value, and are in key order.
func findRight(t *testing.T, sn *Snapshot, index, value string) int {
	t.Helper()
	objects, err := sn.AppendBy(nil, index, value)
	if err != nil {
		t.Error(err)
	}
	if !slices.IsSortedFunc(objects, func(a, b *Object) int { return compareIndexKeys(indexKey{key: a.key}, indexKey{key: b.key}) }) {
		t.Error("not in order")
	}
	for _, o := range objects {
		if held, _ := sn.Get(o.Key()); held != o {
			t.Errorf("%s is found in another version than the snapshot's", o.Key())
		}
		if v, err := o.DecodeCopy(); err != nil || v.(*corev1.Pod).Spec.NodeName != value {
			t.Errorf("%s: %s does not have the value %s", index, o.Key(), value)
		}
	}
	return len(objects)
}

// handleAndScribble passes copies of objects to Derive, and modifies each copy after the call, if
// no function still reads it.
func handleAndScribble(t *testing.T, s *Store, c *Cursor, stop *atomic.Bool) {
	buf := make([]Change, 7)
	for last := false; !last; {
		last = stop.Load()
		for _, ch := range buf[:c.Next(buf)] {
			if ch.New == nil {
				s.DropDerived(ch.Key())
				continue
			}
			v, err := ch.New.DecodeCopy()
			if err != nil {
				t.Error(err)
			}
			if s.Derive(ch.New, v) { // otherwise a function still reads the copy
				v.(*corev1.Pod).Spec.NodeName = "scribbled"
			}
		}
	}
}
