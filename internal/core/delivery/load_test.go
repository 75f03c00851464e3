package delivery

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// load changes two objects every 5 ms, in turn, until the context ends.
func (w *testStore) load(ctx context.Context, all []string) {
	for i := 0; ctx.Err() == nil; i += 2 {
		w.put(all[i%len(all)], "")
		w.put(all[(i+1)%len(all)], "")
		time.Sleep(5 * time.Millisecond)
	}
}

// TestSyncedUnderSteadyLoad checks that a handler that lags is synced exactly when it has handled
// the objects of the first list. The handler needs 10 ms per event, and two objects change every 5
// ms.
func TestSyncedUnderSteadyLoad(t *testing.T) {
	testenv.SkipUnderRace(t)
	const objects = 1000
	for _, tc := range []struct {
		name string
		cfg  store.Config
		late bool // the handler is added after the list
	}{
		{"log", store.Config{}, false},
		{"no log", store.Config{LogBytes: 1}, false},
		{"small log", store.Config{LogBytes: 40 << 10}, false},
		{"late, no log", store.Config{LogBytes: 1}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				w := newTestStore(t, tc.cfg)
				var r *Registration
				calls, initial, syncedAfter := 0, map[string]bool{}, -1
				handle := func(_ context.Context, e store.Change) {
					if r.HasSynced() && syncedAfter < 0 {
						syncedAfter = calls
						check.Equal(t, len(initial), objects, "synced when objects were delivered")
					}
					calls++
					initial[e.Key()] = true
					time.Sleep(10 * time.Millisecond)
				}
				all := names(objects)
				if tc.late {
					w.sync(all...)
				}
				r = New(w.store, handle, Options{})
				go r.Run(ctx)
				if !tc.late {
					w.sync(all...)
				}
				var loading sync.WaitGroup
				loading.Go(func() { w.load(ctx, all) })
				time.Sleep(12 * time.Second)
				cancel()
				<-r.Done()
				loading.Wait()
				if syncedAfter != objects {
					t.Errorf("synced after %d calls of %d, want after %d", syncedAfter, calls, objects)
				}
			})
		})
	}
}

// TestResyncNowUnderSteadyLoad checks that a requested resync starts soon and delivers the
// unchanged objects. It must not deliver a version that is older than one that the handler has
// received.
func TestResyncNowUnderSteadyLoad(t *testing.T) {
	testenv.SkipUnderRace(t)
	for _, cfg := range []store.Config{{}, {LogBytes: 1}, {LogBytes: 20 << 10}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			w := newTestStore(t, cfg)
			all := names(400)
			var r *Registration
			asked, first, calls := 0, 0, 0
			resynced, seen := map[string]int{}, map[string]uint64{}
			r = New(w.store, func(_ context.Context, e store.Change) {
				calls++
				rv, _ := e.Object().ResourceVersionNumber()
				if rv < seen[e.Key()] || e.Type() == store.Resynced && rv != seen[e.Key()] {
					t.Errorf("%s: %s at %d, but %d was seen", e.Key(), e.Type(), rv, seen[e.Key()])
				}
				if seen[e.Key()] = rv; e.Type() == store.Resynced {
					if resynced[e.Key()]++; first == 0 {
						first = calls
					}
				}
				if calls == 500 {
					asked = calls
					r.ResyncNow()
				}
				time.Sleep(10 * time.Millisecond)
			}, Options{})
			w.sync(all...)
			go r.Run(ctx)
			var loading sync.WaitGroup
			loading.Go(func() { w.load(ctx, all[:200]) })
			time.Sleep(12 * time.Second)
			cancel()
			<-r.Done()
			loading.Wait()
			if first == 0 || first-asked > batchSize {
				t.Errorf("asked for at call %d, the resync began at call %d", asked, first)
			}
			for _, name := range all[200:] {
				check.Equal(t, resynced["d/"+name], 1, "%s was resynced times", name)
			}
		})
	}
}

// TestSweepOfNothing checks that the sweep does not poll an empty store, and continues when the
// store has an object.
func TestSweepOfNothing(t *testing.T) {
	inBubble(t, store.Config{}, func(t *testing.T, w *testStore) {
		began := time.Now()
		var log []string
		r := New(w.store, func(_ context.Context, e store.Change) {
			log = append(log, fmt.Sprintf("%s after %s", line(e), time.Since(began)))
		}, Options{Resync: time.Minute})
		w.run(r)
		synctest.Wait()
		if d, ok := r.sweep.next(time.Now()); ok {
			t.Errorf("an empty store that has not synced is looked at again after %s", d)
		}
		w.sync()
		synctest.Wait()
		if d, ok := r.sweep.next(time.Now()); ok {
			t.Errorf("an empty store is looked at again after %s", d)
		}
		time.Sleep(time.Hour)
		w.put("a", "")
		time.Sleep(61 * time.Second)
		synctest.Wait()
		expect(t, log, `
ADDED d/a -→1 after 1h0m0s
RESYNC d/a 1→1 after 1h1m0s`)
	})
}

// TestCloseAndRunTwice checks that a registration runs once and can be closed at any time. Further
// calls of Run and Close must be no-ops.
func TestCloseAndRunTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestStore(t, store.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()

		r, log := w.follow(Options{})
		w.sync("a")
		synctest.Wait()
		r.Run(ctx) // it is running
		r.Close()
		<-r.Done()
		r.Close()
		r.Run(ctx) // it has run
		w.put("b", "")
		synctest.Wait()
		expect(t, *log, `ADDED d/a -→1 initial`)

		never := New(w.store, func(context.Context, store.Change) { t.Error("called") }, Options{})
		never.Close()
		never.Run(ctx)
		never.Close()
		<-never.Done()

		ended, stop := context.WithCancel(ctx)
		stop()
		late := New(w.store, func(context.Context, store.Change) { t.Error("called") }, Options{})
		late.Run(ended)
		<-late.Done()
		late.Close()
	})
}

// TestSyncedWithinBatch checks a handler in the middle of a batch of changes of one writer.
// While it handles the first change, another writer lists an object whose change is later in the
// batch. The handler must be synced when it has handled that object, and not before.
func TestSyncedWithinBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		one := newTestStore(t, store.Config{})
		two := &testStore{t: t, store: one.store, writer: one.store.Writer(store.Scope{Owner: 1})}
		var r *Registration
		synced := map[string]bool{}
		r = New(one.store, func(_ context.Context, e store.Change) {
			if e.Key() == "d/a" {
				two.rv = 2
				two.sync("b") // the same version of b that the first writer has put
			}
			synced[e.Key()] = r.HasSynced()
			time.Sleep(time.Second)
		}, Options{})
		go r.Run(ctx)
		synctest.Wait()
		one.writer.BeginReplace(false)
		one.writer.EndReplace("0")
		one.put("first", "")
		synctest.Wait() // three more changes arrive during the call
		one.put("a", "")
		one.put("b", "")
		one.put("c", "")
		time.Sleep(time.Minute)
		cancel()
		<-r.Done()
		if want := map[string]bool{"d/first": false, "d/a": false, "d/b": false, "d/c": true}; !maps.Equal(synced, want) {
			t.Errorf("synced when it was told of a key: %v, want %v", synced, want)
		}
	})
}
