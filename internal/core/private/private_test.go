package private_test

import (
	"reflect"
	"testing"

	"github.com/weirproject/weir/internal/core/private"
	"github.com/weirproject/weir/internal/testing/check"
)

func declared() int { return 0 }

func adding(n int) func() int { return func() int { return n } }

// TestFunctionOf checks that different function values have different Functions and numbers, and
// that copies of one function value have the same Function and number. Without unsafe, copies also
// have different Functions and numbers.
func TestFunctionOf(t *testing.T) {
	one, copied := adding(1), declared
	same := one
	for name, c := range map[string]struct {
		a, b func() int
		same bool
	}{
		"a declared function":        {declared, copied, private.Fields},
		"a closure":                  {one, same, private.Fields},
		"two closures of one text":   {one, adding(1), false},
		"a function and a closure":   {declared, one, false},
		"no function":                {nil, nil, true},
		"a function and no function": {declared, nil, false},
	} {
		a, b := private.FunctionOf(c.a), private.FunctionOf(c.b)
		check.Equal(t, a == b, c.same, "%s: the same", name)
		check.Equal(t, a.Number() == b.Number(), c.same, "%s: the same number", name)
		if (a.Number() == 0) != (c.a == nil) {
			t.Errorf("%s: the number is %d", name, a.Number())
		}
	}
}

func TestField(t *testing.T) {
	object := struct {
		private string
		Public  int
	}{"hidden", 7}
	v := reflect.ValueOf(&object).Elem()
	for name, want := range map[string]any{"private": "hidden", "Public": 7} {
		if got, ok := private.Field(v, name); ok != private.Fields || ok && got.Interface() != want {
			t.Errorf("%s: %v, %v", name, got, ok)
		}
	}
	if f, ok := private.Field(v, "private"); ok {
		f.SetString("set")
		check.Equal(t, object.private, "set")
	}
	if _, ok := private.Field(v, "missing"); ok {
		t.Error("a missing field was read")
	}
	if _, ok := private.Field(reflect.ValueOf(object), "private"); ok {
		t.Error("a field without an address was read")
	}
}
