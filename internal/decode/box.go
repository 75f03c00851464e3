package decode

import (
	"reflect"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// box is the memory that a pointer to a text, number, time or quantity points to. It is allocated
// on its own, and not as a piece of the object's, in the structs that boxing tells: programs keep
// such pointers of each object, a pod's start time for example, and would keep the whole object by
// them.
type box struct {
	make  func() unsafe.Pointer
	clone func(to, from unsafe.Pointer) // copies a pointer, with a box of its own; nil: it is to be decoded again
}

func boxOf[T any]() *box {
	return &box{
		make:  func() unsafe.Pointer { return unsafe.Pointer(new(T)) },
		clone: func(to, from unsafe.Pointer) { value := **(**T)(from); *(**T)(to) = &value },
	}
}

// Boxes of what comes most. The names of types do not matter, nor do signs.
var (
	textBox    = boxOf[string]()
	booleanBox = boxOf[bool]()
	box32      = boxOf[uint32]()
	box64      = boxOf[uint64]()
	timeBox    = boxOf[metav1.Time]()
)

// boxing are the structs of a type whose pointers have boxes: itself, those that it consists of,
// such as the metadata, spec and status, and owner references, which are copied. What is in the
// elements of slices is too much to be worth it, and kept with them, if at all.
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

// newBox returns the box for a pointer to what a field holds; nil if that holds others, or is
// managed fields, which nobody keeps.
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
		case f.goType.Kind() == reflect.Float64:
			return box64
		case f.goType == reflect.TypeFor[metav1.FieldsV1]():
			return nil
		}
		return &box{make: func() unsafe.Pointer { return reflect.New(f.goType).UnsafePointer() }}
	}
	return nil
}

// setBox sets the pointer at p, and what it points to, from a token.
func (s *scratch) setBox(p unsafe.Pointer, f *field, t *token) bool {
	target := f.box.make()
	*(*unsafe.Pointer)(p) = target
	switch f.of.kind {
	case text:
		*(*string)(target) = s.text(s.block(t))
	case boolean:
		*(*bool)(target) = t.value != 0
	case number32:
		*(*uint32)(target) = uint32(t.value)
	case number64:
		*(*uint64)(target) = t.value
	default:
		return s.setOther(target, f.of, t)
	}
	return true
}
