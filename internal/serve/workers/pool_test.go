package workers

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/weirproject/weir/internal/testing/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRun: concurrent functions each have a worker, for any number, and no more than maxIdle are
// kept.
func TestRun(t *testing.T) {
	p := New()
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

// TestKeepsItsWorker: the same worker runs one function after another.
func TestKeepsItsWorker(t *testing.T) {
	p := New()
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

// TestPanic: the caller panics with the function's value, and the pool continues.
func TestPanic(t *testing.T) {
	p := New()
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

// TestGoexit: a function that ends its goroutine ends its caller's, as without a pool. The pool
// continues.
func TestGoexit(t *testing.T) {
	p := New()
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

// TestClose: a closed pool still runs functions, and keeps no worker.
func TestClose(t *testing.T) {
	p := New()
	p.Run(func() { p.Close() })
	p.Run(func() {})
	check.Equal(t, len(p.idle), 0, "workers are kept")
}

// TestNil: without a pool the caller's goroutine does the work.
func TestNil(t *testing.T) {
	ran := false
	(*Pool)(nil).Run(func() { ran = true })
	if !ran {
		t.Error("nothing has run")
	}
}
