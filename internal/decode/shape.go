package decode

import (
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"unsafe"
)

// shape is what the slices and pointers of an object take. Objects of one workload have the same
// one, and most of the time that decoding takes is the allocator's: so what an object consists of,
// but for its strings, maps and boxes, is allocated at once, as one struct that has all the pieces
// for fields.
type shape struct {
	goType  reflect.Type
	offsets []uintptr // of the pieces, in the order in which they are decoded
}

const (
	maxShapes    = 64       // of one type of object, and of the parts that are decoded of one: they stay for good
	maxPieces    = 256      // of a shape
	maxCount     = 64       // elements of a slice in a shape
	maxShapeSize = 16 << 10 // bytes; larger ones gain little
)

// shapes are the shapes of one type of object. Safe for concurrent use; reading takes no lock.
type shapes struct {
	known atomic.Pointer[map[string]*shape] // replaced at each change

	mu   sync.Mutex
	seen map[string]struct{} // once: what comes only once is not worth a shape
}

// find returns the shape of what was cut up, if there is one.
func (h *shapes) find(root reflect.Type, s *scratch) *shape {
	for _, at := range s.pieces {
		t := &s.tokens[at]
		s.key = append(s.key, byte(t.field), byte(t.field>>8), byte(min(t.count, maxCount+1)))
	}
	if known := h.known.Load(); known != nil {
		if found, ok := (*known)[string(s.key)]; ok {
			return found
		}
		if len(*known) == maxShapes {
			return nil
		}
	}
	return h.learn(root, s)
}

// learn makes a shape of what comes for the second time.
func (h *shapes) learn(root reflect.Type, s *scratch) *shape {
	if len(s.pieces) > maxPieces {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	key := string(s.key)
	if _, again := h.seen[key]; !again {
		if h.seen == nil || len(h.seen) == maxShapes {
			h.seen = map[string]struct{}{}
		}
		h.seen[key] = struct{}{}
		return nil
	}
	known := map[string]*shape{}
	if now := h.known.Load(); now != nil {
		for k, v := range *now {
			known[k] = v
		}
	}
	if known[key] == nil && len(known) < maxShapes {
		known[key] = newShape(root, s)
		h.known.Store(&known)
	}
	return known[key]
}

// newShape returns nil for a shape that is not worth it.
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

// room returns zeroed memory for a piece.
func (s *scratch) room(f *field, count int) unsafe.Pointer {
	if s.shape == nil {
		if f.kind == pointer {
			return reflect.New(f.of.goType).UnsafePointer()
		}
		return reflect.MakeSlice(f.goType, count, count).UnsafePointer()
	}
	offset := s.shape.offsets[s.taken]
	s.taken++
	return unsafe.Add(s.image, offset)
}
