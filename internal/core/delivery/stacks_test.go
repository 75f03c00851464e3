package delivery

import (
	"context"
	"runtime/pprof"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestStacks checks that Stacks finds the goroutines of two handlers with the same name that block
// in different functions, also if the handler has changed the labels of its goroutine. Goroutines
// that a handler has started must not be mistaken for the handler.
func TestStacks(t *testing.T) {
	inBubble(t, store.Config{}, func(t *testing.T, w *testStore) {
		release := make(chan struct{})
		defer close(release)
		first := New(w.store, func(ctx context.Context, _ store.Change) {
			pprof.Do(ctx, pprof.Labels("own", "label"), func(context.Context) {})
			go blockElsewhere(release)
			blockHere(release)
		}, Options{Name: "same"})
		second := New(w.store, func(context.Context, store.Change) { blockThere(release) }, Options{Name: "same"})
		idle := New(w.store, func(context.Context, store.Change) {}, Options{Name: "same"})
		for _, r := range []*Registration{first, second, idle} {
			w.run(r)
		}
		w.sync()
		w.put("a", "")
		synctest.Wait()
		stacks := Stacks()
		for r, want := range map[*Registration]string{first: "blockHere", second: "blockThere"} {
			if stack := stacks(r); !strings.Contains(stack, want+"\t") || strings.Contains(stack, "blockElsewhere") || strings.Contains(stack, "deliverAll") || strings.Contains(stack, "0x") {
				t.Errorf("the stack of %s is\n%s", want, stack)
			}
		}
		check.Equal(t, stacks(idle), "", "the stack of an idle handler")
	})
}

func blockHere(until chan struct{})      { <-until }
func blockThere(until chan struct{})     { <-until }
func blockElsewhere(until chan struct{}) { <-until }
