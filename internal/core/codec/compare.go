//go:build !weir_safe

package codec

import (
	"encoding/binary"
	"math/bits"
	"reflect"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

// difference is one value that differs between the current object and a template.
type difference struct {
	token int32 // the token's index in the template
	at    int32 // of a map: the index of its entries' tokens in the scratch
	value uint64
}

// maxRecent is the number of recent templates with which decodeLikeOthers compares an object before
// it splits the object into tokens.
const maxRecent = 4

// decodeLikeOthers decodes an object by copying a template, if the object has the same fields as a
// recent object. ok is false if no recent template fits, or if Unmarshal must decode the object.
func (d *decoder) decodeLikeOthers(s *scratch, raw []byte) (image unsafe.Pointer, ok bool) {
	if len(raw) > maxSize {
		return nil, false
	}
	for _, t := range s.recent {
		if t == nil || t.decoder != d {
			continue
		}
		s.raw, s.fields = raw, d.fields
		alike := s.compare(t)
		if alike {
			s.remember(t)
			image, ok = s.copyTemplate(t)
		}
		if s.reset(); alike {
			return image, ok
		}
	}
	return nil, false
}

// templateOf returns the template that has the same fields as the current object, and records the
// values that differ. If there is none, and templates.find says that a template is worth the cost,
// templateOf makes one. In all other cases it returns nil.
func (d *decoder) templateOf(s *scratch) *template {
	t, worth := d.templates.find(s.print)
	if t != nil {
		if tokens := len(s.tokens); !s.compare(t) {
			s.tokens, s.differences = s.tokens[:tokens], s.differences[:0]
			return nil
		}
	} else if worth {
		if t = d.newTemplate(s); t != nil {
			d.templates.keep(s.print, t)
		}
	}
	if t != nil {
		s.remember(t)
	}
	return t
}

// remember makes t the first template with which the next object is compared.
func (s *scratch) remember(t *template) {
	i := 0
	for i < maxRecent-1 && s.recent[i] != t {
		i++
	}
	copy(s.recent[1:i+1], s.recent[:i])
	s.recent[0] = t
}

// compare records the differences between the current object and c. It returns false if their
// fields differ, or if the bytes are malformed.
func (s *scratch) compare(c *template) bool {
	return s.compareMessage(c, 0, len(c.locations), 0, len(c.raw), 0, len(s.raw))
}

// compareMessage compares the message s.raw[pos:end] with the message c.raw[was:wasEnd]. The tokens
// of the second message have the indexes token, token+1, …, last-1.
func (s *scratch) compareMessage(c *template, token, last, was, wasEnd, pos, end int) bool {
	raw := s.raw[:end]
	for token < last {
		same := uint32(was + prefix(c.raw[was:wasEnd], raw[pos:]))
		loc := &c.locations[token]
		for loc.end <= same {
			if token += int(loc.span); token == last {
				break
			}
			loc = &c.locations[token]
		}
		if token == last {
			return len(raw)-pos == wasEnd-was
		}
		// compareField starts at the tag, because the first difference may be in the tag.
		pos += int(loc.begin) - was
		next := s.compareField(c, loc, token, pos, raw)
		if next < 0 {
			return false
		}
		token += int(loc.span)
		was, pos = int(loc.end), next
	}
	return pos == end
}

// compareField compares the field at pos with the field of c at loc. It returns the end of the
// field, or a negative number if the fields, or fields inside them, differ or the bytes are
// malformed.
func (s *scratch) compareField(c *template, loc *location, token, pos int, raw []byte) (next int) {
	if loc.field.kind == mapping {
		return s.compareMap(c, loc, token, pos, raw)
	}
	if pos = sameTag(c.raw[loc.begin:], raw, pos); pos < 0 {
		return -1
	}
	x, next := cut(raw, pos, loc.field.wireType)
	switch {
	case next < 0:
	case loc.field.message == nil:
		s.differences = append(s.differences, difference{token: int32(token), value: x})
	case !s.compareMessage(c, token+1, token+int(loc.span), int(loc.content), int(loc.end), int(uint32(x)), next):
		return -1
	}
	return next
}

// compareMap records a map as a difference, with its entries as tokens. It returns the end of the
// map, or a negative number if the map has fewer entries than the template's map.
func (s *scratch) compareMap(c *template, loc *location, at, pos int, raw []byte) (next int) {
	s.differences = append(s.differences, difference{token: int32(at), at: int32(len(s.tokens))})
	for range loc.span {
		if pos = sameTag(c.raw[loc.begin:], raw, pos); pos < 0 {
			return -1
		}
		var x uint64
		if x, pos = cut(raw, pos, protowire.BytesType); pos < 0 {
			return -1
		}
		s.tokens = append(s.tokens, token{value: x, span: 1})
	}
	return pos
}

// sameTag compares the protobuf tag at the start of was with the tag at pos in raw. It returns the
// position after the tag in raw if they are equal, and otherwise -1. All tags of a template have
// one or two bytes; see scratch.unusual.
func sameTag(was, raw []byte, pos int) int {
	if pos >= len(raw) || raw[pos] != was[0] {
		return -1
	}
	if raw[pos] < 0x80 {
		return pos + 1
	}
	if pos+1 >= len(raw) || raw[pos+1] != was[1] {
		return -1
	}
	return pos + 2
}

// stride is the number of bytes that prefix compares in one step.
const stride = 64

// prefix returns the length of the longest common prefix of a and b.
func prefix(a, b []byte) (n int) {
	a = a[:min(len(a), len(b))]
	for len(a)-n >= stride && string(a[n:n+stride]) == string(b[n:n+stride]) {
		n += stride
	}
	for ; len(a)-n >= 8; n += 8 {
		if x := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:]); x != 0 {
			return n + bits.TrailingZeros64(x)/8
		}
	}
	for n < len(a) && a[n] == b[n] {
		n++
	}
	return n
}

