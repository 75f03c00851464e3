//go:build !weir_safe

package codec

import (
	"reflect"
	"slices"
	"sync/atomic"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

// plan describes how to decode objects with the same sequence of fields, such as the objects of a
// workload. Its steps are in the order of the bytes. Each step says where the decoder writes a
// value in the memory of the shape, which is the object with its slices and pointers. So the
// decoder looks up nothing by field number. A plan is immutable after it is stored in plans.
type plan struct {
	decoder  *decoder
	shape    *shape
	tokens   []token // of the object for which the plan was made
	steps    []step
	template *template // nil if objects of the plan cannot be copied
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
	token uint32 // the index of the value's token
	to    uint32 // where in the object the value goes
	piece uint32 // for a pointer or slice: where in the object its target is
	count uint32 // the number of elements of a slice, or of entries of a map
}

// Limits of the plans per type of object. Plans stay in memory for the life of the process.
const (
	maxPlans      = 1 << planBits
	planBits      = 6
	maxPlanTokens = 1 << 10
)

// placeOf returns the index in plans for a sequence of fields whose hash is print. mark
// distinguishes sequences with the same index.
func placeOf(print uint64) (place uint64, mark uint32) {
	hash := print * 0x9e3779b97f4a7c15
	return hash >> (64 - planBits), uint32(hash>>25) | 1
}

// plans contains the plans of one type of object, by the hash of their fields. A plan is made when
// the same sequence of fields occurs twice and no other sequence with the same index occurs in
// between. plans is safe for concurrent use.
type plans struct {
	seen [maxPlans]atomic.Uint32
	kept [maxPlans]atomic.Pointer[plan]
}

// find returns the plan for the tokens of s, or nil. If it returns no plan, worth reports whether
// the caller should make one.
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

// keep stores p, a plan that was made for the tokens of s, instead of the plan with the same index.
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

// follow decodes the tokens of s into s.image with plan p. It returns false if Unmarshal must
// decode the object.
func (s *scratch) follow(p *plan) bool {
	for i := range p.steps {
		st := &p.steps[i]
		if !s.followStep(st, s.tokens[st.token:]) {
			return false
		}
	}
	return true
}

// followStep performs one step of a plan. tokens starts with the step's token.
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

// note adds a step to the plan, if one is being made. The step sets field f at p from token t. If f
// is a pointer or a slice, target is the memory of what it points to, and count is the number of
// elements there. If f is a map, target is nil and count is the number of entries.
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

// setOther sets a field of kind other with the field's setter. If the field is a floating-point
// number, setOther sets its bits.
func (s *scratch) setOther(p unsafe.Pointer, f *field, t *token) bool {
	if f.wireType == protowire.BytesType {
		return f.set(s, p, s.block(t))
	}
	*(*uint64)(p) = t.value
	return true
}

// decodeByPlan decodes an object with its plan. If there is no plan, decodeByPlan decodes the
// tokens. It also makes a plan then, if plans.find reports that the caller should, and the object
// has a shape.
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
