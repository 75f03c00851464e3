package engine

import (
	"context"
	"slices"
	"testing"

	"github.com/weirproject/weir/internal/delivery"
)

// TestHandlerNames: a handler that comes without a name gets the lowest number that no other has,
// so that handlers that come and go have no endless number of names.
func TestHandlerNames(t *testing.T) {
	e := New(Config{Name: "pods"})
	handle := func(opts delivery.Options) *delivery.Registration {
		t.Helper()
		r, err := e.Handle(func(context.Context, delivery.Event) {}, opts)
		if err != nil {
			t.Fatal(err)
		}
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
		e.Remove(first) // does nothing
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
