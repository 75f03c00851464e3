package decode

import (
	"bytes"
	"hash/maphash"
	"reflect"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

// share is the place of a slice, map or pointer that values have in common, with all that is in it.
// Like a string, something is held when it comes for the second time; and then until something else
// comes twice with nobody wanting it in between.
type share struct {
	mark  uint32 // of what came last and is not held
	field *field
	raw   string // its bytes, with their tags
	value value
}

// shares are places, with at most longestShared bytes each and what is made of them. Everything has
// two, so that it need not go without because another is wanted all the time.
type shares [1024]share

// places are those of a hash.
func (h *shares) places(hash uint64) [2]*share {
	return [2]*share{&h[hash%uint64(len(h))], &h[hash>>16%uint64(len(h))]}
}

// What is shorter is made as quickly, and what is longer is rarely the same.
const (
	shortestShared = 24      // bytes
	longestShared  = 1 << 10 // bytes
)

// value is the content of a field: a slice, or the pointer that a map or pointer is.
type value struct{ slice sliceHeader }

func (v value) put(p unsafe.Pointer, f *field) {
	if f.kind == slice {
		*(*sliceHeader)(p) = v.slice
	} else {
		*(*unsafe.Pointer)(p) = v.slice.data
	}
}

func valueAt(p unsafe.Pointer, f *field) (v value) {
	if f.kind == slice {
		v.slice = *(*sliceHeader)(p)
	} else {
		v.slice.data = *(*unsafe.Pointer)(p)
	}
	return v
}

func (f *field) isShareable() bool {
	switch f.kind {
	case slice, mapping, pointer:
		return f.wireType == protowire.BytesType
	}
	return false
}

var shareSeed = maphash.MakeSeed()

// find looks for the value of a field of m, whose bytes begin with a tag at begin and the first
// length at pos. It returns where the field ends if there is one, which has become a token; and 0
// if it is to be decoded as usual.
func (s *scratch) find(m *message, f *field, begin, pos, end, depth int) (next int, ok bool) {
	next = s.fieldEnd(f, begin, pos, end)
	if next < 0 {
		return 0, false
	}
	if next-begin < shortestShared || next-begin > longestShared {
		return 0, true
	}
	raw := s.raw[begin:next]
	hash := maphash.Bytes(shareSeed, raw) ^ uint64(f.index)*0x9e3779b97f4a7c15
	places, mark := s.shared.places(hash), uint32(hash>>32)|1
	for _, p := range places {
		if p.field == f && p.raw == string(raw) {
			p.mark = 0
			return s.foundAs(f, p.value, next), true
		}
	}
	for _, p := range places {
		if p.mark != mark {
			p.mark = mark
			continue
		}
		v, ok := s.makeShared(m, f, begin, next, depth)
		if !ok {
			return 0, false
		}
		*p = share{field: f, raw: string(raw), value: v}
		return s.foundAs(f, v, next), true
	}
	return 0, true
}

// foundAs makes a token of a field that was found, and returns its end.
func (s *scratch) foundAs(f *field, v value, end int) int {
	s.tokens = append(s.tokens, token{value: uint64(len(s.found)), field: f.index, span: 1, count: found})
	s.found = append(s.found, v)
	return end
}

// fieldEnd returns where the values end that begin at begin, one behind the other; negative for an
// error.
func (s *scratch) fieldEnd(f *field, begin, pos, end int) int {
	raw, tag := s.raw[:end], s.raw[begin:pos]
	for {
		_, next := cut(raw, pos, protowire.BytesType)
		if next < 0 || f.kind == pointer || !bytes.HasPrefix(raw[next:], tag) {
			return next
		}
		pos = next + len(tag)
	}
}

// makeShared decodes a field into memory of its own.
func (s *scratch) makeShared(m *message, f *field, begin, end, depth int) (v value, ok bool) {
	tokens, pieces, making := len(s.tokens), len(s.pieces), s.making
	s.making = begin
	p := reflect.New(f.goType).UnsafePointer()
	ok = m.tokenize(s, begin, end, depth) && s.decodeField(p, f, s.tokens[tokens:]) > 0
	s.tokens, s.pieces, s.making = s.tokens[:tokens], s.pieces[:pieces], making
	return valueAt(p, f), ok
}
