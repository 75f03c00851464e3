//go:build !weir_safe

package codec

import (
	"encoding/binary"
	"math/bits"
	"reflect"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

// difference is one value in which the current object differs from the prototype that it is
// compared with.
type difference struct {
	token int32 // the token's index in the plan
	at    int32 // of a map: the index of its entries' tokens in the scratch
	value uint64
}

// recentPlan is a recently used plan. texts contains, by token (encoded field), the strings in
// which the last object differed from the prototype. The next object often has the same strings,
// because it may be another version of the last object, or belong to the same workload.
type recentPlan struct {
	plan  *plan
	texts []textEntry // also for the keys of map entries
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
	for i := range s.recentPlans {
		p := s.recentPlans[i].plan
		if p == nil || p.decoder != d || p.template == nil {
			continue
		}
		if image, alike, ok := d.copyIfAlike(s, raw, i, &p.template.prototype); alike {
			return image, ok
		}
	}
	return nil, false
}

// copyIfAlike decodes an object as a copy of from, whose plan is recentPlans[index]. alike reports
// whether both objects have the same fields. ok is false if they do not, or if Unmarshal must
// decode the object.
func (d *decoder) copyIfAlike(s *scratch, raw []byte, index int, from *prototype) (image unsafe.Pointer, alike, ok bool) {
	s.raw, s.fields = raw, d.fields
	if alike = s.compare(from); alike {
		s.toFront(index)
		ok = s.copyOf(from)
		image = s.image
	}
	s.raw, s.fields, s.image, s.tokens, s.differences = nil, nil, nil, s.tokens[:0], s.differences[:0]
	return image, alike, ok
}

// remember makes p the first plan that the next object is compared with.
func (s *scratch) remember(p *plan) {
	for i := range s.recentPlans {
		if s.recentPlans[i].plan == p {
			s.toFront(i)
			return
		}
	}
	s.toFront(maxRecentPlans - 1)
	s.recentPlans[0] = recentPlan{plan: p, texts: make([]textEntry, len(p.tokens))}
}

// toFront moves recentPlans[i] to the front.
func (s *scratch) toFront(i int) {
	is := s.recentPlans[i]
	copy(s.recentPlans[1:i+1], s.recentPlans[:i])
	s.recentPlans[0] = is
}

// compare records the differences between the current object and c. It returns false if their
// fields differ, or if the bytes are malformed.
func (s *scratch) compare(c *prototype) bool {
	if s.locating {
		s.locations = append(s.locations[:0], c.locations...)
	}
	return s.compareMessage(c, 0, len(c.locations), 0, len(c.raw), 0, len(s.raw))
}

// compareMessage compares the message s.raw[pos:end] with the message c.raw[was:wasEnd]. The second
// message has the tokens from token up to, but not including, last.
func (s *scratch) compareMessage(c *prototype, token, last, was, wasEnd, pos, end int) bool {
	raw := s.raw[:end]
	for token < last {
		same, first := uint32(was+prefix(c.raw[was:wasEnd], raw[pos:])), token
		loc := &c.locations[token]
		for loc.end <= same {
			if token += int(loc.span); token == last {
				break
			}
			loc = &c.locations[token]
		}
		s.move(first, token, pos-was)
		if token == last {
			return len(raw)-pos == wasEnd-was
		}
		// compareField starts at the tag, because the first difference may be in the tag.
		pos += int(loc.begin) - was
		next := s.compareField(c, loc, token, pos, raw)
		if next < 0 {
			return false
		}
		if s.locating {
			at := &s.locations[token]
			at.begin, at.end = uint32(pos), uint32(next)
		}
		token += int(loc.span)
		was, pos = int(loc.end), next
	}
	return pos == end
}

// move adds the number by to the positions of the tokens from token up to, but not including, last.
func (s *scratch) move(token, last, by int) {
	if !s.locating || by == 0 {
		return
	}
	moved := s.locations[token:last]
	for i := range moved {
		loc := &moved[i]
		loc.begin, loc.end, loc.content = loc.begin+uint32(by), loc.end+uint32(by), loc.content+uint32(by)
	}
}

// compareField compares the field at pos with the field of c at loc. It returns the end of the
// field, or a negative number if the fields inside differ or the bytes are malformed.
func (s *scratch) compareField(c *prototype, loc *location, token, pos int, raw []byte) (next int) {
	if loc.comparison == asMap || loc.comparison == asTextMap {
		return s.compareMap(c, loc, token, pos, raw)
	}
	if pos = sameTag(c.raw[loc.begin:], raw, pos); pos < 0 {
		return -1
	}
	switch loc.comparison {
	case asVarint, asFixed64:
		wireType := protowire.VarintType
		if loc.comparison == asFixed64 {
			wireType = protowire.Fixed64Type
		}
		x, next := cut(raw, pos, wireType)
		if next >= 0 {
			s.differences = append(s.differences, difference{token: int32(token), value: x})
		}
		return next
	}
	x, next := cut(raw, pos, protowire.BytesType)
	if s.locating && next >= 0 {
		s.locations[token].content = uint32(x)
	}
	switch {
	case next < 0:
	case loc.comparison == asBlock:
		s.differences = append(s.differences, difference{token: int32(token), value: x})
	case !s.compareMessage(c, token+1, token+int(loc.span), int(loc.content), int(loc.end), int(uint32(x)), next):
		return -1
	}
	return next
}

// compareMap records a map as a difference, with its entries as tokens. It returns the end of the
// map, or a negative number if the map has fewer entries than the prototype's map.
func (s *scratch) compareMap(c *prototype, loc *location, at, pos int, raw []byte) (next int) {
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

// copyOf makes the current object a copy of from, whose plan is the first of recentPlans, and then
// sets the values that differ.
func (s *scratch) copyOf(from *prototype) bool {
	k := &s.recentPlans[0]
	p, c := k.plan, k.plan.template
	object := reflect.New(p.shape.goType)
	object.Elem().Set(reflect.NewAt(p.shape.goType, from.image).Elem())
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
			if !s.repeatStep(from, p, &repeated[0]) {
				return false
			}
			repeated = repeated[1:]
		}
		if len(repeated) > 0 && repeated[0].step == at {
			repeated = repeated[1:]
		}
		if !s.putRight(from, k, &p.steps[at], diff) {
			return false
		}
	}
	for i := range repeated {
		if !s.repeatStep(from, p, &repeated[i]) {
			return false
		}
	}
	return true
}

