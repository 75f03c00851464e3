//go:build !weir_safe

package codec

import (
	"reflect"
	"strconv"
	"unsafe"
)

// shape is the sequence of slices and pointers in an object, and the number of elements in each. A
// piece is the elements of one slice, or the target of one pointer. Objects of a workload have the
// same shape. Allocation takes most of the time of decoding. A template is therefore one
// allocation: a struct with a field for each piece. Strings, maps and boxes are allocated
// separately.
type shape struct {
	goType  reflect.Type
	offsets []uintptr // of the pieces, in decoding order
}

const (
	maxPieces    = 256      // per shape
	maxCount     = 64       // elements per slice in a shape
	maxShapeSize = 16 << 10 // in bytes, without padding; larger objects would gain little
)

// newShape returns the shape for the tokens of s, or nil if the object is too large for a shape.
func newShape(root reflect.Type, s *scratch) *shape {
	if len(s.pieces) > maxPieces {
		return nil
	}
	size := root.Size()
	for _, at := range s.pieces {
		t := &s.tokens[at]
		if size += uintptr(t.count) * s.fields[t.field].of.size; t.count > maxCount || size > maxShapeSize {
			return nil
		}
	}
	fields := []reflect.StructField{{Name: "Root", Type: root}}
	for i, at := range s.pieces {
		t := &s.tokens[at]
		fields = append(fields, reflect.StructField{Name: "P" + strconv.Itoa(i), Type: reflect.ArrayOf(int(t.count), s.fields[t.field].of.goType)})
	}
	sh := &shape{goType: reflect.StructOf(fields)}
	for i := range s.pieces {
		sh.offsets = append(sh.offsets, sh.goType.Field(i+1).Offset)
	}
	return sh
}

// room returns zeroed memory for the next piece: count elements of field f.
func (s *scratch) room(f *field, count int) unsafe.Pointer {
	if s.shape == nil {
		if f.kind == pointer || count == 1 { // MakeSlice would also allocate a header
			return reflect.New(f.of.goType).UnsafePointer()
		}
		return reflect.MakeSlice(f.goType, count, count).UnsafePointer()
	}
	offset := s.shape.offsets[s.taken]
	s.taken++
	return unsafe.Add(s.image, offset)
}
