package delivery

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/testing/check"
)

// run runs n handlers, which are identified by their index.
func run(ctx context.Context, s *store.Store, workers *Workers, n int, handle func(i int)) (all []*Registration) {
	for i := range n {
		r := New(s, func(context.Context, store.Change) { handle(i) }, Options{Workers: workers})
		all = append(all, r)
		go r.Run(ctx)
	}
	return all
}

func waitFor(all []*Registration) {
	for _, r := range all {
		<-r.Done()
	}
}

// TestWorkersOfBlockedHandlers checks that all other handlers receive events immediately, however
// many handlers block. A handler that no longer blocks must continue with its next event.
func TestWorkersOfBlockedHandlers(t *testing.T) {
	const handlers = 200
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := newTestStore(t, store.Config{})
		w.sync()
		var handled [handlers]atomic.Int64
		gate := make(chan struct{})
		all := run(ctx, w.store, new(Workers), handlers, func(i int) {
			if i%3 != 0 {
				<-gate
			}
			handled[i].Add(1)
		})
		for n := range int64(5) {
			w.put("a", "")
			synctest.Wait()
			for i := range handled {
				want := int64(0)
				if i%3 == 0 {
					want = n + 1
				}
				if got := handled[i].Load(); got != want {
					t.Fatalf("after %d changes handler %d was told of %d, want %d", n+1, i, got, want)
				}
			}
		}
		close(gate)
		synctest.Wait()
		for i := range handled {
			check.Equal(t, handled[i].Load(), 5, "after the block handler %d was told of changes", i)
		}
		cancel()
		waitFor(all)
	})
}

// TestIdleWorkers checks that only a few goroutines wait for work after many handlers have blocked,
// and none after the last registration has ended.
func TestIdleWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := newTestStore(t, store.Config{})
		w.sync()
		var workers Workers
		all := run(ctx, w.store, &workers, 50, func(int) { time.Sleep(time.Second) })
		synctest.Wait()
		w.put("a", "")
		synctest.Wait()
		check.Equal(t, goroutinesIn("(*Workers).serve"), 50, "workers are in 50 handlers")
		time.Sleep(2 * time.Second)
		if n := goroutinesIn("(*Workers).loop"); n > runtime.GOMAXPROCS(0) {
			t.Errorf("%d workers wait for work", n)
		}
		cancel()
		waitFor(all)
		synctest.Wait()
		if n := goroutinesIn("(*Workers).loop"); n != 0 || workers.running != 0 || workers.idle != 0 || workers.queued.Load() != 0 {
			t.Errorf("at the end there are %d workers, %d idle, and %d registrations run, %d queued", n, workers.idle, workers.running, workers.queued.Load())
		}
	})
}

// TestHandlersShareDecoded checks that the handlers of a store share decoded values, because they
// stay close to each other in the log. Together they must decode at most half as many values as if
// each handler decoded each object. Before turns were limited, each handler decoded nearly all
// objects again.
func TestHandlersShareDecoded(t *testing.T) {
	const handlers, objects = 100, 4000
	// With one processor, the workers alone determine the order.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	ctx, cancel := context.WithCancel(t.Context())
	w := newTestStore(t, store.Config{DecodedBudget: 1 << 20}) // for a few hundred
	var names []string
	for i := range objects {
		names = append(names, fmt.Sprintf("pod-%04d-%s", i, strings.Repeat("x", 100)))
	}
	var handled atomic.Int64
	done := make(chan struct{})
	workers := &Workers{}
	var all []*Registration
	for range handlers {
		r := New(w.store, func(_ context.Context, e store.Change) {
			if _, _, err := w.store.Values(&e); err != nil {
				t.Error(err)
			}
			if handled.Add(1) == handlers*objects {
				close(done)
			}
		}, Options{Workers: workers})
		all = append(all, r)
		go r.Run(ctx)
	}
	w.sync(names...)
	<-done
	if _, n := w.store.DecodedReads(); n > handlers*objects/2 {
		t.Errorf("%d objects were decoded %d times for %d handlers", objects, n, handlers)
	}
	cancel()
	waitFor(all)
}

