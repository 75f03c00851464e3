package store

import (
	"runtime"
	"slices"
	"strconv"
	"testing"
	"weak"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// TestFuncIndexOfOldSnapshotsKeepsNothing checks that an index keeps no replaced version in memory
// after queries with a snapshot from before the replacement. There are three cases: the index is
// built from that snapshot, it was built earlier, or it catches up to that snapshot.
func TestFuncIndexOfOldSnapshotsKeepsNothing(t *testing.T) {
	testenv.SkipUnderRace(t)
	const n = 2 * dirtySlack
	for _, tc := range []struct {
		name          string
		before, after int // number of queries before, and after, the objects are replaced
		// The number of objects that are added, in addition to the first n, after the first queries and
		// before the last snapshot.
		fresh    int
		replaced int
	}{
		{"built from it", 0, 1, 0, n},
		{"built before", 1, 2, 0, n},
		{"caught up with it", 1, 2, 1, n},
		{"many caught up with", 1, 2, n, n},
		// The number of replaced objects is so low that no writer drops the cache of found objects.
		{"few replaced", 1, 2, 1, dirtySlack / 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStore(t, decodeConfig())
			check.NoError(t, s.AddIndex("one", FuncIndex(func(any) ([]string, error) { return []string{"1"}, nil })))
			w := fillPods(t, s, n)
			old := s.Snapshot()
			query := func(times int) {
				for range times {
					objects, err := old.By("one", "1")
					if got := len(slices.Collect(objects)); err != nil || got != old.Len() {
						t.Errorf("%d found, want %d (%v)", got, old.Len(), err)
					}
				}
			}
			query(tc.before)
			for i := range tc.fresh {
				putPod(t, w, smallPod("", "q"+strconv.Itoa(i), n+i, 50_000+i, nil, ""))
			}
			w.Flush()
			old = s.Snapshot()
			var versions []weak.Pointer[Object]
			for i := range tc.replaced {
				versions = append(versions, weak.Make(get(t, s, "p"+strconv.Itoa(i))))
			}
			for i := range tc.fresh {
				versions = append(versions, weak.Make(get(t, s, "q"+strconv.Itoa(i))))
			}
			for i := range tc.replaced {
				putPod(t, w, smallPod("", "p"+strconv.Itoa(i), i, 100_000+i, nil, "again"))
			}
			for i := range tc.fresh {
				putPod(t, w, smallPod("", "q"+strconv.Itoa(i), n+i, 200_000+i, nil, "again"))
			}
			w.Flush()
			query(tc.after)
			old = nil
			_ = s.Snapshot()
			runtime.GC()
			alive := 0
			for _, p := range versions {
				if p.Value() != nil {
					alive++
				}
			}
			if alive > 0 {
				t.Errorf("of %d versions that were replaced %d are still there", len(versions), alive)
			}
		})
	}
}

// TestFuncIndexKeepsFewOldVersions checks that an index that is not queried any more keeps at most
// dirtySlack replaced versions in memory.
func TestFuncIndexKeepsFewOldVersions(t *testing.T) {
	testenv.SkipUnderRace(t)
	const n = 4 * dirtySlack
	s := newStore(t, decodeConfig())
	check.NoError(t, s.AddIndex("one", FuncIndex(func(any) ([]string, error) { return []string{"1"}, nil })))
	w := fillPods(t, s, n)
	found := func() (n int) {
		objects, err := s.Snapshot().By("one", "1")
		check.NoError(t, err)
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
	check.Equal(t, found(), n, "found after that")
	deletePod(t, w, smallPod("", "p3", 3, 200_000, nil, ""))
	putPod(t, w, smallPod("", "new", n, 200_001, nil, "")) // then there are n pods again
	w.Flush()
	check.Equal(t, found(), n, "found at last")
}