// copyTemplate returns a copy of a template, in which it sets the values that differ in the current
// object. ok is false if Unmarshal must decode the object.
//
// The bytes are copied without the garbage collector's write barriers, which would mark the target
// of each copied pointer. This is safe, because the collector marks these targets anyway: they also
// belong to the template, which does not change, or they are in the copy itself.
func (s *scratch) copyTemplate(t *template) (image unsafe.Pointer, ok bool) {
	image = reflect.New(t.shape.goType).UnsafePointer()
	s.image = image
	size := t.shape.goType.Size()
	copy(unsafe.Slice((*byte)(image), size), unsafe.Slice((*byte)(t.image), size))
	for i := range t.moves {
		m := &t.moves[i]
		*(*uintptr)(unsafe.Add(image, m.to)) = uintptr(image) + uintptr(m.piece)
	}
	repeated := t.repeated
	for i := range s.differences {
		diff := &s.differences[i]
		at := t.stepOf[diff.token]
		for len(repeated) > 0 && repeated[0].step < at {
			if !s.repeatStep(t, &repeated[0]) {
				return nil, false
			}
			repeated = repeated[1:]
		}
		if len(repeated) > 0 && repeated[0].step == at {
			repeated = repeated[1:]
		}
		s.one[0].value = diff.value
		tokens := s.one[:]
		if t.steps[at].field.kind == mapping {
			tokens = s.tokens[diff.at:]
		}
		if !s.followStep(&t.steps[at], tokens) {
			return nil, false
		}
	}
	for i := range repeated {
		if !s.repeatStep(t, &repeated[i]) {
			return nil, false
		}
	}
	return image, true
}

// repeatStep sets a value of the copy that assignment cannot copy: it clones the template's value,
// or decodes the template's bytes again.
func (s *scratch) repeatStep(t *template, a *repeatedStep) bool {
	st := &t.steps[a.step]
	if a.clone != nil {
		a.clone(unsafe.Add(s.image, st.to), unsafe.Add(t.image, st.to))
		return true
	}
	raw := s.raw
	s.raw = t.raw
	ok := s.followStep(st, t.tokens[st.token:])
	s.raw = raw
	return ok
}

// followStep sets the value of one step. tokens starts with the value's token.
func (s *scratch) followStep(st *step, tokens []token) bool {
	to := unsafe.Add(s.image, st.to)
	if st.field.kind == mapping {
		return st.field.setAll(s, to, tokens[:st.count])
	}
	return s.set(to, st.field, &tokens[0])
}
