package engine

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/weirproject/weir/internal/core/delivery"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestHandlerNames checks that a handler without a name gets the lowest number that no other
// handler has.
func TestHandlerNames(t *testing.T) {
	e := New(Config{Name: "pods"})
	handle := func(opts delivery.Options) *delivery.Registration {
		t.Helper()
		r, err := e.Handle(func(context.Context, store.Change) {}, opts)
		check.NoError(t, err)
		return r
	}
	expect := func(want ...string) {
		t.Helper()
		var got []string
		for _, r := range e.Handlers() {
			got = append(got, r.Name())
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("handlers %q, want %q", got, want)
		}
	}
	first := handle(delivery.Options{})
	second := handle(delivery.Options{})
	named := handle(delivery.Options{Name: "a name"})
	expect("a name", "pods handler 1", "pods handler 2")
	for range 3 {
		e.Remove(first)
		e.Remove(first) // no-op: the handler is not registered
		expect("a name", "pods handler 2")
		first = handle(delivery.Options{})
		expect("a name", "pods handler 1", "pods handler 2")
	}
	e.Remove(named)
	handle(delivery.Options{})
	expect("pods handler 1", "pods handler 2", "pods handler 3")
	e.Remove(second)
	handle(delivery.Options{})
	expect("pods handler 1", "pods handler 2", "pods handler 3")
}

// TestBackground checks that Config.Background runs once, until Run's context ends. A call of Run
// that fails must not start it.
func TestBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun, ended int
		e := New(Config{Name: "pods", Background: func(ctx context.Context) {
			begun++
			<-ctx.Done()
			ended++
		}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		synctest.Wait()
		if err := e.Run(ctx); err == nil || begun != 1 || ended != 0 {
			t.Errorf("a second Run: %v; begun %d times and ended %d times", err, begun, ended)
		}
		cancel()
		if err := <-done; err != nil || ended != 1 {
			t.Errorf("the first Run: %v; ended %d times", err, ended)
		}
		if err := e.Run(t.Context()); err == nil || begun != 1 {
			t.Errorf("a Run after the end: %v; begun %d times", err, begun)
		}
	})
}

// TestWaitFor checks that WaitFor returns when its condition is true, its context ends or the
// engine stops.
func TestWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Config{Name: "pods"})
		ctx, stop := context.WithCancel(t.Context())
		done, waited := make(chan error, 1), make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		never := func() bool { return false }
		go func() { waited <- e.WaitFor(t.Context(), never) }()
		synctest.Wait()
		select {
		case err := <-waited:
			t.Errorf("it ended before the engine: %v", err)
		default:
		}
		if err := e.WaitFor(t.Context(), func() bool { return true }); err != nil {
			t.Errorf("of what holds: %v", err)
		}
		stop()
		check.NoError(t, <-done)
		if err := <-waited; !errors.Is(err, ErrStopped) || err.Error() != "pods: informer is stopped" {
			t.Errorf("when the engine stops: %v", err)
		}
		check.ErrorIs(t, e.WaitFor(t.Context(), never), ErrStopped, "after the engine")
		if err := e.WaitFor(t.Context(), func() bool { return true }); err != nil {
			t.Errorf("of what holds, after the engine: %v", err)
		}
		check.Equal(t, e.WaitFor(ctx, never), context.Canceled, "with a context that has ended")
	})
}

// TestWaitsWrapContextError checks that the error of a wait whose context ends wraps the context's
// error and its cause.
func TestWaitsWrapContextError(t *testing.T) {
	e := New(Config{Name: "pods"})
	cause := errors.New("the rollout is over")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for name, wait := range map[string]func(context.Context) error{
		"WaitForSync":            e.WaitForSync,
		"WaitForResourceVersion": func(ctx context.Context) error { return e.WaitForResourceVersion(ctx, "7") },
	} {
		if err := wait(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
			t.Errorf("%s: %v", name, err)
		}
	}
	plain, end := context.WithCancel(t.Context())
	end()
	if err := e.WaitForSync(plain); err == nil || err.Error() != "pods: not synced: context canceled" {
		t.Errorf("without a cause: %v", err)
	}
}

// TestRunning checks that Running contains an engine from the start to the end of Run, under a
// unique name. The number in a name must be reused after its engine has ended.
func TestRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := func() (all []string) {
			for _, e := range Running() {
				all = append(all, e.Name)
			}
			return all
		}
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			if got := names(); !slices.Equal(got, want) {
				t.Errorf("%q run, want %q", got, want)
			}
		}
		run := func(name string) (e *Engine, stop context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			e = New(Config{Name: name})
			go func() { _ = e.Run(ctx) }()
			synctest.Wait()
			return e, cancel
		}
		New(Config{Name: "not run"})
		expect()
		first, stopFirst := run("pods")
		_, stopSecond := run("pods")
		_, stopNodes := run("nodes")
		expect("nodes", "pods", "pods#2")
		if Running()[1].Value != first {
			t.Error("pods is not the first of them")
		}
		stopFirst()
		expect("nodes", "pods#2")
		_, stopThird := run("pods")
		expect("nodes", "pods", "pods#2")
		stopSecond()
		stopThird()
		stopNodes()
		expect()
	})
}
