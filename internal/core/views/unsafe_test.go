//go:build !weir_safe

package views_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/core/views"
	"github.com/weirproject/weir/internal/testing/check"
)

func TestSharedMemory(t *testing.T) {
	s := strings.Clone("pods")
	if same := views.String(views.Bytes(s)); !views.Same(s, same) {
		t.Error("a string was copied")
	}
	if views.Same(s, strings.Clone(s)) {
		t.Error("a copy has the same memory")
	}
	b := []byte("pods")
	view := views.String(b)
	b[0] = 'n'
	check.Equal(t, view, "nods", "bytes were copied")
}

// TestCollected checks that a weak pointer returns its value until the garbage collector frees the
// value, and nil afterwards.
func TestCollected(t *testing.T) {
	value := &struct{ name string }{"a value"}
	pointer, ok := views.MakeWeakValue(value)
	if !ok {
		t.Fatal("no weak pointer")
	}
	runtime.GC()
	if got := pointer.Value(); got != any(value) || !pointer.Alive() {
		t.Errorf("%v, alive: %v", got, pointer.Alive())
	}
	runtime.KeepAlive(value)
	runtime.GC()
	runtime.GC()
	if got := pointer.Value(); got != nil || pointer.Alive() {
		t.Errorf("there still is %v", got)
	}
}

func TestNoWeakValue(t *testing.T) {
	var none *string
	for _, value := range []any{nil, "text", 7, none, &struct{}{}} {
		if _, ok := views.MakeWeakValue(value); ok {
			t.Errorf("a weak pointer to %#v", value)
		}
	}
}
