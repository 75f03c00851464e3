package delivery

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirproject/weir/internal/store"
)

// Workers are goroutines that call the handlers of several registrations. A change that a thousand
// handlers are told of wakes a few goroutines instead of a thousand. The zero value is ready for
// use. It must not be copied.
//
// A registration that has something to do is queued, once at most. A worker that takes one while
// others are queued has the next worker woken or started first. So a handler that blocks holds up
// no other one, and there are about as many workers as registrations that are served, apart from
// the next one and those that are idle. Up to GOMAXPROCS are idle, and none once no registration
// runs.
type Workers struct {
	queued atomic.Int64 // registrations in bulk and in queue
	bulk   atomic.Pointer[bulkQueue]
	waking atomic.Bool // a worker was woken or started, and has not looked for work yet

	mu      sync.Mutex
	work    sync.Cond       // signalled for each worker that is idle no more; made by join
	queue   []*Registration // what is taken after bulk
	head    int             // of queue
	running int             // registrations
	idle    int             // workers that wait for work
}

// bulkQueue is a queue that many registrations joined at once. They are taken without a lock:
// workers would spend more time waiting for it than working.
type bulkQueue struct {
	of    []*Registration
	taken atomic.Int64 // may be more than there are
}

// minBulk is how many registrations make a bulkQueue.
const minBulk = 16

// serveState is where a registration stands with its workers.
type serveState uint32

const (
	inactive serveState = iota // it has not begun, or has ended
	resting                    // it has nothing to do
	queued                     // or taken by a worker that has not begun
	served                     // by a worker, at this moment
	requeue                    // it was woken while it was served, and will be queued again
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

// leave removes a registration, whose context must have ended. It blocks until no worker serves the
// registration any more.
func (w *Workers) leave(r *Registration) {
	w.wake(r)
	<-r.left
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running--
	w.idle = 0 // each looks whether it is still wanted
	w.work.Broadcast()
}

// Notify queues registrations. A worker serves each as soon as it comes to it. Notify does not
// block.
func (w *Workers) Notify(registrations []any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range registrations {
		w.push(r.(*Registration))
	}
}

// wake queues one registration, as Notify does.
func (w *Workers) wake(r *Registration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.push(r)
}

// push queues a registration that rests. One that is being served is queued again afterwards. The
// caller holds the lock.
func (w *Workers) push(r *Registration) {
	for {
		switch serveState(r.state.Load()) {
		case served:
			if r.state.CompareAndSwap(uint32(served), uint32(requeue)) {
				return
			}
		case resting:
			r.state.Store(uint32(queued)) // which nobody else does with w.mu held
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

// wakeWorker wakes or starts a worker, unless one is about to look for work. The caller holds the
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

// loop runs a worker: it serves queued registrations until the worker is not needed any more.
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
		// Handlers of the same objects stay close to each other, and find decoded what one of them has
		// decoded.
		runtime.Gosched()
	}
}

// take waits for a registration that is queued. It returns nil if the worker is not needed any
// more.
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

// next returns the next registration of a bulkQueue, nil if there is none.
func (b *bulkQueue) next() *Registration {
	if b == nil {
		return nil
	}
	if i := b.taken.Add(1) - 1; i < int64(len(b.of)) {
		return b.of[i]
	}
	return nil
}

// pop returns the first registration in queue, nil if there is none. If there are many, it makes a
// bulkQueue of the others.
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

// serve serves a registration. If its handler ends the goroutine by runtime.Goexit, so does the
// registration.
func (w *Workers) serve(r *Registration, changes []store.Change) {
	r.state.Store(uint32(served))
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

// settle notes that a registration was served. more tells that it has more to do.
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
