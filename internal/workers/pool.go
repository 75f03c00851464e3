// Package workers runs functions on goroutines that are kept between them, together with the stacks
// that they have grown. A goroutine that waits most of its life, as that of a watch does, keeps a
// small stack if it has its work done by others.
package workers

import (
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync"
)

// maxIdle bounds the workers of a pool that wait for work. More work at once is done by workers
// that end after it.
const maxIdle = 32

// Pool runs functions. There are as many workers as functions that run at the moment, and up to
// maxIdle that wait; Close ends those. It is safe for concurrent use. A nil Pool runs each function
// in the goroutine of its caller.
type Pool struct {
	tasks sync.Pool // of *task

	mu     sync.Mutex
	idle   []*worker // the last one to become idle is the next to be used, since its stack is warm
	closed bool
}

// worker is one goroutine of a pool.
type worker struct {
	pool *Pool
	work chan *task // of capacity one
}

// task is one call of Run.
type task struct {
	run      func()
	done     chan struct{} // of capacity one
	panicked any
	exited   bool // it has called runtime.Goexit
}

// New returns a pool.
func New() *Pool {
	return &Pool{tasks: sync.Pool{New: func() any { return &task{done: make(chan struct{}, 1)} }}}
}

// Run calls f in a worker and returns when f has returned. If f panics, so does Run. If f calls
// runtime.Goexit, so does Run, and the worker ends.
func (p *Pool) Run(f func()) {
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

// start hands a task to an idle worker, or to a new one.
func (p *Pool) start(t *task) {
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

// loop does tasks until the worker is not needed any more.
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
func (p *Pool) keep(w *worker) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= maxIdle {
		return false
	}
	p.idle = append(p.idle, w)
	return true
}

// call calls the function, and keeps what it panics with, or that it ends the goroutine.
func (t *task) call() {
	returned := false
	defer func() {
		if returned {
			return
		}
		switch why := recover(); why {
		case nil: // panic(nil) has a value too
			t.exited = true
		case http.ErrAbortHandler: // which nobody looks into
			t.panicked = why
		default:
			t.panicked = fmt.Sprintf("%v\n\n%s", why, debug.Stack())
		}
	}()
	t.run()
	returned = true
}

// Close ends the workers that wait, and later the others, each after its function.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, w := range p.idle {
		close(w.work)
	}
	p.idle = nil
}
