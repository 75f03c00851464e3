//go:build !weir_safe

package codec

import (
	"reflect"
	"slices"
	"sync/atomic"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

// plan says how to decode objects with the same sequence of fields, such as the objects of a
// workload. Its steps say where in the memory of their shape each value goes, in the order of the
// bytes, so that nothing is looked up by field number. A plan is immutable once it is kept.
type plan struct {
	decoder  *decoder
	shape    *shape
	tokens   []token // of the object that it was made for
	steps    []step
	template *template // nil: its objects are not copied
}

// outline is a token without its value.
type outline struct {
	field       uint32
	span, count int32
}

func outlineOf(t *token) outline { return outline{t.field, t.span, t.count} }

// step sets one value.
type step struct {
	field *field
	kind  fieldKind
	token uint32 // the index of its token
	to    uint32 // where in the object the value goes
	piece uint32 // where in the object, for a pointer or slice, what it points to is
	count uint32 // number of its elements, or of the entries of a map
}

// Bounds of what is kept per type of object for the life of the process.
const (
	maxPlans      = 1 << planBits
	planBits      = 6
	maxPlanTokens = 1 << 10
)

// placeOf returns the place of a plan by the hash of its fields, and a mark that distinguishes
// hashes with the same place.
func placeOf(print uint64) (place uint64, mark uint32) {
	hash := print * 0x9e3779b97f4a7c15
	return hash >> (64 - planBits), uint32(hash>>25) | 1
}

// plans are the plans of one type of object, by the hash of their fields. A plan is made only when
// the same fields occur twice before other fields take the place. It is safe for concurrent use.
type plans struct {
	seen [maxPlans]atomic.Uint32
	kept [maxPlans]atomic.Pointer[plan]
}

// find returns the plan for the tokens of s, or nil. worth reports whether a plan should be made.
func (h *plans) find(s *scratch) (found *plan, worth bool) {
	place, mark := placeOf(s.print)
	if p := h.kept[place].Load(); p != nil && p.fits(s.tokens) {
		return p, false
	}
	if len(s.tokens) > maxPlanTokens {
		return nil, false
	}
	return nil, h.seen[place].Swap(mark) == mark
}

// keep stores a plan that was made for the tokens of s.
func (h *plans) keep(s *scratch, p *plan) {
	p.tokens = slices.Clone(s.tokens)
	p.template = s.newTemplate(p)
	place, _ := placeOf(s.print)
	h.kept[place].Store(p)
}

func (p *plan) fits(tokens []token) bool {
	if len(tokens) != len(p.tokens) {
		return false
	}
	for i := range tokens {
		if outlineOf(&tokens[i]) != outlineOf(&p.tokens[i]) {
			return false
		}
	}
	return true
}

// follow decodes the tokens of s into the image by a plan.
func (s *scratch) follow(p *plan) bool {
	for i := range p.steps {
		st := &p.steps[i]
		if !s.followStep(st, s.tokens[st.token:]) {
			return false
		}
	}
	return true
}

// followStep follows one step of a plan. tokens start with the step's own.
func (s *scratch) followStep(st *step, tokens []token) bool {
	to, t := unsafe.Add(s.image, st.to), &tokens[0]
	switch st.kind {
	case text:
		*(*string)(to) = s.text(s.block(t))
	case boolean:
		*(*bool)(to) = t.value != 0
	case number32:
		*(*uint32)(to) = uint32(t.value)
	case number64:
		*(*uint64)(to) = t.value
	case pointer:
		*(*unsafe.Pointer)(to) = unsafe.Add(s.image, st.piece)
	case slice:
		*(*sliceHeader)(to) = sliceHeader{unsafe.Add(s.image, st.piece), int(st.count), int(st.count)}
	case mapping:
		return st.field.setAll(s, to, tokens[:st.count])
	case boxed:
		return s.setBox(to, st.field, t)
	default:
		return s.setOther(to, st.field, t)
	}
	return true
}

// note adds a step to the plan that is being made, if any. The step sets the field at p from a
// token. If the field holds a piece, the piece is at target.
func (s *scratch) note(p unsafe.Pointer, f *field, t *token, target unsafe.Pointer, count int) {
	if s.noting == nil {
		return
	}
	st := step{field: f, kind: f.kind, token: s.indexOf(t), to: s.offsetOf(p), count: uint32(count)}
	if target != nil {
		st.piece = s.offsetOf(target)
	}
	s.noting.steps = append(s.noting.steps, st)
}

func (s *scratch) indexOf(t *token) uint32 {
	return uint32((uintptr(unsafe.Pointer(t)) - uintptr(unsafe.Pointer(&s.tokens[0]))) / unsafe.Sizeof(token{}))
}

func (s *scratch) offsetOf(p unsafe.Pointer) uint32 { return uint32(uintptr(p) - uintptr(s.image)) }

// setOther sets a field of kind other by its setter, or a floating point number from its bits.
func (s *scratch) setOther(p unsafe.Pointer, f *field, t *token) bool {
	if f.wireType == protowire.BytesType {
		return f.set(s, p, s.block(t))
	}
	*(*uint64)(p) = t.value
	return true
}

// decodeByPlan decodes an object by its plan. If there is none, it makes one when that is worth it.
func (d *decoder) decodeByPlan(s *scratch) (image unsafe.Pointer, ok bool) {
	found, worth := d.plans.find(s)
	if found != nil {
		s.remember(found)
		s.image = reflect.New(found.shape.goType).UnsafePointer()
		return s.image, s.follow(found)
	}
	if image = d.allocate(s); worth && s.shape != nil {
		s.noting = &plan{decoder: d, shape: s.shape}
	}
	ok = s.decode(image, s.tokens)
	if ok && s.noting != nil {
		d.plans.keep(s, s.noting)
		s.image = image
	}
	s.noting = nil
	return image, ok
}