// TestTurns checks that a registration that lags more handles more changes per turn, so that it
// catches up with the other registrations.
func TestTurns(t *testing.T) {
	for _, of := range []struct{ behind, want int }{
		{10, 10}, {batchSize * lagFraction, batchSize}, {4 * batchSize * lagFraction, 4 * batchSize}, {maxTurn * (lagFraction + 2), maxTurn},
	} {
		w := newTestStore(t, store.Config{LogBytes: 1 << 30})
		w.sync()
		handled := 0
		r := New(w.store, func(context.Context, store.Change) { handled++ }, Options{})
		changes := make([]store.Change, batchSize)
		if _, ok := r.begin(t.Context()); !ok || r.serve(changes) {
			t.Fatal("there is something to do at the beginning")
		}
		for i := range of.behind {
			w.put(strconv.Itoa(i), "")
		}
		if r.serve(changes); handled < of.want || handled >= of.want+batchSize {
			t.Errorf("%d behind, a turn has %d, want %d", of.behind, handled, of.want)
		}
		r.Close()
	}
}

// goroutinesIn returns how many goroutines have a method of this package on their stack.
// runtime.NumGoroutine would also count goroutines that have just ended.
func goroutinesIn(method string) int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "delivery."+method+"(")
}

// TestHandlerThatExits checks that a handler that ends its goroutine ends its registration, and no
// other.
func TestHandlerThatExits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := newTestStore(t, store.Config{})
		w.sync()
		var workers Workers
		exits := run(ctx, w.store, &workers, 1, func(int) { runtime.Goexit() })
		var handled [30]atomic.Int64
		all := run(ctx, w.store, &workers, len(handled), func(i int) { handled[i].Add(1) })
		synctest.Wait()
		w.put("a", "")
		waitFor(exits)
		w.put("b", "")
		synctest.Wait()
		for i := range handled {
			check.Equal(t, handled[i].Load(), 2, "handler %d was told of changes", i)
		}
		cancel()
		waitFor(all)
	})
}

// TestWorkersUnderLoad starts and ends registrations during changes, while their handlers block,
// yield and exit. It checks that each handler receives every change from its start to its end, one
// at a time and in order.
func TestWorkersUnderLoad(t *testing.T) {
	w := newTestStore(t, store.Config{LogBytes: 1 << 30})
	w.sync()
	var workers Workers
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	follow := func(rng *rand.Rand, ctx context.Context) {
		var busy atomic.Bool
		seen := 0
		r := New(w.store, func(_ context.Context, e store.Change) {
			if busy.Swap(true) {
				t.Error("two calls of a handler at one time")
			}
			defer busy.Store(false)
			if e.Old != nil && int(e.ResourceVersion) != seen+1 {
				t.Errorf("told of version %d after %d", e.ResourceVersion, seen)
			}
			switch seen = int(e.ResourceVersion); rng.IntN(50) {
			case 0:
				time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
			case 1:
				runtime.Gosched()
			}
		}, Options{Workers: &workers})
		r.Run(ctx)
		if at := r.Stats(); ctx.Err() == nil || at.Panics != 0 {
			t.Errorf("ended with %+v", at)
		}
	}
	for i := range 100 {
		running.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 7))
			for ctx.Err() == nil {
				ctx, end := ctx, context.CancelFunc(func() {})
				if i%2 == 0 {
					ctx, end = context.WithTimeout(ctx, time.Duration(rng.IntN(20))*time.Millisecond)
				}
				follow(rng, ctx)
				end()
			}
		})
	}
	for range 3000 {
		w.put("a", "")
	}
	final := New(w.store, func(context.Context, store.Change) {}, Options{Workers: &workers})
	go final.Run(ctx)
	<-final.Synced()
	cancel()
	running.Wait()
	<-final.Done()
}

// TestBulkQueue checks that every registration of a bulkQueue is taken once, in order.
func TestBulkQueue(t *testing.T) {
	var w Workers
	var all, got []*Registration
	var owners []any
	for range 3 * minBulk {
		r := &Registration{}
		r.state.Store(uint32(resting))
		all, owners = append(all, r), append(owners, r)
	}
	w.waking.Store(true) // no worker is started
	w.Notify(owners)
	w.Notify(owners[:5]) // these registrations are already queued
	for w.queued.Load() > 0 {
		got = append(got, w.take())
		w.queued.Add(-1)
	}
	if !slices.Equal(got, all) {
		t.Errorf("taken are %d of %d, or in another order", len(got), len(all))
	}
	if r := w.take(); r != nil {
		t.Error("taken of an empty queue")
	}
}
