package decode

import (
	"reflect"
	"unsafe"
)

// DecodeVersions decodes two versions of an object as [Decoder.Decode] does. It costs less than two
// calls, because the later version mostly becomes a copy of the earlier one. The two values share
// only strings.
func (d *Decoder) DecodeVersions(was, is []byte) (old, fresh any, err error) {
	if d.once.Do(d.compile); d.message != nil {
		s := scratches.Get().(*scratch)
		s.sharing, s.prepare = false, nil
		before, after, ok := d.decodeVersions(s, was, is)
		s.release()
		if ok {
			return reflect.NewAt(d.goType, before).Interface(), reflect.NewAt(d.goType, after).Interface(), nil
		}
	}
	if old, err = d.Decode(was); err == nil {
		fresh, err = d.Decode(is)
	}
	return old, fresh, err
}

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

// decodeInTurn decodes two versions that have no plan, the later one with the texts of the earlier
// one, for most of them are equal.
func (d *Decoder) decodeInTurn(s *scratch, was, is []byte) (before, after unsafe.Pointer, ok bool) {
	defer s.earlier.forget()
	s.earlier.use = noteTexts
	if !d.tokenize(s, was) {
		return nil, nil, false
	}
	if before, ok = d.decodeByPlan(s); !ok {
		return nil, nil, false
	}
	s.reset()
	s.earlier.use = takeTexts
	after, ok = d.decode(s, is)
	return before, after, ok
}

// earlierTexts are the strings of the earlier of two versions, in the order of its bytes.
type earlierTexts struct {
	use   textUse
	texts []string
	at    int // where the next text of the later version is expected
}

type textUse uint8

const (
	_         textUse = iota // no version is decoded after another
	noteTexts                // the earlier one is being decoded
	takeTexts                // the later one is
)

// textsBeside is how many texts in a row may be in one of the versions alone.
const textsBeside = 8

// find returns the earlier version's string(b) if it is near the place where it is expected.
func (e *earlierTexts) find(b []byte) (string, bool) {
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

// forget drops the texts, and keeps their memory unless it is large.
func (e *earlierTexts) forget() {
	clear(e.texts)
	if e.use, e.texts, e.at = 0, e.texts[:0], 0; cap(e.texts) > maxTokens {
		e.texts = nil
	}
}
