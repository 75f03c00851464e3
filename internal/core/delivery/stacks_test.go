package delivery

import (
	"context"
	"fmt"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
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

// TestHandlerFrames checks that the frames end at the call of this package's Registration, and not
// at a method with the same name of another type.
func TestHandlerFrames(t *testing.T) {
	const other, own = "#\t0x1\tother.(*Registration).call+0x1f\tother.go:1\n", "#\t0x2\tgithub.com/weirproject/weir/internal/core/delivery.(*Registration).call+0x2f\tregistration.go:2\n"
	frames, calls := handlerFrames("1 @ 0x1 0x2\n" + other + own)
	check.Equal(t, frames, "other.(*Registration).call\tother.go:1\n", "frames")
	check.Equal(t, calls, true, "calls a handler")
}

// TestStacksMemory checks that the function that Stacks returns keeps only the stacks of handlers
// in memory, and not the stacks of all goroutines.
func TestStacksMemory(t *testing.T) {
	release := make(chan struct{})
	var others sync.WaitGroup
	defer others.Wait()
	defer close(release)
	for i := range 2000 { // pprof writes equal stacks once, so the labels differ
		others.Go(func() {
			pprof.Do(t.Context(), pprof.Labels("number", fmt.Sprint(i)), func(context.Context) { <-release })
		})
	}
	inBubble(t, store.Config{}, func(t *testing.T, w *testStore) {
		until := make(chan struct{})
		defer close(until)
		r := New(w.store, func(context.Context, store.Change) { blockHere(until) }, Options{Name: "h"})
		w.run(r)
		w.sync()
		w.put("a", "")
		synctest.Wait()
		before := heap()
		stacks := Stacks()
		if kept := heap() - before; kept > 100<<10 {
			t.Errorf("it keeps %d bytes", kept)
		}
		if !strings.Contains(stacks(r), "blockHere\t") {
			t.Error("the handler's stack is missing")
		}
	})
}

// heap returns the bytes of objects in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func blockHere(until chan struct{})      { <-until }
func blockThere(until chan struct{})     { <-until }
func blockElsewhere(until chan struct{}) { <-until }
