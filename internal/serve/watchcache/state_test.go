package watchcache

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// TestStatesAgainstModel writes at random and requests every earlier state: with Exact, in pages,
// with and without selectors. The model is a map of the objects, copied at each resourceVersion.
func TestStatesAgainstModel(t *testing.T) {
	testenv.SkipUnderRace(t)
	for seed := range uint64(10) {
		for _, indexed := range []bool{false, true} {
			t.Run(fmt.Sprintf("seed %d indexed %v", seed, indexed), func(t *testing.T) {
				tc := newTestCache(t, 1<<20, nil)
				defer tc.close()
				if indexed {
					tc.indexColors()
				}
				rnd := rand.New(rand.NewPCG(seed, 0))
				model := map[string]thing{}
				states := map[uint64]map[string]thing{firstVersion: {}}
				for range 200 {
					ns, name := fmt.Sprint("ns", rnd.IntN(3)), fmt.Sprint("t", rnd.IntN(12))
					if _, ok := model[ns+"/"+name]; ok && rnd.IntN(3) == 0 {
						tc.remove(ns, name)
						delete(model, ns+"/"+name)
					} else {
						model[ns+"/"+name] = tc.put(ns, name, []string{"red", "blue"}[rnd.IntN(2)])
					}
					states[tc.rv] = maps.Clone(model)
				}
				for rv, state := range states {
					checkState(t, tc, rnd, rv, state)
				}
			})
		}
	}
}

// checkState requests the state at rv in a random way.
func checkState(t *testing.T, tc *testCache, rnd *rand.Rand, rv uint64, state map[string]thing) {
	t.Helper()
	query := fmt.Sprintf("resourceVersionMatch=Exact&resourceVersion=%d", rv)
	limit := ""
	if rnd.IntN(2) == 0 {
		limit = fmt.Sprintf("&limit=%d", 1+rnd.IntN(5))
	}
	namespace, color, selector := "", "", ""
	if rnd.IntN(3) == 0 {
		namespace = fmt.Sprint("ns", rnd.IntN(4))
	}
	switch rnd.IntN(3) {
	case 0:
		color, selector = "red", "&labelSelector=color%3Dred"
	case 1:
		color, selector = "blue", "&fieldSelector=spec.color%3Dblue"
	}
	var want []string
	for _, key := range slices.Sorted(maps.Keys(state)) {
		th := state[key]
		if (namespace == "" || th.namespace == namespace) && (color == "" || th.color == color) {
			want = append(want, fmt.Sprintf("%s@%d", key, th.rv))
		}
	}
	var got []string
	for {
		l := tc.list(namespace, query+limit+selector)
		if l.Code != 0 || l.Metadata.ResourceVersion != fmt.Sprint(rv) {
			t.Fatalf("%s %s: %d %s at %s", namespace, query+limit+selector, l.Code, l.Reason, l.Metadata.ResourceVersion)
		}
		got = append(got, l.names()...)
		if l.Metadata.Continue == "" {
			break
		}
		query = "continue=" + l.Metadata.Continue
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%s at %d:\ngot  %s\nwant %s", namespace+selector+limit, rv, strings.Join(got, " "), strings.Join(want, " "))
	}
}

// TestStateCache checks that a LIST can continue from a state that the log does not contain any
// more, unless too many paginated LISTs have started since.
func TestStateCache(t *testing.T) {
	tc := newTestCache(t, 2000, nil)
	defer tc.close()
	for i := range 5 {
		tc.put("ns", fmt.Sprint("t", i), "red")
	}
	first := tc.list("", "limit=2")
	churn := func() {
		for i := range 60 {
			tc.put("ns", fmt.Sprint("t", i%5), fmt.Sprint("round", i))
		}
	}
	churn()
	if l := tc.list("", fmt.Sprintf("resourceVersionMatch=Exact&resourceVersion=%d", firstVersion+2)); l.Code != 410 {
		t.Fatalf("the log still reaches back, so the test shows nothing: %+v", l)
	}
	l := tc.list("", "continue="+first.Metadata.Continue)
	check.Equal(t, strings.Join(l.names(), " "), "ns/t2@103 ns/t3@104 ns/t4@105")
	for range maxCachedStates {
		tc.put("ns", "t0", "red")
		tc.list("", "limit=2")
	}
	churn()
	l = tc.list("", "continue="+first.Metadata.Continue)
	if l.Code != 410 || l.Reason != "Expired" || l.Metadata.Continue == "" {
		t.Fatalf("got %+v", l)
	}
	// The token returns the rest of the list, at the current state. A replica that is behind the first
	// page waits, and answers 504 if it does not catch up.
	if rest := tc.list("", "continue="+l.Metadata.Continue); len(rest.Items) != 3 || rest.Metadata.ResourceVersion != resourceversion.Format(tc.rv) {
		t.Errorf("the rest: %+v", rest)
	}
	synctest.Test(t, func(t *testing.T) {
		behind := newTestCache(t, 2000, nil)
		defer behind.close()
		if rest := behind.list("", "continue="+l.Metadata.Continue); rest.Code != 504 {
			t.Errorf("of a replica that is behind: %+v", rest)
		}
	})
}

