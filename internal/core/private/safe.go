//go:build weir_safe

package private

import (
	"reflect"
	"sync/atomic"
)

// Fields reports whether Field can read any field.
const Fields = false

// Function identifies one call of FunctionOf. The zero value is the Function of a nil function.
type Function struct{ number uint64 }

var functions atomic.Uint64 // the number of the newest Function

// FunctionOf returns a Function that differs from the result of every other call, or the zero value
// if f is nil. F must be a func type.
func FunctionOf[F any](f F) Function {
	if reflect.ValueOf(f).IsNil() {
		return Function{}
	}
	return Function{functions.Add(1)}
}

// Number returns a number that no other Function has. It is 0 for a nil func.
func (f Function) Number() uintptr { return uintptr(f.number) }

// Field returns false, because this build cannot read fields.
func Field(reflect.Value, string) (field reflect.Value, ok bool) { return field, false }
