package watchcache

import (
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync"
)

// maxIdle limits the idle workers of a pool. Additional concurrent work is done by workers that end
// after it.
const maxIdle = 32

// GoroutinePool runs functions on goroutines that are reused, together with their grown stacks. A
// goroutine that waits most of the time, such as a watch's, keeps a small stack if others do its
// work. The pool has one worker per running function, and up to maxIdle idle ones; Close ends
// those. It is safe for concurrent use. A nil GoroutinePool runs each function in the goroutine of
// its caller.
type GoroutinePool struct {
	tasks sync.Pool // of *task

	mu     sync.Mutex
	idle   []*worker // the last one that became idle is used next, because its stack is warm
	closed bool
}

// worker is one goroutine of a pool.
type worker struct {
	pool *GoroutinePool
	work chan *task // of capacity one
}

// task is one call of Run.
type task struct {
	run      func()
	done     chan struct{} // of capacity one
	panicked any
	exited   bool // it has called runtime.Goexit
}

// NewGoroutinePool returns a pool without workers.
func NewGoroutinePool() *GoroutinePool {
	return &GoroutinePool{tasks: sync.Pool{New: func() any { return &task{done: make(chan struct{}, 1)} }}}
}

// Run calls f in a worker and returns when f has returned. If f panics, so does Run. If f calls
// runtime.Goexit, so does Run, and the worker ends.
func (p *GoroutinePool) Run(f func()) {
	if p == nil {
		f()
		return
	}
	t := p.tasks.Get().(*task)
	t.run = f
	p.start(t)
	<-t.done
	why, exited := t.panicked, t.exited
	t.run, t.panicked, t.exited = nil, nil, false
	p.tasks.Put(t)
	switch {
	case exited:
		runtime.Goexit()
	case why != nil:
		panic(why)
	}
}

// start passes a task to an idle worker, or to a new one.
func (p *GoroutinePool) start(t *task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.idle); n > 0 {
		w := p.idle[n-1]
		p.idle[n-1] = nil
		p.idle = p.idle[:n-1]
		w.work <- t
		return
	}
	w := &worker{pool: p, work: make(chan *task, 1)}
	w.work <- t
	go w.loop()
}

// loop runs tasks until the worker is no longer needed.
func (w *worker) loop() {
	var t *task
	defer func() {
		if t != nil { // whose function has called runtime.Goexit
			t.done <- struct{}{}
		}
	}()
	for t = range w.work {
		t.call()
		kept := w.pool.keep(w)
		t.done <- struct{}{}
		if t = nil; !kept {
			return
		}
	}
}

// keep makes a worker idle. It returns false if there are enough of them.
func (p *GoroutinePool) keep(w *worker) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= maxIdle {
		return false
	}
	p.idle = append(p.idle, w)
	return true
}

// call calls the function, and records its panic, or that it ended the goroutine.
func (t *task) call() {
	returned := false
	defer func() {
		if returned {
			return
		}
		switch why := recover(); why {
		case nil: // panic(nil) has a value too
			t.exited = true
		case http.ErrAbortHandler: // which is never inspected
			t.panicked = why
		default:
			t.panicked = fmt.Sprintf("%v\n\n%s", why, debug.Stack())
		}
	}()
	t.run()
	returned = true
}

// Close ends the idle workers, and later the others, each after its function.
func (p *GoroutinePool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, w := range p.idle {
		close(w.work)
	}
	p.idle = nil
}
