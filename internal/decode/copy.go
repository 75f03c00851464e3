package decode

import (
	"encoding/binary"
	"math/bits"
	"reflect"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

// difference is one value of an object that differs from the sample.
type difference struct {
	token int32 // of the sample
	at    int32 // of a map: where the tokens of its entries are in the scratch
	value uint64
}

// known is a recently used plan. It keeps the strings in which the last object differed from the
// sample, by token, because the next object may be another version of that object or of the same
// workload.
type known struct {
	plan  *plan
	texts []textEntry // with the keys of map entries
}

// knowns is the number of plans that an object is compared with before it is tokenized.
const knowns = 4

// decodeLikeOthers decodes an object that has the same fields as a recent one, by copying that
// plan's sample. ok is false if no plan fits.
func (d *Decoder) decodeLikeOthers(s *scratch, raw []byte) (image unsafe.Pointer, ok bool) {
	if len(raw) > maxSize {
		return nil, false
	}
	for i := range s.knowns {
		p := s.knowns[i].plan
		if p == nil || p.decoder != d || p.sample == nil {
			continue
		}
		if image, alike, ok := d.copyIfAlike(s, raw, i, &p.sample.original); alike {
			return image, ok
		}
	}
	return nil, false
}

// copyIfAlike decodes an object as a copy of another, whose plan is one of knowns. alike reports
// whether the two have the same fields.
func (d *Decoder) copyIfAlike(s *scratch, raw []byte, known int, from *original) (image unsafe.Pointer, alike, ok bool) {
	s.raw, s.fields = raw, d.fields
	if alike = s.compare(from); alike {
		s.toFront(known)
		ok = s.copyOf(from)
		image = s.image
	}
	s.raw, s.fields, s.image, s.tokens, s.differences = nil, nil, nil, s.tokens[:0], s.differences[:0]
	return image, alike, ok
}

// know makes p the first plan that the next object is compared with.
func (s *scratch) know(p *plan) {
	for i := range s.knowns {
		if s.knowns[i].plan == p {
			s.toFront(i)
			return
		}
	}
	s.toFront(knowns - 1)
	s.knowns[0] = known{plan: p, texts: make([]textEntry, len(p.tokens))}
}

// toFront makes knowns[i] the first.
func (s *scratch) toFront(i int) {
	is := s.knowns[i]
	copy(s.knowns[1:i+1], s.knowns[:i])
	s.knowns[0] = is
}

// compare records the differences between the current object and c. It returns false if their
// fields differ.
func (s *scratch) compare(c *original) bool {
	if s.locating {
		s.spots = append(s.spots[:0], c.spots...)
	}
	return s.compareMessage(c, 0, len(c.spots), 0, len(c.raw), 0, len(s.raw))
}

// compareMessage compares the message s.raw[pos:end] with the message c.raw[was:wasEnd], whose
// tokens are those from token up to, but not including, last.
func (s *scratch) compareMessage(c *original, token, last, was, wasEnd, pos, end int) bool {
	raw := s.raw[:end]
	for token < last {
		same, first := uint32(was+prefix(c.raw[was:wasEnd], raw[pos:])), token
		sp := &c.spots[token]
		for sp.end <= same {
			if token += int(sp.span); token == last {
				break
			}
			sp = &c.spots[token]
		}
		s.move(first, token, pos-was)
		if token == last {
			return len(raw)-pos == wasEnd-was
		}
		// compareField looks at the tag, which may be where the two differ.
		pos += int(sp.begin) - was
		next := s.compareField(c, sp, token, pos, raw)
		if next < 0 {
			return false
		}
		if s.locating {
			at := &s.spots[token]
			at.begin, at.end = uint32(pos), uint32(next)
		}
		token += int(sp.span)
		was, pos = int(sp.end), next
	}
	return pos == end
}

// move adds by to the positions of the tokens from token up to, but not including, last.
func (s *scratch) move(token, last, by int) {
	if !s.locating || by == 0 {
		return
	}
	moved := s.spots[token:last]
	for i := range moved {
		sp := &moved[i]
		sp.begin, sp.end, sp.content = sp.begin+uint32(by), sp.end+uint32(by), sp.content+uint32(by)
	}
}

// compareField compares the field at pos with the one of c at sp. It returns the end of the field,
// or a negative number if the fields within differ or the bytes are malformed.
func (s *scratch) compareField(c *original, sp *spot, token, pos int, raw []byte) (next int) {
	if sp.kind == aMap || sp.kind == aTextMap {
		return s.compareMap(c, sp, token, pos, raw)
	}
	if pos = sameTag(c.raw[sp.begin:], raw, pos); pos < 0 {
		return -1
	}
	switch sp.kind {
	case aVarint, aFixed64:
		wireType := protowire.VarintType
		if sp.kind == aFixed64 {
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
		s.spots[token].content = uint32(x)
	}
	switch {
	case next < 0:
	case sp.kind == aBlock:
		s.differences = append(s.differences, difference{token: int32(token), value: x})
	case !s.compareMessage(c, token+1, token+int(sp.span), int(sp.content), int(sp.end), int(uint32(x)), next):
		return -1
	}
	return next
}

// compareMap records a map as a difference, with its entries as tokens. It returns the end of the
// map, or a negative number if the map has fewer entries than that of c.
func (s *scratch) compareMap(c *original, sp *spot, at, pos int, raw []byte) (next int) {
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

// sameTag returns the position after the tag at pos if was begins with the same tag, and -1 if not.
// Tags have one or two bytes: see scratch.odd.
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

// stride is the number of bytes that prefix compares at once.
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

// copyOf makes the current object a copy of from, which has the plan of the first of knowns. It
// then sets the values that differ.
func (s *scratch) copyOf(from *original) bool {
	k := &s.knowns[0]
	p, c := k.plan, k.plan.sample
	object := reflect.New(p.shape.goType)
	object.Elem().Set(reflect.NewAt(p.shape.goType, from.image).Elem())
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
			if !s.again(from, p, &afresh[0]) {
				return false
			}
			afresh = afresh[1:]
		}
		if len(afresh) > 0 && afresh[0].step == at {
			afresh = afresh[1:]
		}
		if !s.putRight(from, k, &p.steps[at], diff) {
			return false
		}
	}
	for i := range afresh {
		if !s.again(from, p, &afresh[i]) {
			return false
		}
	}
	return true
}

// putRight sets one value of the copy that differs.
func (s *scratch) putRight(from *original, k *known, st *step, diff *difference) bool {
	one := &s.one[0]
	one.value = diff.value
	switch {
	case st.kind == text:
		*(*string)(unsafe.Add(s.image, st.to)) = s.textAgain(&k.texts[diff.token].value, s.block(one))
		return true
	case st.kind != mapping:
		return s.take(st, s.one[:])
	case from.spots[diff.token].kind != aTextMap:
		return s.take(st, s.tokens[diff.at:])
	}
	return s.putTexts(from, k, st, diff)
}

// putTexts sets a map of strings. If the map has the original's keys it copies the original's map
// and sets the values that differ, because inserting a key costs more than copying one.
func (s *scratch) putTexts(from *original, k *known, st *step, diff *difference) bool {
	entries, was := s.tokens[diff.at:][:st.count], int(from.spots[diff.token].begin)
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
		out[s.textAgain(&held.key, key)] = s.textAgain(&held.value, val)
	}
	*(*map[string]string)(unsafe.Add(s.image, st.to)) = out
	return true
}

