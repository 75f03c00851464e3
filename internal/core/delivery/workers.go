package delivery

import (
	"runtime"
	"runtime/pprof"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirproject/weir/internal/core/store"
)

// Workers are goroutines that call the handlers of several registrations. A change for a thousand
// handlers wakes a few goroutines instead of a thousand. The zero value is ready to use. Do not
// copy a Workers after first use.
//
// A registration with pending work is in the queue at most once. If other registrations are queued
// when a worker takes one, the worker first wakes or starts another worker. So a handler that
// blocks delays no other handler. There is about one worker for each registration that is being
// served, plus one that was just woken, and the idle workers. Up to GOMAXPROCS workers are idle,
// and none after the last registration has ended.
type Workers struct {
	queued atomic.Int64 // registrations in bulk and in queue
	bulk   atomic.Pointer[bulkQueue]
	waking atomic.Bool // a worker was woken or started, and has not checked for work yet

	mu      sync.Mutex
	work    sync.Cond       // signalled for each idle worker that must wake; created by join
	queue   []*Registration // workers take these after bulk
	head    int             // of queue
	running int             // registrations
	idle    int             // workers that wait for work
}

// bulkQueue is a queue of many registrations that were queued at the same time. Workers take
// registrations from it without a lock. With a lock, they would wait for the lock longer than they
// work.
type bulkQueue struct {
	of    []*Registration
	taken atomic.Int64 // may exceed len(of)
}

// minBulk is the minimum number of registrations for which a bulkQueue is used.
const minBulk = 16

// serveState says whether a registration waits in a queue, is served by a worker, or neither.
type serveState uint32

const (
	inactive serveState = iota // it has not started, or has ended
	resting                    // it has nothing to do
	// It is in a queue, or a worker has taken it but does not serve it yet.
	queued
	served  // a worker serves it now
	requeue // it was woken while being served, and will be queued again
)

// join adds a registration. The workers serve it until its context ends.
func (w *Workers) join(r *Registration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.work.L == nil {
		w.work.L = &w.mu
	}
	w.running++
	r.state.Store(uint32(resting))
	w.push(r)
}

// leave removes a registration, whose context must have ended. It blocks until no worker serves it.
func (w *Workers) leave(r *Registration) {
	w.wake(r)
	<-r.left
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running--
	w.idle = 0 // each idle worker checks whether it is still needed
	w.work.Broadcast()
}

// Notify queues registrations. A registration is served as soon as a worker is free. Notify does
// not block.
func (w *Workers) Notify(registrations []any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range registrations {
		w.push(r.(*Registration))
	}
}

// wake queues one registration, like Notify.
func (w *Workers) wake(r *Registration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.push(r)
}

// push queues a resting registration. A registration that is being served is queued again
// afterwards. The caller holds the lock.
func (w *Workers) push(r *Registration) {
	for {
		switch serveState(r.state.Load()) {
		case served:
			if r.state.CompareAndSwap(uint32(served), uint32(requeue)) {
				return
			}
		case resting:
			r.state.Store(uint32(queued)) // no other goroutine changes it while w.mu is held
			w.append(r)
			w.wakeWorker()
			return
		default:
			return
		}
	}
}

func (w *Workers) append(r *Registration) {
	if w.head > len(w.queue)/2 {
		w.queue, w.head = slices.Delete(w.queue, 0, w.head), 0
	}
	w.queue = append(w.queue, r)
	w.queued.Add(1)
}

// wakeWorker wakes or starts a worker, unless one is about to check for work. The caller holds the
// lock.
func (w *Workers) wakeWorker() {
	switch {
	case w.waking.Swap(true):
	case w.idle > 0:
		w.idle--
		w.work.Signal()
	default:
		go w.loop()
	}
}

// loop runs a worker: it serves queued registrations until the worker is no longer needed.
func (w *Workers) loop() {
	w.waking.Store(false)
	changes := make([]store.Change, batchSize)
	for r := w.take(); r != nil; r = w.take() {
		if w.queued.Add(-1) > 0 && !w.waking.Load() {
			w.mu.Lock()
			w.wakeWorker()
			w.mu.Unlock()
		}
		w.serve(r, changes)
		// Let other workers continue. Then the handlers of a store stay close to each other in the log,
		// and often find an object that another handler has already decoded.
		runtime.Gosched()
	}
}

// take waits for a queued registration. It returns nil if the worker is no longer needed.
func (w *Workers) take() *Registration {
	if r := w.bulk.Load().next(); r != nil {
		return r
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		if r := w.bulk.Load().next(); r != nil {
			return r
		}
		w.bulk.Store(nil)
		if r := w.pop(); r != nil {
			return r
		}
		if w.idle >= min(w.running, runtime.GOMAXPROCS(0)) {
			return nil
		}
		w.idle++
		w.work.Wait()
		w.waking.Store(false)
	}
}

// next returns the next registration of a bulkQueue, or nil.
func (b *bulkQueue) next() *Registration {
	if b == nil {
		return nil
	}
	if i := b.taken.Add(1) - 1; i < int64(len(b.of)) {
		return b.of[i]
	}
	return nil
}

// pop returns the first registration in queue, or nil. If many others are queued, it moves them to
// a bulkQueue.
func (w *Workers) pop() *Registration {
	if w.head == len(w.queue) {
		return nil
	}
	r := w.queue[w.head]
	w.queue[w.head] = nil
	w.head++
	switch left := len(w.queue) - w.head; {
	case left == 0:
		w.queue, w.head = w.queue[:0], 0
	case left >= minBulk:
		w.bulk.Store(&bulkQueue{of: w.queue[w.head:]})
		w.queue, w.head = nil, 0
	}
	return r
}

// serve serves a registration. If its handler ends the goroutine with runtime.Goexit, serve ends
// the registration too.
func (w *Workers) serve(r *Registration, changes []store.Change) {
	r.state.Store(uint32(served))
	pprof.SetGoroutineLabels(r.ctx) // they remain, even if r ends, until the worker serves another
	more, returned := false, false
	defer func() {
		if !returned {
			r.stop()
		}
		w.settle(r, more)
		if !returned {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.wakeWorker()
		}
	}()
	more = r.serve(changes)
	returned = true
}

// settle records that a worker has served a registration. more is true if the registration has more
// to do.
func (w *Workers) settle(r *Registration, more bool) {
	switch {
	case r.ctx.Err() != nil:
		r.state.Store(uint32(inactive))
		close(r.left)
		return
	case !more && r.state.CompareAndSwap(uint32(served), uint32(resting)):
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r.state.Store(uint32(queued))
	w.append(r)
}
