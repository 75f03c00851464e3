//go:build !weir_safe

package views

import (
	"reflect"
	"unsafe"
	"weak"
)

// Bytes returns the bytes of a string. The caller must not change them.
func Bytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// String returns bytes as a string. They must not change while the string is in use.
func String(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Same reports whether two strings have the same memory.
func Same(a, b string) bool { return len(a) == len(b) && unsafe.StringData(a) == unsafe.StringData(b) }

// WeakString is a weak pointer to a string. The zero value points to none.
type WeakString struct {
	data   weak.Pointer[byte]
	length int
}

// MakeWeakString returns a weak pointer to a string of at least two bytes: the runtime's strings of
// one byte are no allocations, which a weak pointer needs.
func MakeWeakString(s string) WeakString {
	return WeakString{weak.Make(unsafe.StringData(s)), len(s)}
}

// Value returns the string. It reports false if the string was collected.
func (w WeakString) Value() (string, bool) {
	data := w.data.Value()
	if data == nil {
		return "", false
	}
	return unsafe.String(data, w.length), true
}

// WeakValue is a weak pointer to the variable that a value points to. The zero value points to
// none.
type WeakValue struct {
	target weak.Pointer[byte]
	goType reflect.Type // of the value
}

// MakeWeakValue returns a weak pointer to the variable that value points to. It reports false if
// value is no pointer, or points to nothing or to a variable without a size.
func MakeWeakValue(value any) (WeakValue, bool) {
	v := reflect.ValueOf(value)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Type().Elem().Size() == 0 {
		return WeakValue{}, false
	}
	return WeakValue{weak.Make((*byte)(v.UnsafePointer())), v.Type()}, true
}

// Value returns a value equal to the argument of MakeWeakValue, or nil if its variable was
// collected.
func (w WeakValue) Value() any {
	p := w.target.Value()
	if p == nil {
		return nil
	}
	return reflect.NewAt(w.goType.Elem(), unsafe.Pointer(p)).Interface()
}

// Alive reports whether the variable was not collected.
func (w WeakValue) Alive() bool { return w.target.Value() != nil }
