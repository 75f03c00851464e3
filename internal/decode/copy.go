package decode

import (
	"encoding/binary"
	"math/bits"
	"reflect"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/resource"
)

// difference is a value that an object has in another way than the sample.
type difference struct {
	token int32 // of the sample
	at    int32 // of a map: where the tokens of its entries are in the scratch
	value uint64
}

// decodeLikeLast decodes an object that has the same fields as the one before it, by copying their sample. It reports false where that
// cannot be.
func (d *Decoder) decodeLikeLast(s *scratch, raw []byte) (image unsafe.Pointer, ok bool) {
	p := s.last
	if p == nil || p.decoder != d || p.sample == nil || len(raw) > maxSize {
		return nil, false
	}
	s.raw, s.fields = raw, d.fields
	c := p.sample
	if ok = s.compare(c, 0, len(c.spots), 0, len(c.raw), 0, len(raw)); ok {
		ok = s.copySample(p)
	}
	image = s.image
	s.raw, s.fields, s.image, s.tokens, s.differences = nil, nil, nil, s.tokens[:0], s.differences[:0]
	return image, ok
}

// compare notes what differs in s.raw[pos:end], a message, from c.raw[was:wasEnd], which has the tokens up to last. It reports false
// where the fields are not the same.
func (s *scratch) compare(c *sample, token, last, was, wasEnd, pos, end int) bool {
	raw := s.raw[:end]
	for token < last {
		same := uint32(was + prefix(c.raw[was:wasEnd], raw[pos:]))
		sp := &c.spots[token]
		for sp.end <= same {
			if token += int(sp.span); token == last {
				break
			}
			sp = &c.spots[token]
		}
		if token == last {
			return len(raw)-pos == wasEnd-was
		}
		// The tag is the same if the prefix goes beyond it; else look at it.
		pos += int(sp.begin) - was
		next := s.compareField(c, sp, token, pos, raw)
		if next < 0 {
			return false
		}
		token += int(sp.span)
		was, pos = int(sp.end), next
	}
	return pos == end
}

// compareField compares the field at pos with that of the sample, and returns where it ends; negative where the tags are not the same.
func (s *scratch) compareField(c *sample, sp *spot, token, pos int, raw []byte) (next int) {
	if sp.what == aMap {
		return s.compareMap(c, sp, token, pos, raw)
	}
	if pos = sameTag(c.raw[sp.begin:], raw, pos); pos < 0 {
		return -1
	}
	switch sp.what {
	case aVarint, aFixed64:
		wireType := protowire.VarintType
		if sp.what == aFixed64 {
			wireType = protowire.Fixed64Type
		}
		x, next := cut(raw, pos, wireType)
		if next >= 0 {
			s.differences = append(s.differences, difference{token: int32(token), value: x})
		}
		return next
	}
	x, next := cut(raw, pos, protowire.BytesType)
	switch {
	case next < 0:
	case sp.what == aBlock:
		s.differences = append(s.differences, difference{token: int32(token), value: x})
	case !s.compare(c, token+1, token+int(sp.span), int(sp.content), int(sp.end), int(uint32(x)), next):
		return -1
	}
	return next
}

// compareMap compares the entries of a map. There must be as many.
func (s *scratch) compareMap(c *sample, sp *spot, at, pos int, raw []byte) (next int) {
	s.differences = append(s.differences, difference{token: int32(at), at: int32(len(s.tokens))})
	for range sp.span {
		if pos = sameTag(c.raw[sp.begin:], raw, pos); pos < 0 {
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

// sameTag returns what is behind the tag at pos if it is the one that was begins with; else it is negative. Tags have one byte or two: see
// scratch.odd.
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

// prefix is how many bytes are the same at the beginning.
func prefix(a, b []byte) (n int) {
	a = a[:min(len(a), len(b))]
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

// copySample makes the object in hand a copy of the sample, and puts right what differs.
func (s *scratch) copySample(p *plan) bool {
	c := p.sample
	object := reflect.New(p.shape.goType)
	object.Elem().Set(c.object)
	s.image = object.UnsafePointer()
	for i := range c.moves {
		m := &c.moves[i]
		*(*unsafe.Pointer)(unsafe.Add(s.image, m.to)) = unsafe.Add(s.image, m.piece)
	}
	afresh := c.afresh
	for i := range s.differences {
		diff := &s.differences[i]
		at := c.stepOf[diff.token]
		for len(afresh) > 0 && afresh[0].step < at {
			if !s.again(p, &afresh[0]) {
				return false
			}
			afresh = afresh[1:]
		}
		if len(afresh) > 0 && afresh[0].step == at {
			afresh = afresh[1:]
		}
		tokens := s.one[:]
		if st := &p.steps[at]; st.kind == mapping {
			tokens = s.tokens[diff.at:]
		} else {
			tokens[0].value = diff.value
		}
		if !s.take(&p.steps[at], tokens) {
			return false
		}
	}
	for i := range afresh {
		if !s.again(p, &afresh[i]) {
			return false
		}
	}
	return true
}

// again makes for the object what the sample has.
func (s *scratch) again(p *plan, a *again) bool {
	st := &p.steps[a.step]
	to := unsafe.Add(s.image, st.to)
	switch {
	case a.texts != nil:
		out := make(map[string]string, len(a.texts))
		for i := range a.texts {
			out[a.texts[i].key] = a.texts[i].value
		}
		*(*map[string]string)(to) = out
		return true
	case a.quantities != nil:
		out := make(map[string]resource.Quantity, len(a.quantities))
		for i := range a.quantities {
			out[a.quantities[i].key] = a.quantities[i].value
		}
		*(*map[string]resource.Quantity)(to) = out
		return true
	}
	raw := s.raw
	s.raw = p.sample.raw
	ok := s.take(st, p.tokens[st.token:])
	s.raw = raw
	return ok
}
