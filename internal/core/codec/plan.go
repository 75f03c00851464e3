//go:build !weir_safe

package codec

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
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
	token uint32 // the index of the value's token
	to    uint32 // where in the object the value goes
	piece uint32 // for a pointer or slice: where in the object its target is
	count uint32 // the number of elements of a slice, or of entries of a map
}

// Limits of the plans per type of object. Plans, and the types of their shapes, stay in memory for
// the life of the process.
const (
	maxPlans      = 64
	maxPlanTokens = 1 << 10
)

// plans contains the first plans of one type of object. A plan is made when the same sequence of
// fields occurs twice and no other sequence with the same place in seen occurs between. plans is
// safe for concurrent use.
type plans struct {
	kept sync.Map // by the hash of the fields, a uint64: *plan
	made atomic.Int32
	seen [maxPlans]atomic.Uint64 // the hash of the last sequence without a plan, by the hash
}

// find returns the plan for the tokens of s, or nil. If it returns no plan, worth reports whether
// the caller should make one.
func (h *plans) find(s *scratch) (found *plan, worth bool) {
	if p, ok := h.kept.Load(s.print); ok {
		if found = p.(*plan); !found.fits(s.tokens) {
			found = nil
		}
		return found, false
	}
	if len(s.tokens) > maxPlanTokens || h.made.Load() >= maxPlans {
		return nil, false
	}
	return nil, h.seen[s.print%maxPlans].Swap(s.print) == s.print
}

// keep stores p, a plan that was made for the tokens of s, unless there are maxPlans plans.
func (h *plans) keep(s *scratch, p *plan) {
	if h.made.Add(1) > maxPlans {
		return
	}
	p.tokens = slices.Clone(s.tokens)
	p.template = s.newTemplate(p)
	h.kept.LoadOrStore(s.print, p)
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
	to := unsafe.Add(s.image, st.to)
	switch st.field.kind {
	case pointer:
		*(*unsafe.Pointer)(to) = unsafe.Add(s.image, st.piece)
	case slice:
		*(*sliceHeader)(to) = sliceHeader{unsafe.Add(s.image, st.piece), int(st.count), int(st.count)}
	case mapping:
		return st.field.setAll(s, to, tokens[:st.count])
	default:
		return s.set(to, st.field, &tokens[0])
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

// decodeByPlan decodes an object with its plan. If there is no plan, decodeByPlan decodes the
// tokens. It also makes a plan then, if plans.find reports that the caller should, and the object
// can have a shape.
func (d *decoder) decodeByPlan(s *scratch) (image unsafe.Pointer, ok bool) {
	found, worth := d.plans.find(s)
	if found != nil {
		s.remember(found)
		image = d.allocate(s, found.shape)
		return image, s.follow(found)
	}
	var sh *shape
	if worth {
		sh = newShape(d.goType, s)
	}
	if sh != nil {
		s.noting = &plan{decoder: d, shape: sh}
	}
	image = d.allocate(s, sh)
	if ok = s.decode(image, s.tokens); ok && sh != nil {
		d.plans.keep(s, s.noting)
	}
	return image, ok
}
