package watchcache

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/weirproject/weir/internal/core/resourceversion"
)

// lockedClock is a Clock that hides the unfinished part of a relist.
type lockedClock struct {
	storeClock
	mu sync.Mutex
}

func (c *lockedClock) Observe(f func(uint64)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.storeClock.Observe(f)
}

// relist calls the function change. It records the changes of this call as if a relist had found
// them: the store has all of them at the newest version, and the intermediate states are unknown.
func (tc *testCache) relist(clock *lockedClock, change func()) {
	clock.mu.Lock()
	defer clock.mu.Unlock()
	history := tc.history
	tc.history = NewHistory(0, 0, 0) // not used again: the versions that change writes are in a gap
	history.BeginRelist(tc.store.Revision(), tc.rv)
	change()
	history.AddGap(tc.rv)
	tc.rv++
	history.BeginRelist(tc.store.Revision(), tc.rv) // continues the relist above, up to the new tc.rv
	history.Add(tc.rv, tc.store.Revision())
	history.EndRelist(tc.store.Revision())
	tc.history = history
	tc.writer.Progress(resourceversion.Format(tc.rv))
}

// TestRelistIsCoalesced checks that a watcher receives the deletions of a relist before the other
// changes of the relist. A watcher with bookmarks also receives two bookmarks. The first precedes
// the deletions, and says that the changes up to the relist's version have no order. The second
// follows all changes of the relist.
func TestRelistIsCoalesced(t *testing.T) {
	for _, bookmarks := range []bool{false, true} {
		t.Run(fmt.Sprint(bookmarks), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var clock *lockedClock
				tc := newTestCache(t, 0, func(c *Config) { clock = &lockedClock{storeClock: storeClock{c.Store}}; c.Clock = clock })
				defer tc.close()
				tc.put("ns", "a", "red") // at 101
				tc.put("ns", "b", "red")
				tc.put("ns", "c", "red")
				// Both watches use the hub: by one value of the label, and by two values.
				for _, how := range []string{"labelSelector=color%3Dred", "labelSelector=color+in+(red,pink)"} {
					w := newRecorder()
					defer tc.watch(fmt.Sprintf("%s&resourceVersion=%d&allowWatchBookmarks=%v", how, tc.rv, bookmarks), w)()
					synctest.Wait()
					first := tc.rv
					tc.relist(clock, func() {
						tc.put("ns", "b", "red")  // at first+1
						tc.put("ns", "a", "blue") // at first+2
						tc.put("ns", "c", "red")  // at first+3
					})
					synctest.Wait()
					tc.put("ns", "a", "red") // at first+5
					synctest.Wait()
					at := func(format string, n uint64) string { return fmt.Sprintf(format, first+n) }
					want := []string{at("DELETED ns/a@%d", 0), at("MODIFIED ns/b@%d", 1), at("MODIFIED ns/c@%d", 3), at("ADDED ns/a@%d", 5)}
					if bookmarks {
						want = slices.Insert(want, 3, at("BOOKMARK@%d", 4))
						want = slices.Insert(want, 0, at("BOOKMARK@%d", 0)+at(" coalesced %d", 4))
					}
					if got := w.events(t); !slices.Equal(got, want) {
						t.Errorf("%s: %v, want %v", how, got, want)
					}
				}
			})
		})
	}
}

// TestEndAfterState checks the DELETED event of an object that stopped matching at an unknown
// version. The watch started with an initial state. The event must have the resourceVersion of that
// state, and not the resourceVersion of the newest object in it.
func TestEndAfterState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock *lockedClock
		tc := newTestCache(t, 0, func(c *Config) { clock = &lockedClock{storeClock: storeClock{c.Store}}; c.Clock = clock })
		defer tc.close()
		// Both watches use the hub: by one value of the label, and by two values.
		for _, how := range []string{"labelSelector=color%3Dred", "labelSelector=color+in+(red,pink)"} {
			a := tc.put("ns", "a", "red").rv
			state := tc.put("ns", "b", "blue").rv
			w := newRecorder()
			defer tc.watch("resourceVersion=0&"+how, w)()
			synctest.Wait()
			tc.relist(clock, func() { tc.put("ns", "a", "blue") })
			synctest.Wait()
			want := []string{fmt.Sprintf("ADDED ns/a@%d", a), fmt.Sprintf("DELETED ns/a@%d", state)}
			if got := w.events(t); !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", how, got, want)
			}
		}
	})
}

