//go:build !weir_safe

package codec

import (
	"reflect"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// box allocates separate memory for the target of a pointer to a string, number, time or quantity.
// The decoder usually allocates an object and the targets of its pointers as one block (see shape).
// A program that keeps one pointer, such as a pod's start time, would then keep the whole block in
// memory. So the pointer fields of some structs have boxes (see boxing).
type box struct {
	make func() unsafe.Pointer
	// clone copies a pointer into a new box. If clone is nil, the value must be decoded again.
	clone func(to, from unsafe.Pointer)
}

func boxOf[T any]() *box {
	return &box{
		make:  func() unsafe.Pointer { return unsafe.Pointer(new(T)) },
		clone: func(to, from unsafe.Pointer) { value := **(**T)(from); *(**T)(to) = &value },
	}
}

// Boxes of the most frequent types. They are also used for named types and signed numbers, because
// these have the same memory layouts.
var (
	textBox    = boxOf[string]()
	booleanBox = boxOf[bool]()
	box32      = boxOf[uint32]()
	box64      = boxOf[uint64]()
	timeBox    = boxOf[metav1.Time]()
)

// boxing returns the struct types whose pointer fields have boxes: root, the structs inside root
// (such as metadata, spec and status), and owner references. Pointers in elements of other slices
// have no boxes, because a box per element would cost too much.
func boxing(root reflect.Type) map[reflect.Type]bool {
	found := map[reflect.Type]bool{reflect.TypeFor[metav1.OwnerReference](): true}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		if found[t] || t.Kind() != reflect.Struct {
			return
		}
		found[t] = true
		for i := range t.NumField() {
			add(t.Field(i).Type)
		}
	}
	add(root)
	return found
}

// newBox returns the box for a pointer to the value that f describes. It returns nil if the value
// is a struct with fields: the fields may refer to other memory of the object, which a box would
// not free. It also returns nil for managed fields, because no program keeps a pointer to them.
func newBox(f *field) *box {
	switch f.kind {
	case text:
		return textBox
	case boolean:
		return booleanBox
	case number32:
		return box32
	case number64:
		return box64
	case other:
		switch {
		case f.goType == reflect.TypeFor[metav1.Time]():
			return timeBox
		case f.goType == reflect.TypeFor[metav1.FieldsV1]():
			return nil
		}
		return &box{make: func() unsafe.Pointer { return reflect.New(f.goType).UnsafePointer() }}
	}
	return nil
}
