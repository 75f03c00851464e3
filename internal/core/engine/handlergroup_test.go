package engine

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/weirproject/weir/internal/core/delivery"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestHandlerGroups checks the totals of a name. They must include the last call of a removed
// handler, must not decrease after that call, and must disappear with the last handler of the name.
func TestHandlerGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Config{Name: "pods", Store: store.Config{Encoding: wire.JSON}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		w, block := e.Store().Writer(store.Scope{}), make(chan struct{})
		handle := func(name string, fn delivery.Func) *delivery.Registration {
			t.Helper()
			r, err := e.Handle(fn, delivery.Options{Name: name})
			check.NoError(t, err)
			return r
		}
		expect := func(name string, handled, panics uint64) {
			t.Helper()
			synctest.Wait()
			group := e.HandlerGroups()[name]
			got := group.Left
			for _, r := range slices.Concat(group.Handlers, group.Leaving) {
				got = got.Plus(TotalsOf(r.Stats()))
			}
			if got.Handled != handled || got.Panics != panics {
				t.Errorf("%s: %+v, want %d and %d", name, got, handled, panics)
			}
		}
		calm := handle("a", func(context.Context, store.Change) {})
		panics := handle("a", func(context.Context, store.Change) {
			<-block
			panic("last")
		})
		handle("b", func(context.Context, store.Change) {})
		put(t, w, `{"metadata":{"name":"x","resourceVersion":"1"}}`)
		expect("a", 2, 0)
		e.Remove(panics)
		expect("a", 2, 0)
		close(block)
		<-panics.Done()
		expect("a", 2, 1)
		put(t, w, `{"metadata":{"name":"x","resourceVersion":"2"}}`)
		expect("a", 3, 1)
		expect("b", 2, 0)
		e.Remove(calm)
		if got := slices.Collect(maps.Keys(e.HandlerGroups())); !slices.Equal(got, []string{"b"}) || len(e.removed.left)+len(e.removed.leaving) != 0 {
			t.Errorf("handlers of %q are registered, and %+v of removed ones", got, e.removed)
		}
		handle("a", func(context.Context, store.Change) {})
		expect("a", 1, 0)
		cancel()
		check.NoError(t, <-done)
	})
}

// put writes an object, given as JSON, to the store.
func put(t *testing.T, w *store.Writer, raw string) {
	t.Helper()
	var m wire.Meta
	check.NoError(t, wire.ReadMeta(wire.JSON, []byte(raw), &m))
	check.NoError(t, w.Put(&m, []byte(raw)))
	w.Flush()
}