// hasKeys reports whether the entries of a map have the keys of the original's, which begin at was,
// in their order.
func (s *scratch) hasKeys(from *original, was int, entries []token) bool {
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

// entry returns the entry of a map whose tag is at pos, and where it ends.
func (c *original) entry(pos int) ([]byte, int) {
	_, n := varint(c.raw, pos)
	x, end := cut(c.raw, pos+n, protowire.BytesType)
	return c.raw[uint32(x):end], end
}

// longestKnown is the size in bytes of the longest string that is kept for the next object.
const longestKnown = 1 << 10

// textAgain returns string(b): *held if that is equal. Otherwise it keeps the string in *held,
// unless it is long.
func (s *scratch) textAgain(held *string, b []byte) string {
	if *held == string(b) {
		return *held
	}
	made := s.text(b)
	if len(made) <= longestKnown {
		*held = made
	}
	return made
}

// again sets a value of the copy that assignment cannot copy: it clones the original's, or decodes
// the original's bytes once more.
func (s *scratch) again(from *original, p *plan, a *again) bool {
	st := &p.steps[a.step]
	if a.clone != nil {
		a.clone(unsafe.Add(s.image, st.to), unsafe.Add(from.image, st.to))
		return true
	}
	raw, tokens := s.raw, p.tokens[st.token:]
	if s.raw = from.raw; st.kind != mapping {
		sp := &from.spots[st.token]
		s.one[0].value = uint64(sp.content) | uint64(sp.end)<<32
		tokens = s.one[:]
	}
	ok := s.take(st, tokens)
	s.raw = raw
	return ok
}
