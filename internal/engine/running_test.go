package engine

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
)

// TestRunning: engines are among those that run from the beginning of Run to its end, each by a
// name of its own. A number is given again once its engine has ended.
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
		if Running()[1].Engine != first {
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
