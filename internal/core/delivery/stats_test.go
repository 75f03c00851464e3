package delivery

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/core/store"
)

// TestCalls checks that Stats reports the current call, the longest call of the last five to ten
// minutes, and the total time of all calls. A call that panics counts as well.
func TestCalls(t *testing.T) {
	inBubble(t, store.Config{}, func(t *testing.T, w *testStore) {
		took := map[string]time.Duration{"d/a": time.Second, "d/b": 3 * time.Second, "d/c": 2 * time.Second}
		r := New(w.store, func(_ context.Context, e store.Change) {
			time.Sleep(took[e.Key()])
			if e.Key() == "d/b" {
				panic("b")
			}
		}, Options{})
		w.run(r)
		call := func(name string, longest, spent time.Duration) {
			t.Helper()
			w.put(name, "")
			time.Sleep(took["d/"+name] / 2)
			s := r.Stats()
			if half := took["d/"+name] / 2; s.Busy != half || s.Key != "d/"+name || s.Doing != store.Added || s.Longest != max(longest, half) || s.Spent != spent+half {
				t.Errorf("in the call of %s: %+v", name, s)
			}
			time.Sleep(took["d/"+name])
			synctest.Wait()
		}
		w.sync()
		call("a", 0, 0)
		call("b", time.Second, time.Second)
		call("c", 3*time.Second, 4*time.Second)
		if s := r.Stats(); s.Busy != 0 || s.Key != "" || s.Doing != 0 || s.Longest != 3*time.Second || s.Spent != 6*time.Second || s.Panics != 1 {
			t.Errorf("after the calls: %+v", s)
		}
		time.Sleep(longestWindow - 10*time.Second)
		if s := r.Stats(); s.Longest != 3*time.Second {
			t.Errorf("within the window: %+v", s)
		}
		time.Sleep(longestWindow + 10*time.Second)
		if s := r.Stats(); s.Longest != 0 || s.Spent != 6*time.Second {
			t.Errorf("long after: %+v", s)
		}
	})
}

// TestLongestIsPacked checks that pack and unpack preserve a window and a duration, and limit a
// duration that is too long.
func TestLongestIsPacked(t *testing.T) {
	now := windowOf(159 * 365 * 24 * time.Hour)
	for d, want := range map[time.Duration]time.Duration{
		0: 0, -time.Second: 0, 1500 * time.Nanosecond: time.Microsecond, time.Hour: time.Hour,
		math.MaxInt64: (1<<40 - 1) * time.Microsecond,
	} {
		if window, got := unpack(pack(now, d)); window != now || got != want {
			t.Errorf("%v in %d comes back as %v in %d", d, now, got, window)
		}
	}
}

// TestSwept checks that Stats reports the progress of the sweep.
func TestSwept(t *testing.T) {
	inBubble(t, store.Config{}, func(t *testing.T, w *testStore) {
		w.sync(names(1000)...)
		r := New(w.store, func(context.Context, store.Change) {}, Options{Resync: 10 * time.Second, ResyncStart: 0.5})
		w.run(r)
		for _, want := range []float64{0.6, 0.7, 0.8, 0.9, 0, 0.1, 0.2} {
			time.Sleep(time.Second)
			if s := r.Stats(); s.Resync != 10*time.Second || math.Abs(s.Swept-want) > 0.03 && math.Abs(s.Swept-want-1) > 0.03 {
				t.Errorf("%.3f of a round, want about %.1f", s.Swept, want)
			}
		}
	})
}

// TestResyncNowOfDeletedObject checks that an object that is deleted during a resync is not
// resynced after its deletion. The handler may not yet have received the deletion, or the deleted
// version.
func TestResyncNowOfDeletedObject(t *testing.T) {
	for _, tc := range []struct {
		name string
		held []string // objects in the store when the handler starts
		want string
	}{
		{"created", []string{"a"}, `
ADDED d/a -→1 initial
RESYNC d/a 1→1
ADDED d/b -→2
DELETED d/b 2→- at 3`},
		{"updated", []string{"a", "b"}, `
ADDED d/a -→1 initial
ADDED d/b -→2 initial
RESYNC d/a 1→1
DELETED d/b 2→- coalesced unknown`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, store.Config{LogBytes: 1}, func(t *testing.T, w *testStore) {
				w.uid = "one"
				w.sync(tc.held...)
				var log []string
				var r *Registration
				r = New(w.store, func(_ context.Context, e store.Change) {
					// At this time, only this handler writes to the store.
					log = append(log, line(e))
					switch {
					case len(log) == len(tc.held):
						w.put("b", "")
						r.ResyncNow()
					case e.Type() == store.Resynced && e.Key() == "d/a":
						w.del("b")
					}
				}, Options{})
				w.run(r)
				synctest.Wait()
				expect(t, log, tc.want)
			})
		})
	}
}
