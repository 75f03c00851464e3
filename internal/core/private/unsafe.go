//go:build !weir_safe

package private

import (
	"reflect"
	"unsafe"
)

// Fields reports whether Field can read any field.
const Fields = true

// Function identifies a function value, which is a pointer to its code and captured variables.
// Copies of one function value have the same Function. Two closures that the same source code
// creates have different Functions, and so have two method values. The zero value is the Function
// of a nil function. While the function value or its Function is in memory, no other function value
// has the same Function.
type Function struct{ at unsafe.Pointer }

// FunctionOf returns the Function of f. F must be a func type.
func FunctionOf[F any](f F) Function { return Function{*(*unsafe.Pointer)(unsafe.Pointer(&f))} }

// Number returns a number that no other function value has while this one is in memory. Unlike the
// Function itself, the number does not keep the function value in memory. It is 0 for a nil
// function.
func (f Function) Number() uintptr { return uintptr(f.at) }

// Field returns the field of v with the given name, exported or not. The caller may read and set
// the field. v must be addressable. ok is false if v has no such field.
func Field(v reflect.Value, name string) (field reflect.Value, ok bool) {
	f := v.FieldByName(name)
	if !f.IsValid() || !f.CanAddr() {
		return reflect.Value{}, false
	}
	return reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem(), true
}
