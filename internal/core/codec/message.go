//go:build !weir_safe

package codec

import (
	"reflect"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

// message describes how to decode the fields of one struct. It is immutable after the compiler has
// built it.
type message struct {
	fields []field // by field number
}

// field describes how to decode one field of a struct, or one element of such a field.
type field struct {
	kind      fieldKind
	wireType  protowire.Type
	shareable bool   // read-only objects can share its value
	index     uint32 // the index in the decoder's fields
	offset    uintptr
	goType    reflect.Type
	size      uintptr  // the size of goType
	message   *message // of kind inside, and of kinds that contain a message
	of        *field   // of kinds pointer, boxed and slice: the target or element
	box       *box     // of kind boxed
	set       setter   // of kind other
	setAll    func(s *scratch, p unsafe.Pointer, entries []token) bool
}

// fieldKind says how to decode a field. It is not a reflect.Kind or a protobuf kind. The most
// frequent cases have their own fieldKind.
type fieldKind uint8

const (
	none    fieldKind = iota // there is no such field
	text                     // a string
	boolean                  // any number except 0 is true
	number32
	number64 // also a float64, by its bits
	inside   // a struct
	pointer
	boxed   // a pointer to a value that is allocated separately; see box
	slice   // a slice; the field occurs once per element
	mapping // a map; the field occurs once per entry; setAll sets it
	other   // any other kind; set sets it
)

// setter sets the value at p from b, the bytes of a length-delimited field. It returns false if
// Unmarshal must decode the object.
type setter func(s *scratch, p unsafe.Pointer, b []byte) bool

// decode sets the fields of the struct at p. tokens are the tokens of the struct's message.
func (s *scratch) decode(p unsafe.Pointer, tokens []token) bool {
	for len(tokens) > 0 {
		f := s.fields[tokens[0].field]
		n := s.decodeField(unsafe.Add(p, f.offset), f, tokens)
		if n == 0 {
			return false
		}
		tokens = tokens[n:]
	}
	return true
}

// decodeField sets the field at p. It returns the number of tokens that it used, or 0 for an error.
func (s *scratch) decodeField(p unsafe.Pointer, f *field, tokens []token) (n int) {
	t, ok := &tokens[0], true
	switch {
	case t.count == found:
		s.found[t.value].put(p, f)
		return 1
	case f.kind == slice:
		return s.decodeSlice(p, f, tokens)
	case f.kind == mapping:
		n = int(t.count) // each entry is one token
		s.note(p, f, t, nil, n)
		ok = f.setAll(s, p, tokens[:n])
	default:
		n = int(t.span)
		ok = s.decodeOne(p, f, tokens[:n])
	}
	if !ok {
		return 0
	}
	return n
}

// decodeOne sets the field or element at p from its token and the tokens inside it.
func (s *scratch) decodeOne(p unsafe.Pointer, f *field, tokens []token) bool {
	t := &tokens[0]
	switch f.kind {
	case inside:
		return s.decode(p, tokens[1:])
	case pointer:
		target := s.room(f, 1)
		s.note(p, f, t, target, 1)
		*(*unsafe.Pointer)(p) = target
		return s.decodeOne(target, f.of, tokens)
	}
	s.note(p, f, t, nil, 0)
	return s.set(p, f, t)
}

// set sets the field or element at p, whose value is one token.
func (s *scratch) set(p unsafe.Pointer, f *field, t *token) bool {
	switch f.kind {
	case text:
		*(*string)(p) = s.text(s.block(t))
	case boolean:
		*(*bool)(p) = t.value != 0
	case number32:
		*(*uint32)(p) = uint32(t.value)
	case number64:
		*(*uint64)(p) = t.value
	case boxed:
		target := f.box.make()
		*(*unsafe.Pointer)(p) = target
		return s.set(target, f.of, t)
	default:
		return f.set(s, p, s.block(t))
	}
	return true
}

// decodeSlice sets the slice at p. It returns the number of tokens that it used, or 0 for an error.
func (s *scratch) decodeSlice(p unsafe.Pointer, f *field, tokens []token) (n int) {
	count := int(tokens[0].count)
	data := s.room(f, count)
	s.note(p, f, &tokens[0], data, count)
	*(*sliceHeader)(p) = sliceHeader{data, count, count}
	for i := range count {
		span := int(tokens[n].span)
		if !s.decodeOne(unsafe.Add(data, uintptr(i)*f.of.size), f.of, tokens[n:n+span]) {
			return 0
		}
		n += span
	}
	return n
}

// sliceHeader is the memory layout of a slice.
type sliceHeader struct {
	data     unsafe.Pointer
	len, cap int
}
