//go:build !weir_safe

package codec

import (
	"hash/maphash"
	"reflect"
	"sync"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/views"
)

// maxDepth is the maximum nesting of messages. API types nest about 12 deep, except the schemas of
// custom resources.
const maxDepth = 64

// maxSize is the maximum size of an object that the tables decode, in bytes. Kubernetes' objects
// have at most a few MiB.
const maxSize = 64 << 20

// scratch is the working memory of one call that decodes an object. A pool keeps it for later
// calls; the garbage collector may free it between calls.
//
// It also contains caches of values by their bytes: of strings, of quantities and, for
// DecodeShared, of managed fields. Managed fields are half of many objects, and are equal in all
// objects of a workload. The hash of a value selects the value's place, which is one slot of the
// cache. At the first occurrence of a value, the place stores only a mark, which is a part of the
// hash. At the second occurrence, the place stores the value, unless another value has changed the
// mark in between. So values that occur only once, such as uids and addresses, do not displace
// frequent ones. The number of places and the maximum size of a value bound the caches.
type scratch struct {
	raw     []byte   // the current object
	fields  []*field // the fields of its decoder
	tokens  []token
	pieces  []int32        // indexes of the first token of each slice or pointer
	print   uint64         // the hash of the fields, the key of the template
	key     []byte         // the fields and counts of at most maxPieces pieces, the key of the shape
	noting  *template      // the template that is being made, or nil
	shape   *shape         // nil if each piece is allocated separately
	image   unsafe.Pointer // the memory of the value
	taken   int            // the number of used pieces of the shape
	unusual bool           // the object has an unknown field, or a tag of more than two bytes

	recent [maxRecent]*template // most recent first; may belong to other decoders
	// differences contains the differences between the current object and a template, at most one per
	// token of the template.
	differences []difference
	one         [1]token // the token of a difference; reused to save allocations

	sharing bool    // no caller will modify the object
	making  int     // the start of the field that makeShared decodes now; -1 means none
	found   []value // the shared values of the current object

	// previous contains the first texts of the previous object, in their order, each of at most
	// longestText bytes. place counts the texts of the current object that have been decoded. Two
	// versions of an object are usually decoded one after the other, and have most texts at the same
	// places.
	previous [64]string
	place    int
	texts    [2048]struct {
		mark uint32 // the mark of the last value that is not in held
		held string
	}
	managed [128]struct {
		mark uint32
		held metav1.FieldsV1
	}
	quantities [128]struct { // the last quantity of each place
		text string
		is   resource.Quantity // contains no pointer
	}
	sharedPlaces sharedPlaces
}

const (
	maxTokens      = 16 << 10 // maximum capacity of tokens that stays for the next object
	longestText    = 128      // maximum size of a cached string, in bytes
	longestManaged = 4 << 10  // maximum size of cached managed fields, in bytes
)

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// release returns the scratch to the pool. The caller must not use it afterwards.
func (s *scratch) release() {
	s.reset()
	scratches.Put(s)
}

// reset drops all references to the current object.
func (s *scratch) reset() {
	s.raw, s.fields, s.noting = nil, nil, nil
	if cap(s.tokens) > maxTokens {
		s.tokens = nil
	}
	s.tokens, s.pieces, s.shape, s.image, s.taken = s.tokens[:0], s.pieces[:0], nil, nil, 0
	s.differences, s.place = s.differences[:0], 0
	clear(s.found)
	s.found = s.found[:0]
}

// text returns string(b), from the previous object or the cache if possible.
func (s *scratch) text(b []byte) string {
	if len(b) > longestText {
		return string(b)
	}
	if s.place == len(s.previous) {
		return s.cachedText(b)
	}
	previous := &s.previous[s.place]
	s.place++
	if *previous != string(b) {
		*previous = s.cachedText(b)
	}
	return *previous
}

// cachedText returns string(b), from the cache if possible.
func (s *scratch) cachedText(b []byte) string {
	hash := hashOf(b)
	p := &s.texts[hash%uint64(len(s.texts))]
	if p.held == string(b) {
		return p.held
	}
	made := string(b)
	if mark := uint32(hash >> 32); p.mark == mark {
		p.held = made
	} else {
		p.mark = mark
	}
	return made
}

// managedFields returns managed fields with the text in message, their protobuf, from the cache if
// possible.
func (s *scratch) managedFields(message, text []byte) (f metav1.FieldsV1) {
	if !s.sharing || len(text) > longestManaged {
		_ = f.Unmarshal(message) // only has parsed message
		return f
	}
	hash := hashOf(text)
	p := &s.managed[hash%uint64(len(s.managed))]
	if fieldsText(&p.held) == string(text) {
		return p.held
	}
	_ = f.Unmarshal(message)
	if mark := uint32(hash >> 32); p.mark == mark {
		p.held = f
	} else {
		p.mark = mark
	}
	return f
}

// fieldsAreBytes reports whether a FieldsV1 is only a slice of bytes. Since apimachinery v0.38 it
// is a handle of a string by default.
var fieldsAreBytes = func() bool {
	t := reflect.TypeFor[metav1.FieldsV1]()
	return t.NumField() == 1 && t.Field(0).Type == reflect.TypeFor[[]byte]()
}()

// fieldsText returns the text of managed fields, without a copy. No method of FieldsV1 does that in
// all supported versions.
func fieldsText(f *metav1.FieldsV1) string {
	if fieldsAreBytes {
		return views.String(*(*[]byte)(unsafe.Pointer(f)))
	}
	return f.String()
}

var hashSeed = maphash.MakeSeed()

func hashOf(b []byte) uint64 { return maphash.Bytes(hashSeed, b) }
