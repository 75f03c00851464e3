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

// TestCollected checks that a weak pointer returns its string or value until that is collected, and
// nothing afterwards.
func TestCollected(t *testing.T) {
	s, value := strings.Clone("a string that is collected"), &struct{ name string }{"a value"}
	text := views.MakeWeakString(s)
	pointer, ok := views.MakeWeakValue(value)
	if !ok {
		t.Fatal("no weak pointer")
	}
	runtime.GC()
	if got, ok := text.Value(); !ok || got != s {
		t.Errorf("%q, %v", got, ok)
	}
	if got := pointer.Value(); got != any(value) || !pointer.Alive() {
		t.Errorf("%v, alive: %v", got, pointer.Alive())
	}
	runtime.KeepAlive(s)
	runtime.KeepAlive(value)
	runtime.GC()
	runtime.GC()
	if got, ok := text.Value(); ok {
		t.Errorf("there still is %q", got)
	}
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
