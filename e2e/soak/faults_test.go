package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// faults causes faults of the servers for a while.
type faults struct {
	w      *world
	rand   *rand.Rand
	client dynamic.Interface // steady
	undone sync.WaitGroup    // servers that are to be started or to go on again

	mu    sync.Mutex
	busy  map[*cluster.APIServer]bool
	kills int
}

// maxKills bounds the kills of a round: to start an API server again costs a core for seconds, of
// which the informers get none.
const maxKills = 2

func (w *world) newFaults(round int, client dynamic.Interface) *faults {
	return &faults{
		w: w, rand: rand.New(rand.NewPCG(w.seed, uint64(round)<<32)), client: client, busy: map[*cluster.APIServer]bool{},
	}
}

// between draws a duration.
func (f *faults) between(least, most time.Duration) time.Duration {
	return least + time.Duration(f.rand.Int64N(int64(most-least)))
}

// run makes the line bad and causes one fault after another until the time is over. Then it waits
// until all servers run and serve, and makes the line good again.
func (f *faults) run(ctx context.Context, length time.Duration) {
	f.w.note("the line is bad")
	f.w.line.set(true)
	end := time.After(length)
	for on := true; on; {
		select {
		case <-time.After(f.between(500*time.Millisecond, 4*time.Second)):
			f.one(ctx)
		case <-end:
			on = false
		case <-ctx.Done():
			on = false
		}
	}
	f.undone.Wait()
	testenv.EventuallyNoError(f.w.t, ctx, "the definition of widgets is as in the beginning", func() error {
		return f.w.redefine(ctx, f.client, definition{served: true, colour: "red"})
	})
	f.w.widgetsServed(ctx)
	f.w.line.set(false)
	f.w.note("the line is good, and all servers run")
}

// one does one thing.
func (f *faults) one(ctx context.Context) {
	server := f.rand.IntN(len(f.w.servers))
	switch what := f.rand.IntN(10); {
	case what < 3:
		f.kill(ctx, server, f.between(100*time.Millisecond, 3*time.Second))
	case what < 6:
		f.pause(ctx, server, f.between(time.Second, 6*time.Second))
	case what < 8:
		revision, err := f.w.cluster.Compact(ctx)
		f.w.note("etcd is compacted at %d: %v", revision, err)
	default:
		d := randomDefinition(f.rand)
		short, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		f.w.note("widgets are defined as %+v: %v", d, f.w.redefine(short, f.client, d))
	}
}

// take reports whether nothing else is being done to the server.
func (f *faults) take(s *cluster.APIServer) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy[s] {
		return false
	}
	f.busy[s] = true
	return true
}

func (f *faults) give(s *cluster.APIServer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy[s] = false
}

func (f *faults) kill(ctx context.Context, server int, down time.Duration) {
	s := f.w.servers[server]
	if f.kills >= maxKills || !f.take(s) {
		return
	}
	f.kills++
	s.Kill()
	f.w.note("server %d is killed", server+1)
	f.undone.Go(func() {
		defer f.give(s)
		sleep(ctx, down)
		if err := s.Start(ctx); err != nil {
			f.w.t.Error(fmt.Errorf("server %d: %w", server+1, err))
			return
		}
		f.w.note("server %d runs again", server+1)
	})
}

func (f *faults) pause(ctx context.Context, server int, length time.Duration) {
	s := f.w.servers[server]
	if !f.take(s) {
		return
	}
	s.Pause()
	f.w.note("server %d is paused", server+1)
	f.undone.Go(func() {
		defer f.give(s)
		sleep(ctx, length)
		s.Resume()
		f.w.note("server %d goes on", server+1)
	})
}

// sleep lets time pass, in which the world does what it does.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
