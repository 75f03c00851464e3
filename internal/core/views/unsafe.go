//go:build !weir_safe

package views

import (
	"reflect"
	"unsafe"
	"weak"
)

// Bytes returns the bytes of s without copying them. The caller must not change the bytes.
func Bytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// String returns b as a string without copying it. The caller must not change the bytes while the
// string is in use.
func String(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Same reports whether two strings have the same bytes in memory, not only equal bytes.
func Same(a, b string) bool { return len(a) == len(b) && unsafe.StringData(a) == unsafe.StringData(b) }

// WeakValue is a weak pointer to the variable that a pointer of any type points to. The zero value
// points to no variable.
type WeakValue struct {
	target weak.Pointer[byte]
	goType reflect.Type // the pointer's type
}

// MakeWeakValue returns a weak pointer to the variable that value points to. ok is false if value
// is not a pointer, or is nil, or points to a variable of size 0.
func MakeWeakValue(value any) (WeakValue, bool) {
	v := reflect.ValueOf(value)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Type().Elem().Size() == 0 {
		return WeakValue{}, false
	}
	return WeakValue{weak.Make((*byte)(v.UnsafePointer())), v.Type()}, true
}

// Value returns a pointer equal to the argument of MakeWeakValue, or nil if the garbage collector
// has freed the variable.
func (w WeakValue) Value() any {
	p := w.target.Value()
	if p == nil {
		return nil
	}
	return reflect.NewAt(w.goType.Elem(), unsafe.Pointer(p)).Interface()
}

// Alive reports whether the garbage collector has not freed the variable. It returns false for the
// zero value.
func (w WeakValue) Alive() bool { return w.target.Value() != nil }
