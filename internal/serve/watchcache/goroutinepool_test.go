package watchcache

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestGoroutinePool: concurrent functions each have a worker, for any number, and no more than
// maxIdle are kept.
func TestGoroutinePool(t *testing.T) {
	p := NewGoroutinePool()
	defer p.Close()
	for range 3 {
		var running, ended sync.WaitGroup
		gate := make(chan struct{})
		for range 3 * maxIdle {
			running.Add(1)
			ended.Go(func() {
				p.Run(func() {
					running.Done()
					<-gate
				})
			})
		}
		running.Wait() // all of them at the same time
		close(gate)
		ended.Wait()
		if n := len(p.idle); n != maxIdle {
			t.Fatalf("%d workers are kept", n)
		}
	}
}

// TestGoroutinePoolKeepsItsWorker: the same worker runs one function after another.
func TestGoroutinePoolKeepsItsWorker(t *testing.T) {
	p := NewGoroutinePool()
	defer p.Close()
	var first *worker
	for i := range 100 {
		p.Run(func() {})
		if len(p.idle) != 1 || i > 0 && p.idle[0] != first {
			t.Fatalf("after function %d there are other workers: %v", i, p.idle)
		}
		first = p.idle[0]
	}
}

// TestGoroutinePoolPanic: the caller panics with the function's value, and the pool continues.
func TestGoroutinePoolPanic(t *testing.T) {
	p := NewGoroutinePool()
	defer p.Close()
	for _, why := range []any{http.ErrAbortHandler, "broken", fmt.Errorf("broken")} {
		got := func() (got any) {
			defer func() { got = recover() }()
			p.Run(func() { panic(why) })
			return nil
		}()
		if text := fmt.Sprint(got); got != why && !(strings.HasPrefix(text, "broken\n") && strings.Contains(text, "pool_test.go")) {
			t.Errorf("%v: got %v", why, got)
		}
	}
	ran := false
	p.Run(func() { ran = true })
	if !ran {
		t.Error("the pool does nothing after a panic")
	}
}

// TestGoroutinePoolGoexit: a function that ends its goroutine ends its caller's, as without a pool.
// The pool continues.
func TestGoroutinePoolGoexit(t *testing.T) {
	p := NewGoroutinePool()
	defer p.Close()
	returned, ended := false, make(chan struct{})
	go func() {
		defer close(ended)
		p.Run(runtime.Goexit)
		returned = true
	}()
	<-ended
	if returned {
		t.Error("Run returned")
	}
	ran := false
	if p.Run(func() { ran = true }); !ran {
		t.Error("the pool does nothing after that")
	}
}

// TestGoroutinePoolClose: a closed pool still runs functions, and keeps no worker.
func TestGoroutinePoolClose(t *testing.T) {
	p := NewGoroutinePool()
	p.Run(func() { p.Close() })
	p.Run(func() {})
	check.Equal(t, len(p.idle), 0, "workers are kept")
}

// TestGoroutinePoolNil: without a pool the caller's goroutine does the work.
func TestGoroutinePoolNil(t *testing.T) {
	ran := false
	(*GoroutinePool)(nil).Run(func() { ran = true })
	if !ran {
		t.Error("nothing has run")
	}
}