// putRight sets one value of the copy that differs from the prototype's.
func (s *scratch) putRight(from *prototype, k *recentPlan, st *step, diff *difference) bool {
	one := &s.one[0]
	one.value = diff.value
	switch {
	case st.kind == text:
		*(*string)(unsafe.Add(s.image, st.to)) = s.reuseText(&k.texts[diff.token].value, s.block(one))
		return true
	case st.kind != mapping:
		return s.followStep(st, s.one[:])
	case from.locations[diff.token].comparison != asTextMap:
		return s.followStep(st, s.tokens[diff.at:])
	}
	return s.putTexts(from, k, st, diff)
}

// putTexts sets a map of strings. If the map has the same keys as the prototype's map, putTexts
// copies that map and sets the values that differ, because inserting a key costs more than copying
// one.
func (s *scratch) putTexts(from *prototype, k *recentPlan, st *step, diff *difference) bool {
	entries, was := s.tokens[diff.at:][:st.count], int(from.locations[diff.token].begin)
	var out map[string]string
	alike := len(*(*map[string]string)(unsafe.Add(from.image, st.to))) == len(entries) && s.hasKeys(from, was, entries)
	if alike {
		cloneTexts(unsafe.Pointer(&out), unsafe.Add(from.image, st.to))
	} else {
		out = make(map[string]string, st.count)
	}
	for i := range entries {
		entry := s.block(&entries[i])
		if alike {
			var before []byte
			if before, was = from.entry(was); string(entry) == string(before) {
				continue
			}
		}
		held := &k.texts[int(diff.token)+i]
		key, val, ok := pair(entry)
		if !ok {
			return false
		}
		out[s.reuseText(&held.key, key)] = s.reuseText(&held.value, val)
	}
	*(*map[string]string)(unsafe.Add(s.image, st.to)) = out
	return true
}

// hasKeys reports whether the entries of a map have the same keys, in the same order, as the
// prototype's entries, which start at was.
func (s *scratch) hasKeys(from *prototype, was int, entries []token) bool {
	for i := range entries {
		var before []byte
		before, was = from.entry(was)
		entry := s.block(&entries[i])
		if string(entry) == string(before) {
			continue
		}
		key, _, ok := pair(entry)
		keyBefore, _, okBefore := pair(before)
		if !ok || !okBefore || string(key) != string(keyBefore) {
			return false
		}
	}
	return true
}

// entry returns the map entry whose tag is at pos, and the end of the entry.
func (c *prototype) entry(pos int) ([]byte, int) {
	_, n := varint(c.raw, pos)
	x, end := cut(c.raw, pos+n, protowire.BytesType)
	return c.raw[uint32(x):end], end
}

// longestRecentText is the maximum size of a string that a recentPlan stores, in bytes.
const longestRecentText = 1 << 10

// reuseText returns string(b). If *held is equal, it returns *held. Otherwise it stores the new
// string in *held, unless the string is long.
func (s *scratch) reuseText(held *string, b []byte) string {
	if *held == string(b) {
		return *held
	}
	made := s.text(b)
	if len(made) <= longestRecentText {
		*held = made
	}
	return made
}

// repeatStep sets a value of the copy that assignment cannot copy: it clones the prototype's value,
// or decodes the prototype's bytes again.
func (s *scratch) repeatStep(from *prototype, p *plan, a *repeatedStep) bool {
	st := &p.steps[a.step]
	if a.clone != nil {
		a.clone(unsafe.Add(s.image, st.to), unsafe.Add(from.image, st.to))
		return true
	}
	raw, tokens := s.raw, p.tokens[st.token:]
	if s.raw = from.raw; st.kind != mapping {
		loc := &from.locations[st.token]
		s.one[0].value = uint64(loc.content) | uint64(loc.end)<<32
		tokens = s.one[:]
	}
	ok := s.followStep(st, tokens)
	s.raw = raw
	return ok
}
