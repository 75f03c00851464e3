//go:build !weir_safe

package codec

import (
	"bytes"
	"reflect"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

// sharedPlace is a slot of a cache. It contains one slice, map or pointer that decoded objects
// share, with everything that the value refers to. A value is stored at its second occurrence. It
// is replaced when a different value with the same place occurs twice while the stored value does
// not occur.
type sharedPlace struct {
	mark  uint32 // of the last value that is not stored
	field *field
	raw   string // the bytes of value, with their tags
	value value
}

// sharedPlaces is the cache of shared values. A stored value has at most longestShared encoded
// bytes; the decoded value is larger. Each value has two possible places, so that one frequent
// value does not exclude another.
type sharedPlaces [1024]sharedPlace

// places returns the two places for a hash.
func (h *sharedPlaces) places(hash uint64) [2]*sharedPlace {
	return [2]*sharedPlace{&h[hash%uint64(len(h))], &h[hash>>16%uint64(len(h))]}
}

// Limits of the encoded size of a shared value. To decode a smaller value is as fast as to look it
// up, and larger values rarely repeat.
const (
	shortestShared = 24      // bytes
	longestShared  = 1 << 10 // bytes
)

// value is the content of a field: a slice, or a map or pointer, which is in slice.data.
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

// find looks in the cache for the value of field f of m. The bytes of the field start at begin with
// a tag, and the length of the field's first value is at pos. If the cache contains the value, or
// if find adds it, find appends a token for the value. Then next is the end of the field. If next
// is 0 and ok is true, the caller must decode the field. If ok is false, Unmarshal must decode the
// object.
func (s *scratch) find(m *message, f *field, begin, pos, end, depth int) (next int, ok bool) {
	next = s.fieldEnd(f, begin, pos, end)
	if next < 0 {
		return 0, false
	}
	if next-begin < shortestShared || next-begin > longestShared {
		return 0, true
	}
	raw := s.raw[begin:next]
	hash := hashOf(raw) ^ uint64(f.index)*0x9e3779b97f4a7c15
	places, mark := s.sharedPlaces.places(hash), uint32(hash>>32)|1
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
		*p = sharedPlace{field: f, raw: string(raw), value: v}
		return s.foundAs(f, v, next), true
	}
	return 0, true
}

// foundAs adds a token for field f with the shared value v. It returns end, the end of the field.
func (s *scratch) foundAs(f *field, v value, end int) int {
	s.tokens = append(s.tokens, token{value: uint64(len(s.found)), field: f.index, span: 1, count: found})
	s.found = append(s.found, v)
	return end
}

// fieldEnd returns the end of the field f that starts at begin. For a pointer, that is the end of
// the first value. For a slice or map, it is the end of all consecutive values. A negative result
// is an error.
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

// makeShared decodes a field into memory that does not belong to the object.
func (s *scratch) makeShared(m *message, f *field, begin, end, depth int) (v value, ok bool) {
	tokens, pieces, making := len(s.tokens), len(s.pieces), s.making
	s.making = begin
	p := reflect.New(f.goType).UnsafePointer()
	ok = m.tokenize(s, begin, end, depth) && s.decodeField(p, f, s.tokens[tokens:]) > 0
	s.tokens, s.pieces, s.making = s.tokens[:tokens], s.pieces[:pieces], making
	return valueAt(p, f), ok
}