// TestExpireRelisted checks that ExpireLate ends a watch that still has to receive changes of a
// relist, as if it had fallen behind. A watch that starts after the relist must continue.
func TestExpireRelisted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock *lockedClock
		tc := newTestCache(t, 0, func(c *Config) {
			clock = &lockedClock{storeClock: storeClock{c.Store}}
			c.Clock, c.ExpireLate = clock, true
		})
		defer tc.close()
		// Both watches use the hub: by one value of the label, and by two values.
		for _, how := range []string{"labelSelector=color%3Dred", "labelSelector=color+in+(red,pink)"} {
			before, after := newRecorder(), newRecorder()
			defer tc.watch(fmt.Sprintf("%s&resourceVersion=%d", how, tc.rv), before)()
			synctest.Wait()
			tc.relist(clock, func() { tc.put("ns", "a", "red") })
			synctest.Wait()
			defer tc.watch(fmt.Sprintf("%s&resourceVersion=%d", how, tc.rv), after)()
			synctest.Wait()
			b := tc.put("ns", "b", "red")
			synctest.Wait()
			if got := before.events(t); !slices.Equal(got, []string{"ERROR 410"}) {
				t.Errorf("%s: %v", how, got)
			}
			if got, want := after.events(t), fmt.Sprintf("ns/b@%d", b.rv); len(got) != 1 || !strings.HasSuffix(got[0], want) {
				t.Errorf("%s, later: %v, want %s", how, got, want)
			}
		}
	})
}

// TestRelistedRevisions checks that a history reports whether a relist added a revision. For
// revisions up to the end of the last forgotten relist, it must report that a relist added them.
func TestRelistedRevisions(t *testing.T) {
	h := NewHistory(0, 10, 5)
	if _, ok := h.relisted(6); ok {
		t.Error("relisted without a relist")
	}
	h.BeginRelist(7, 20)
	if rv, ok := h.relisted(9); !ok || rv != 20 {
		t.Errorf("while it runs: %d, %v", rv, ok)
	}
	if h.BeginRelist(8, 25); h.relists[0].rv != 25 {
		t.Error("a relist that goes on is one")
	}
	h.EndRelist(9)
	for revision, want := range map[uint64]bool{6: false, 7: false, 8: true, 9: true, 10: false} {
		if _, ok := h.relisted(revision); ok != want {
			t.Errorf("%d: %v", revision, ok)
		}
	}
	for i := range uint64(maxRelists + 1) {
		h.BeginRelist(100+10*i, 100)
		h.EndRelist(105 + 10*i)
	}
	if _, ok := h.relisted(97); !ok || len(h.relists) != maxRelists {
		t.Errorf("what is forgotten does not count as relisted: %v, %d are kept", ok, len(h.relists))
	}
	if h.Reset(30, 2000); h.relistedTo.Load() != 2000 || len(h.relists) > 0 {
		t.Error("a reset leaves relists")
	}
}

// TestCoalescedOverflow checks a watch that ends because its client is slow. It must send no
// bookmark, because a bookmark would say that the client has received all coalesced changes.
func TestCoalescedOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := newTestCache(t, 1<<20, func(c *Config) { c.WatchBuffer = func() int { return 10 } })
		defer tc.close()
		from := tc.rv
		tc.relist(&lockedClock{}, func() { tc.put("ns", "first", "red") })
		for i := range 500 {
			tc.put("ns", fmt.Sprint("t", i), "red")
		}
		w := newRecorder()
		defer tc.watch(fmt.Sprintf("resourceVersion=%d&allowWatchBookmarks=1&labelSelector=color+in+(red,pink)", from), w)()
		synctest.Wait()
		if got := w.events(t); len(got) > 500 || slices.Contains(got, fmt.Sprintf("BOOKMARK@%d", tc.rv)) {
			t.Errorf("%d events, the last of them %v", len(got), got[len(got)-2:])
		}
	})
}
