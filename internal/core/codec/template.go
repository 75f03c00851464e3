//go:build !weir_safe

package codec

import (
	"bytes"
	"encoding/binary"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// template is a decoded object that no caller receives. For another object with the same fields,
// the decoder copies the template and sets the values that differ. It need not look up fields by
// number. Most bytes of the objects of a workload are equal, and so are most bytes of two versions
// of an object. Comparing and copying equal bytes is much cheaper than decoding. A copy shares
// strings with the template, but no slices, pointers or maps. A template is immutable after
// newTemplate.
type template struct {
	decoder   *decoder
	shape     *shape
	image     unsafe.Pointer
	raw       []byte
	tokens    []token
	locations []location     // by token
	steps     []step         // in the order of the bytes
	stepOf    []int32        // by token: the step that sets its value; negative if there is none
	moves     []move         // of the steps for slices and pointers
	repeated  []repeatedStep // the steps whose values cannot be copied by assignment
}

// step sets one value. It says where the decoder writes the value in the memory of the shape, which
// is the object with its slices and pointers.
type step struct {
	field *field
	token uint32 // the index of the value's token
	to    uint32 // where in the object the value goes
	piece uint32 // for a pointer or slice: where in the object its target is
	count uint32 // the number of elements of a slice, or of entries of a map
}

// move contains two positions in an object's memory: the position of a slice or pointer, and the
// position of the piece to which it points. In a copy of the object, the slice or pointer must
// point to the piece in the copy.
type move struct{ to, piece uint32 }

// repeatedStep is a step that the decoder repeats for each copy of a template. Most of these steps
// set boxes, or maps that can be cloned.
type repeatedStep struct {
	step  int32
	clone func(to, from unsafe.Pointer) // nil if the step must decode the template's bytes
}

// location is the position of a token in the template's bytes.
type location struct {
	field      *field
	begin, end uint32 // with the tag; for a map, from its first to its last entry
	content    uint32 // of a message: where it begins
	span       int32  // the number of tokens, with those inside; for a map, the number of its entries
}

// Limits of templates. Templates and the types of their shapes stay in memory until the process
// ends.
const (
	maxTemplates      = 64       // per type of object
	maxTemplate       = 16 << 10 // the size of an object that becomes a template, in bytes
	maxTemplateTokens = 1 << 10
)

// templates contains the templates of one type of object. A sequence of fields gets a template at
// its second occurrence, unless a different sequence with the same place in seen has occurred in
// between. After maxTemplates templates, no more are kept. templates is safe for concurrent use.
type templates struct {
	kept sync.Map // by the hash of the fields, a uint64: *template
	made atomic.Int32
	seen [maxTemplates]atomic.Uint64 // hashes without a template, each at hash % maxTemplates
}

// find returns the template for the hash of an object's fields, or nil. If found is nil, worth
// reports whether the caller should make a template.
func (h *templates) find(print uint64) (found *template, worth bool) {
	if found, ok := h.kept.Load(print); ok {
		return found.(*template), false
	}
	return nil, h.made.Load() < maxTemplates && h.seen[print%maxTemplates].Swap(print) == print
}

// keep stores a template unless there are maxTemplates already.
func (h *templates) keep(print uint64, t *template) {
	if h.made.Add(1) <= maxTemplates {
		h.kept.LoadOrStore(print, t)
	}
}

// lastApplied is part of the name of the annotation in which kubectl apply stores the whole object.
var lastApplied = []byte("last-applied-configuration")

// isSecret reports whether the bytes of an object may contain a Secret's data. Such bytes must not
// become a template, which stays in memory for the life of the process. For a
// PartialObjectMetadata, isSecret only looks at the bytes, because the type does not say whether
// the object is a Secret.
func isSecret(t reflect.Type, raw []byte) bool {
	if t == reflect.TypeFor[metav1.PartialObjectMetadata]() {
		return bytes.Contains(raw, lastApplied)
	}
	return t.Name() == "Secret" && t.PkgPath() == "k8s.io/api/core/v1"
}

// newTemplate makes a template from the tokens of the current object. It returns nil if the object
// may not become a template, or if Unmarshal must decode it.
func (d *decoder) newTemplate(s *scratch) *template {
	if s.unusual || len(s.raw) > maxTemplate || len(s.tokens) > maxTemplateTokens || isSecret(d.goType, s.raw) {
		return nil
	}
	sh := newShape(d.goType, s)
	if sh == nil {
		return nil
	}
	t := &template{
		decoder: d, shape: sh, raw: bytes.Clone(s.raw), tokens: slices.Clone(s.tokens),
		locations: make([]location, len(s.tokens)), stepOf: slices.Repeat([]int32{-1}, len(s.tokens)),
	}
	s.noting = t
	t.image = d.allocate(s, sh)
	ok := s.decode(t.image, s.tokens)
	if s.noting = nil; !ok {
		return nil
	}
	s.locate(t.locations, s.tokens, 0)
	for i := range t.steps {
		t.addStep(i)
	}
	return t
}

// addStep records how the decoder performs step i for a copy.
func (t *template) addStep(i int) {
	st := &t.steps[i]
	t.stepOf[st.token] = int32(i)
	f, value := st.field, unsafe.Add(t.image, st.to)
	switch {
	case f.kind == pointer || f.kind == slice:
		t.moves = append(t.moves, move{st.to, st.piece})
	case f.kind == boxed:
		t.repeated = append(t.repeated, repeatedStep{int32(i), f.box.clone})
	case f.kind == mapping:
		t.repeated = append(t.repeated, repeatedStep{int32(i), cloneOf(f.goType, value)})
	case f.kind == other && !canCopy(f.goType, value):
		t.repeated = append(t.repeated, repeatedStep{step: int32(i)})
	}
}

// note adds a step to the template that the decoder is making. If it makes none, note is a no-op.
// The step sets field f at p from token t. If f is a pointer or a slice, target is the memory of
// what it points to, and count is the number of elements there. If f is a map, target is nil and
// count is the number of entries.
func (s *scratch) note(p unsafe.Pointer, f *field, t *token, target unsafe.Pointer, count int) {
	if s.noting == nil {
		return
	}
	st := step{field: f, token: s.indexOf(t), to: s.offsetOf(p), count: uint32(count)}
	if target != nil {
		st.piece = s.offsetOf(target)
	}
	s.noting.steps = append(s.noting.steps, st)
}

func (s *scratch) indexOf(t *token) uint32 {
	return uint32((uintptr(unsafe.Pointer(t)) - uintptr(unsafe.Pointer(&s.tokens[0]))) / unsafe.Sizeof(token{}))
}

func (s *scratch) offsetOf(p unsafe.Pointer) uint32 { return uint32(uintptr(p) - uintptr(s.image)) }

// locate sets the locations of tokens. The first token starts at pos. The tokens must cover all
// bytes.
func (s *scratch) locate(locations []location, tokens []token, pos int) {
	for i := 0; i < len(tokens); {
		t, loc := &tokens[i], &locations[i]
		f := s.fields[t.field]
		_, n := varint(s.raw, pos)
		x, end := cut(s.raw, pos+n, f.wireType)
		*loc = location{field: f, begin: uint32(pos), end: uint32(end), content: uint32(x), span: t.span}
		if f.kind == mapping {
			loc.span, loc.end = t.count, uint32(tokens[i+int(t.count)-1].value>>32)
		}
		next := i + int(loc.span)
		if f.message != nil {
			s.locate(locations[i+1:next], tokens[i+1:next], int(loc.content))
		}
		i, pos = next, int(loc.end)
	}
}

// cloneOf returns a function that copies maps of type t with maps.Clone, which does not hash the
// keys of a small map. Key and value of the map may have named string types; see setMapOf. cloneOf
// returns nil if the map at p must be decoded again. The function does not retain p.
func cloneOf(t reflect.Type, p unsafe.Pointer) func(to, from unsafe.Pointer) {
	switch {
	case t.Elem().Kind() == reflect.String:
		return cloneMap[string]
	case t.Elem() == reflect.TypeFor[resource.Quantity]():
		for _, q := range *(*map[string]resource.Quantity)(p) {
			if hasPointer(&q) {
				return nil
			}
		}
		return cloneMap[resource.Quantity]
	}
	return nil
}

func cloneMap[V any](to, from unsafe.Pointer) {
	*(*map[string]V)(to) = maps.Clone(*(*map[string]V)(from))
}

// canCopy reports whether assignment copies a value completely, so that the copies share nothing
// mutable. It is called only for values that a setter decodes (fieldKind "other").
func canCopy(t reflect.Type, p unsafe.Pointer) bool {
	switch t {
	case reflect.TypeFor[resource.Quantity]():
		return !hasPointer((*resource.Quantity)(p))
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		return true
	}
	return false
}

// shape is the sequence of slices and pointers in an object, and the number of elements in each. A
// piece is the elements of one slice, or the target of one pointer. Objects of a workload have the
// same shape. Allocation takes most of the time of decoding, so a template is one allocation: a
// struct with a field for each piece. Strings, maps and boxes are allocated separately.
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

// shapes contains shapes for objects that share values, which no template fits. Like a template, a
// shape is made at the second occurrence of its pieces, and at most maxTemplates are kept. shapes
// is safe for concurrent use.
type shapes struct {
	mu   sync.RWMutex
	kept map[string]*shape           // by scratch.key
	seen [maxTemplates]atomic.Uint64 // hashes of keys without a shape, each at hash % maxTemplates
}

// find returns the shape for the tokens of s, or nil if each piece must be allocated separately.
func (h *shapes) find(root reflect.Type, s *scratch) *shape {
	if len(s.pieces) > maxPieces {
		return nil
	}
	s.key = s.key[:0]
	for _, at := range s.pieces {
		t := &s.tokens[at]
		s.key = binary.LittleEndian.AppendUint64(s.key, uint64(t.field)<<32|uint64(t.count))
	}
	h.mu.RLock()
	found, full := h.kept[string(s.key)], len(h.kept) >= maxTemplates
	h.mu.RUnlock()
	hash := hashOf(s.key)
	if found != nil || full || h.seen[hash%maxTemplates].Swap(hash) != hash {
		return found
	}
	made := newShape(root, s)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.kept == nil {
		h.kept = map[string]*shape{}
	}
	if made != nil && len(h.kept) < maxTemplates {
		h.kept[string(s.key)] = made
	}
	return made
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