// TestCompactTo checks that requests for states before the compaction receive 410 with
// kube-apiserver's message. It makes no difference whether the log or the cache of paged states
// contains the state. Later states are served as before.
func TestCompactTo(t *testing.T) {
	tc := newTestCache(t, 0, nil)
	defer tc.close()
	tc.put("ns", "a", "red")
	two := tc.put("ns", "b", "red").rv
	page := tc.list("", "limit=1")
	three := tc.put("ns", "c", "red").rv
	tc.put("ns", "d", "red")
	exactly := func(rv uint64) list {
		return tc.list("", fmt.Sprintf("resourceVersionMatch=Exact&resourceVersion=%d", rv))
	}
	tc.cache.CompactTo(two)
	if l := exactly(two); l.Code != 0 || len(l.Items) != 2 {
		t.Errorf("what is not forgotten: %+v", l)
	}
	tc.cache.CompactTo(three)
	tc.cache.CompactTo(two) // does not make expired states available again
	if l := exactly(two); l.Code != 410 || l.Reason != "Expired" || l.Message != "The resourceVersion for the provided list is too old." {
		t.Errorf("what is forgotten: %+v", l)
	}
	if l := tc.list("", "continue="+page.Metadata.Continue); l.Code != 410 || l.Metadata.Continue == "" {
		t.Errorf("a page of it: %+v", l)
	}
	if l := exactly(three); l.Code != 0 || len(l.Items) != 3 {
		t.Errorf("what is left: %+v", l)
	}
	tc.cache.Compact()
	for rv, want := range map[string]bool{"no number": false, fmt.Sprint(three): false, fmt.Sprint(tc.rv): true, fmt.Sprint(tc.rv + 1): true} {
		check.Equal(t, tc.cache.CanResumeFrom(rv), want, "can resume from %s", rv)
	}
	if l := tc.list("", ""); l.Code != 0 || len(l.Items) != 4 {
		t.Errorf("what there is: %+v", l)
	}
}

func TestHistory(t *testing.T) {
	h := NewHistory(4, 10, 1)
	for i := range uint64(20) {
		h.Add(20+i*10, 2+i)
		for rv := range uint64(240) {
			newest := 20 + i*10 // rv of the newest point; there are up to four points
			oldest := uint64(10)
			if i >= 3 {
				oldest = newest - 30
			}
			least, most, err := h.resumeRange(rv)
			ok := err == nil
			if ok != (rv >= oldest) {
				t.Fatalf("after %d: revisions(%d) ok=%v", newest, rv, ok)
			}
			if want := min(rv, newest) / 10; ok && (least != want || most != want) {
				t.Fatalf("after %d: revisions(%d) = %d, %d", newest, rv, least, most)
			}
		}
	}
	h.Reset(5, 7)
	if least, most, err := h.resumeRange(6); err != nil || least != 7 || most != 7 {
		t.Errorf("after Reset: %d %d %v", least, most, err)
	}
	h.AddGap(10)
	h.Add(15, 9)
	for rv, want := range map[uint64]error{4: errCompacted, 9: nil, 10: errGap, 14: errGap, 15: nil, 99: nil} {
		if _, _, err := h.resumeRange(rv); !errors.Is(err, want) {
			t.Errorf("torn from 10 to 15: at %d %v", rv, err)
		}
	}
}

