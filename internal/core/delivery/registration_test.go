package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/testing/check"
)

// line formats an event as one line of a log that the test cases below expect.
func line(e store.Change) string {
	version := func(o *store.Object) string {
		if o == nil {
			return "-"
		}
		return o.ResourceVersion()
	}
	s := fmt.Sprintf("%s %s %s→%s", e.Type(), e.Key(), version(e.Old), version(e.New))
	if e.Initial {
		s += " initial"
	}
	if e.Coalesced {
		s += " coalesced"
	}
	switch {
	case e.FinalStateUnknown():
		s += " unknown"
	case e.Type() == store.Deleted && e.ResourceVersion != 0:
		s += fmt.Sprintf(" at %d", e.ResourceVersion)
	}
	if e.Refused {
		s += " refused"
	}
	return s
}

func expect(t *testing.T, got []string, want string) {
	t.Helper()
	check.Equal(t, strings.Join(got, "\n"), strings.TrimSpace(want))
}

func TestEveryChangeInOrder(t *testing.T) {
	inBubble(t, store.Config{}, func(t *testing.T, w *testStore) {
		r, log := w.follow(Options{})
		synctest.Wait()
		if r.HasSynced() {
			t.Error("synced before the first list has ended")
		}
		w.sync("a", "b")
		synctest.Wait()
		if !r.HasSynced() {
			t.Error("not synced after the first list")
		}
		w.put("a", "")
		w.put("a", "")
		w.del("b")
		w.put("b", "")
		synctest.Wait()
		expect(t, *log, `
ADDED d/a -→1 initial
ADDED d/b -→2 initial
MODIFIED d/a 1→3
MODIFIED d/a 3→4
DELETED d/b 2→- at 5
ADDED d/b -→6`)
	})
}

func TestLateHandlerGetsTheStateFirst(t *testing.T) {
	inBubble(t, store.Config{}, func(t *testing.T, w *testStore) {
		w.sync("a", "b")
		w.put("a", "")
		r, log := w.follow(Options{})
		synctest.Wait()
		w.put("c", "")
		synctest.Wait()
		if !r.HasSynced() {
			t.Error("a handler that has the state is not synced")
		}
		slices.Sort((*log)[:2])
		expect(t, *log, `
ADDED d/a -→3 initial
ADDED d/b -→2 initial
ADDED d/c -→4`)
	})
}

func TestResyncNow(t *testing.T) {
	inBubble(t, store.Config{}, func(t *testing.T, w *testStore) {
		w.sync("a", "b")
		r, log := w.follow(Options{Filter: func(o *store.Object) bool { return o.Name() != "b" }})
		synctest.Wait()
		r.ResyncNow()
		synctest.Wait()
		w.put("c", "")
		synctest.Wait()
		expect(t, *log, `
ADDED d/a -→1 initial
RESYNC d/a 1→1
ADDED d/c -→3`)
	})
}

func TestFilterTurnsUpdatesIntoAddsAndDeletes(t *testing.T) {
	inBubble(t, store.Config{}, func(t *testing.T, w *testStore) {
		_, log := w.follow(Options{Filter: func(o *store.Object) bool {
			app, _ := o.Label("app")
			return app == "web"
		}})
		w.sync()
		for _, app := range []string{"db", "web", "web", "db", "db", "web"} {
			w.put("a", app)
		}
		w.del("a")
		w.put("b", "db")
		w.del("b")
		synctest.Wait()
		expect(t, *log, `
ADDED d/a -→2
MODIFIED d/a 2→3
DELETED d/a 3→- at 4 refused
ADDED d/a -→6
DELETED d/a 6→- at 7`)
	})
}

func TestPanicHurtsOnlyItsOwnCall(t *testing.T) {
	inBubble(t, store.Config{}, func(t *testing.T, w *testStore) {
		boom := errors.New("boom")
		var panics []*PanicError
		var calls int
		bad := New(w.store, func(_ context.Context, e store.Change) {
			calls++
			if e.Key() == "d/b" {
				panic(boom)
			}
		}, Options{Name: "bad", OnPanic: func(e *PanicError) { panics = append(panics, e) }})
		w.run(bad)
		_, log := w.follow(Options{})
		w.sync("a", "b", "c")
		synctest.Wait()
		if len(*log) != 3 || calls != 3 {
			t.Errorf("the other handler got %d events and this one %d calls, want 3 and 3", len(*log), calls)
		}
		if len(panics) != 1 || panics[0].Key != "d/b" || !errors.Is(panics[0], boom) || len(panics[0].Stack) == 0 {
			t.Errorf("told of %v", panics)
		}
		if s := bad.Stats(); s.Panics != 1 || s.Handled != 3 {
			t.Errorf("stats %+v", s)
		}
	})
}

// TestBlockedHandler checks that a handler that blocks has at most one pending event per key
// (client-go issue 1326).
func TestBlockedHandler(t *testing.T) {
	inBubble(t, store.Config{LogBytes: 4 << 10}, func(t *testing.T, w *testStore) {
		release := make(chan struct{})
		var log []string
		blocked := New(w.store, func(_ context.Context, e store.Change) {
			<-release
			log = append(log, line(e))
		}, Options{})
		w.run(blocked)
		_, seen := w.follow(Options{})
		w.sync("a", "b", "c")
		for range 1000 {
			w.put("a", "")
			w.put("b", "")
			synctest.Wait()
		}
		w.del("c")
		synctest.Wait()
		check.Equal(t, len(*seen), 3+2000+1, "the other handler saw changes")
		s := blocked.Stats()
		if s.Pending > 3 || s.Pending == 0 || s.Lag == 0 {
			t.Errorf("a handler blocked through 2,000 changes of 3 keys has %d pending, lag %d", s.Pending, s.Lag)
		}
		close(release)
		synctest.Wait()
		checkChains(t, log, map[string]string{"d/a": "2002", "d/b": "2003"})
		if len(log) > 1000 {
			t.Errorf("%d events after the block: nothing was coalesced", len(log))
		}
	})
}

// checkChains checks that the old version in each event is the version in the previous event of the
// key. It also checks the last version of each key.
func checkChains(t *testing.T, log []string, want map[string]string) {
	t.Helper()
	last := map[string]string{}
	for _, l := range log {
		fields := strings.Fields(l)
		from, to, _ := strings.Cut(fields[2], "→")
		have, ok := last[fields[1]]
		if !ok {
			have = "-"
		}
		if from != have {
			t.Errorf("%s, but the handler had %s", l, have)
		}
		if last[fields[1]] = to; to == "-" {
			delete(last, fields[1])
		}
	}
	check.Equal(t, fmt.Sprint(last), fmt.Sprint(want), "the handler ends with")
}

func TestStopWhileBusy(t *testing.T) {
	inBubble(t, store.Config{}, func(t *testing.T, w *testStore) {
		ctx, cancel := context.WithCancel(t.Context())
		var calls int
		r := New(w.store, func(ctx context.Context, _ store.Change) {
			calls++
			<-ctx.Done()
		}, Options{})
		go r.Run(ctx)
		w.sync("a", "b", "c")
		time.Sleep(time.Second)
		check.Equal(t, r.Stats().Busy, time.Second, "busy for")
		cancel()
		<-r.Done()
		check.Equal(t, calls, 1, "calls")
	})
}
