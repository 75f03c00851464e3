package store

import (
	"runtime"
	"strconv"
	"testing"
	"weak"
)

// TestFuncIndexHoldsFewOldVersions: an index that is not queried any more holds on to few of the versions that it has seen.
func TestFuncIndexHoldsFewOldVersions(t *testing.T) {
	const n = 4 * dirtySlack
	s := newStore(t, decodeConfig())
	if err := s.AddIndex("one", FuncIndex(func(any) ([]string, error) { return []string{"1"}, nil })); err != nil {
		t.Fatal(err)
	}
	w := fillPods(t, s, n)
	found := func() (n int) {
		objects, err := s.Snapshot().By("one", "1")
		if err != nil {
			t.Fatal(err)
		}
		for o := range objects {
			if held, _ := s.Get(o.Key()); held != o {
				t.Fatalf("%s is found in an old version", o.Key())
			}
			n++
		}
		return n
	}
	if got := found(); got != n {
		t.Fatalf("%d found", got)
	}
	var old []weak.Pointer[Object]
	for o := range s.Snapshot().All() {
		old = append(old, weak.Make(o))
	}
	for i := range n - 1 {
		putPod(t, w, smallPod("", "p"+strconv.Itoa(i), i, 100_000+i, nil, "again"))
	}
	w.Flush()
	runtime.GC()
	alive := 0
	for _, p := range old {
		if p.Value() != nil {
			alive++
		}
	}
	if alive > dirtySlack {
		t.Errorf("of %d versions that were replaced %d are still there", n-1, alive)
	}
	if got := found(); got != n {
		t.Errorf("%d found after that", got)
	}
	deletePod(t, w, smallPod("", "p3", 3, 200_000, nil, ""))
	putPod(t, w, smallPod("", "new", n, 200_001, nil, "")) // which gets the number of the one deleted
	w.Flush()
	if got := found(); got != n {
		t.Errorf("%d found at last", got)
	}
}