// TestHistoryWithoutVersion checks that watchers at the newest resourceVersion receive changes that
// have no separate resourceVersion, if the log still contains them.
func TestHistoryWithoutVersion(t *testing.T) {
	h := NewHistory(0, 10, 1)
	h.Add(20, 2)
	h.Add(20, 3)
	h.Add(15, 4)
	for rv, want := range map[uint64][2]uint64{10: {1, 1}, 15: {1, 1}, 20: {2, 4}, 30: {2, 4}} {
		if least, most, err := h.resumeRange(rv); err != nil || [2]uint64{least, most} != want {
			t.Errorf("revisions(%d) = %d, %d, %v, want %v", rv, least, most, err, want)
		}
	}
	h.Add(40, 5)
	if least, most, err := h.resumeRange(20); err != nil || least != 2 || most != 2 {
		t.Errorf("later: %d, %d, %v", least, most, err)
	}
}

// TestChangeQueue checks that a queue returns changes in their order. When it coalesces, it returns
// one change per key, even if changes are added in several rounds. This happens when the log is
// trimmed while a watcher reads.
func TestChangeQueue(t *testing.T) {
	tc := newTestCache(t, 0, nil)
	defer tc.close()
	version := func(name string) *store.Object {
		tc.put("ns", name, "red")
		o, _ := tc.store.Get("ns/" + name)
		return o
	}
	a1, a2, a3, b1, b2, c1 := version("a"), version("a"), version("a"), version("b"), version("b"), version("c")
	changes := []store.Change{
		{Revision: 2, Old: a1, New: a2}, {Revision: 4, Old: b1, New: b2}, {Revision: 6, New: c1}, {Revision: 7, Old: c1},
		{Revision: 8, Old: a2, New: a3},
	}
	coalesced := []store.Change{{Revision: 4, Old: b1, New: b2}, {Revision: 8, Old: a1, New: a3, Coalesced: true}}
	var held heldChanges
	for from := range len(changes) + 1 { // the number of changes before it coalesces
		q := &changeQueue{held: &held}
		for i, ch := range changes {
			if i == from {
				q.coalesce()
			}
			q.add(ch)
			q.check(nil)
		}
		want := changes
		if from < len(changes) {
			q.compact()
			want = coalesced
		}
		if !slices.Equal(q.changes, want) {
			t.Errorf("%d in order: got %+v, want %+v", from, q.changes, want)
		}
		taken := make([]store.Change, 1)
		for range 10 * batch { // enough changes that the queue compacts itself
			q.add(store.Change{Revision: 9, Old: a3, New: a1})
			q.take(taken)
			q.check(taken)
			q.release(&taken[0])
		}
		if len(q.changes) > 2*len(changes)+batch+1 {
			t.Errorf("%d changes for two keys", len(q.changes))
		}
		if q.close(); held.bytes.Load() != 0 || len(held.versions) != 0 {
			t.Errorf("%d bytes are held of nothing", held.bytes.Load())
		}
	}
}

// count returns the number of cached states.
func (sc *stateCache) count() int {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	return len(sc.states)
}

// TestStateCacheExpires checks that a cached state expires after its time, even if clients read its
// pages in the meantime.
func TestStateCacheExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := newTestCache(t, 2000, nil)
		defer tc.close()
		for i := range 5 {
			tc.put("ns", fmt.Sprint("t", i), "red")
		}
		first := tc.list("", "limit=1")
		for i := range 60 {
			tc.put("ns", fmt.Sprint("t", i%5), fmt.Sprint("round", i))
		}
		time.Sleep(cachedStateTTL / 2)
		second := tc.list("", "limit=1") // of a newer state
		time.Sleep(cachedStateTTL/2 - time.Second)
		if l := tc.list("", "limit=1&continue="+first.Metadata.Continue); l.Code != 0 || l.Metadata.Continue == "" {
			t.Fatalf("within its time: %+v", l)
		}
		time.Sleep(2 * time.Second)
		check.Equal(t, tc.cache.pagedStates.count(), 1, "are kept")
		if l := tc.list("", "continue="+first.Metadata.Continue); l.Code != 410 || l.Metadata.Continue == "" {
			t.Errorf("after its time: %+v", l)
		}
		if l := tc.list("", "continue="+second.Metadata.Continue); l.Code != 0 {
			t.Errorf("the other one: %+v", l)
		}
		time.Sleep(cachedStateTTL)
		check.Equal(t, tc.cache.pagedStates.count(), 0, "are kept in the end")
	})
}
