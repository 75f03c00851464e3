//go:build !weir_safe

package decode

import (
	"bytes"
	"unsafe"
)

// decodeVersions decodes both versions. ok is false if they must be decoded one by one.
func (d *Decoder) decodeVersions(s *scratch, was, is []byte) (before, after unsafe.Pointer, ok bool) {
	s.locating, s.pointed = true, false
	before, ok = d.decodeLikeOthers(s, was)
	s.locating = false
	if !ok {
		return d.decodeInTurn(s, was, is)
	}
	earlier := prototype{raw: was, locations: s.locations, image: before}
	if s.recentPlans[0].plan.template.ofCopies && !s.pointed && len(is) <= maxSize {
		if after, _, ok = d.copyIfAlike(s, is, 0, &earlier); ok {
			return before, after, true
		}
	}
	if after, ok = d.decode(s, is); ok {
		return before, after, true
	}
	return nil, nil, false
}

// decodeInTurn decodes two versions that have no plan. Most of the later one equals the earlier: it
// copies texts, and often whole fields such as the spec.
func (d *Decoder) decodeInTurn(s *scratch, was, is []byte) (before, after unsafe.Pointer, ok bool) {
	defer s.earlier.forget()
	if before, ok = d.decodeEarlier(s, was); !ok {
		return nil, nil, false
	}
	if after, ok = d.decodeLikeOthers(s, is); ok {
		return before, after, true
	}
	if !d.tokenize(s, is) {
		return nil, nil, false
	}
	if !s.earlier.copied {
		after, ok = d.decodeByPlan(s)
		return before, after, ok
	}
	after = d.allocate(s)
	return before, after, s.decode(after, s.tokens)
}

// decodeEarlier decodes the earlier of two versions, and has the later one take from it.
func (d *Decoder) decodeEarlier(s *scratch, was []byte) (before unsafe.Pointer, ok bool) {
	s.earlier.use = noteTexts
	if !d.tokenize(s, was) {
		return nil, false
	}
	s.earlier.note(s)
	if before, ok = d.decodeByPlan(s); !ok {
		return nil, false
	}
	s.reset()
	s.earlier.use, s.earlier.image = takeTexts, before
	return before, true
}

// earlierVersion is what the later of two versions takes from the earlier one: strings, in the
// order of its bytes, and fields of the object that are structs.
type earlierVersion struct {
	use   versionUse
	texts []string
	at    int // where the next text of the later version is expected

	raw    []byte
	fields []token        // those that can be copied
	image  unsafe.Pointer // the memory of the value, while the later version is decoded
	copied bool           // the later version copies a field
}

type versionUse uint8

const (
	_         versionUse = iota // no version is decoded after another
	noteTexts                   // the earlier one is being decoded
	takeTexts                   // the later one is
)

// textsBeside is how many consecutive texts may be in only one of the versions.
const textsBeside = 8

// note records the fields of the earlier version, whose tokens s has.
func (e *earlierVersion) note(s *scratch) {
	e.raw, e.fields, e.copied = s.raw, e.fields[:0], false
	for i := 0; i < len(s.tokens); i += int(s.tokens[i].span) {
		if t := s.tokens[i]; s.fields[t.field].clone != nil {
			e.fields = append(e.fields, t)
		}
	}
}

// has reports whether the earlier version has a field with these bytes, which the later one copies.
func (e *earlierVersion) has(field uint32, b []byte) bool {
	if e.image == nil {
		return false
	}
	for i := range e.fields {
		if t := &e.fields[i]; t.field == field {
			same := bytes.Equal(e.raw[uint32(t.value):uint32(t.value>>32)], b)
			e.copied = e.copied || same
			return same
		}
	}
	return false
}

// find returns the earlier version's string(b) if it is near the place where it is expected.
func (e *earlierVersion) find(b []byte) (string, bool) {
	for i := e.at; i < min(e.at+textsBeside, len(e.texts)); i++ {
		if e.texts[i] == string(b) {
			e.at = i + 1
			return e.texts[i], true
		}
	}
	for i := max(e.at-textsBeside, 0); i < min(e.at, len(e.texts)); i++ {
		if e.texts[i] == string(b) {
			e.at = i + 1
			return e.texts[i], true
		}
	}
	e.at++ // it has replaced another one
	return "", false
}

// forget drops the version, and keeps the memory of the texts unless it is large.
func (e *earlierVersion) forget() {
	clear(e.texts)
	*e = earlierVersion{texts: e.texts[:0], fields: e.fields[:0]}
	if cap(e.texts) > maxTokens {
		e.texts = nil
	}
}
