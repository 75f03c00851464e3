//go:build !weir_safe

package decode

import (
	"reflect"
	"unsafe"
)

// cloner sets the struct at to, which is zero, to a deep copy of that at from.
type cloner func(to, from unsafe.Pointer)

// clonerOf returns a cloner by the type's generated DeepCopyInto, or nil if it has none.
func clonerOf(t reflect.Type) cloner {
	m, ok := reflect.PointerTo(t).MethodByName("DeepCopyInto")
	if !ok || m.Type.NumIn() != 2 || m.Type.In(1) != reflect.PointerTo(t) || m.Type.NumOut() != 0 {
		return nil
	}
	return func(to, from unsafe.Pointer) {
		m.Func.Call([]reflect.Value{reflect.NewAt(t, from), reflect.NewAt(t, to)})
	}
}
