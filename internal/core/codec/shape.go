//go:build !weir_safe

package codec

import (
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"unsafe"
)

// shape is the sequence of slices and pointers in an object, and the number of elements in each. A
// piece is the elements of one slice, or the target of one pointer. Objects of a workload have the
// same shape. Allocation takes most of the time of decoding. An object with a known shape is
// therefore one allocation: a struct with a field for each piece. Strings, maps and boxes are
// allocated separately.
type shape struct {
	goType  reflect.Type
	offsets []uintptr // of the pieces, in decoding order
}

const (
	maxShapes    = 64       // per type of object; shapes are never removed
	maxPieces    = 256      // per shape
	maxCount     = 64       // elements per slice in a shape
	maxShapeSize = 16 << 10 // in bytes; larger objects would gain little
)

// shapes contains the shapes of one type of object. It is safe for concurrent use. Reading takes no
// lock.
type shapes struct {
	byKey atomic.Pointer[map[string]*shape] // replaced by a new map at each change

	mu   sync.Mutex
	seen map[string]struct{} // keys that occurred once; at most maxShapes
}

// find returns the shape for the tokens of s, or nil.
func (h *shapes) find(root reflect.Type, s *scratch) *shape {
	for _, at := range s.pieces {
		t := &s.tokens[at]
		s.key = append(s.key, byte(t.field), byte(t.field>>8), byte(min(t.count, maxCount+1)))
	}
	if byKey := h.byKey.Load(); byKey != nil {
		if found, ok := (*byKey)[string(s.key)]; ok {
			return found
		}
		if len(*byKey) == maxShapes {
			return nil
		}
	}
	return h.learn(root, s)
}

// learn creates a shape when the shape's key occurs for the second time. Otherwise it records the
// key and returns nil.
func (h *shapes) learn(root reflect.Type, s *scratch) *shape {
	if len(s.pieces) > maxPieces {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	key := string(s.key)
	if _, repeated := h.seen[key]; !repeated {
		if h.seen == nil || len(h.seen) == maxShapes {
			h.seen = map[string]struct{}{}
		}
		h.seen[key] = struct{}{}
		return nil
	}
	grown := map[string]*shape{}
	if now := h.byKey.Load(); now != nil {
		for k, v := range *now {
			grown[k] = v
		}
	}
	if grown[key] == nil && len(grown) < maxShapes {
		grown[key] = newShape(root, s)
		h.byKey.Store(&grown)
	}
	return grown[key]
}

// newShape returns the shape for the tokens of s, or nil if the object is too large for a shape.
func newShape(root reflect.Type, s *scratch) *shape {
	fields := []reflect.StructField{{Name: "Root", Type: root}}
	for i, at := range s.pieces {
		t := &s.tokens[at]
		if t.count > maxCount {
			return nil
		}
		fields = append(fields, reflect.StructField{Name: "P" + strconv.Itoa(i), Type: reflect.ArrayOf(int(t.count), s.fields[t.field].of.goType)})
	}
	sh := &shape{goType: reflect.StructOf(fields)}
	if sh.goType.Size() > maxShapeSize {
		return nil
	}
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
