//go:build !weir_safe

package codec

import (
	"encoding/binary"
	"math/bits"
	"reflect"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

// difference is one value in which the current object differs from the template that it is
// compared with.
type difference struct {
	token int32 // the token's index in the plan
	at    int32 // of a map: the index of its entries' tokens in the scratch
	value uint64
}

// maxRecentPlans is the number of recent plans that decodeLikeOthers tries for an object before the
// object is split into tokens.
const maxRecentPlans = 4

// decodeLikeOthers decodes an object by copying a template, if the object has the same fields as a
// recent object. ok is false if no plan fits.
func (d *decoder) decodeLikeOthers(s *scratch, raw []byte) (image unsafe.Pointer, ok bool) {
	if len(raw) > maxSize {
		return nil, false
	}
	for _, p := range s.recentPlans {
		if p == nil || p.decoder != d || p.template == nil {
			continue
		}
		s.raw, s.fields = raw, d.fields
		alike := s.compare(p.template)
		if alike {
			s.remember(p)
			ok = s.copyTemplate(p)
			image = s.image
		}
		if s.reset(); alike {
			return image, ok
		}
	}
	return nil, false
}

// remember makes p the first plan that the next object is compared with.
func (s *scratch) remember(p *plan) {
	i := 0
	for i < maxRecentPlans-1 && s.recentPlans[i] != p {
		i++
	}
	copy(s.recentPlans[1:i+1], s.recentPlans[:i])
	s.recentPlans[0] = p
}

// compare records the differences between the current object and c. It returns false if their
// fields differ, or if the bytes are malformed.
func (s *scratch) compare(c *template) bool {
	return s.compareMessage(c, 0, len(c.locations), 0, len(c.raw), 0, len(s.raw))
}

// compareMessage compares the message s.raw[pos:end] with the message c.raw[was:wasEnd]. The second
// message has the tokens from token up to, but not including, last.
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
// field, or a negative number if the fields inside differ or the bytes are malformed.
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
// position after the tag in raw if they are equal, and otherwise -1. All tags have one or two
// bytes: see scratch.unusual.
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

// copyTemplate makes the current object a copy of the template of p, and then sets the values that
// differ.
func (s *scratch) copyTemplate(p *plan) bool {
	c, object := p.template, reflect.New(p.shape.goType)
	object.Elem().Set(reflect.NewAt(p.shape.goType, c.image).Elem())
	s.image = object.UnsafePointer()
	for i := range c.moves {
		m := &c.moves[i]
		*(*unsafe.Pointer)(unsafe.Add(s.image, m.to)) = unsafe.Add(s.image, m.piece)
	}
	repeated := c.repeated
	for i := range s.differences {
		diff := &s.differences[i]
		at := c.stepOf[diff.token]
		for len(repeated) > 0 && repeated[0].step < at {
			if !s.repeatStep(p, &repeated[0]) {
				return false
			}
			repeated = repeated[1:]
		}
		if len(repeated) > 0 && repeated[0].step == at {
			repeated = repeated[1:]
		}
		if !s.putRight(&p.steps[at], diff) {
			return false
		}
	}
	for i := range repeated {
		if !s.repeatStep(p, &repeated[i]) {
			return false
		}
	}
	return true
}

// putRight sets one value of the copy that differs from the template's.
func (s *scratch) putRight(st *step, diff *difference) bool {
	if st.field.kind == mapping {
		return s.followStep(st, s.tokens[diff.at:])
	}
	s.one[0].value = diff.value
	return s.followStep(st, s.one[:])
}

// repeatStep sets a value of the copy that assignment cannot copy: it clones the template's value,
// or decodes the template's bytes again.
func (s *scratch) repeatStep(p *plan, a *repeatedStep) bool {
	st, from := &p.steps[a.step], p.template
	if a.clone != nil {
		a.clone(unsafe.Add(s.image, st.to), unsafe.Add(from.image, st.to))
		return true
	}
	raw := s.raw
	s.raw = from.raw
	ok := s.followStep(st, p.tokens[st.token:])
	s.raw = raw
	return ok
}
