//go:build !weir_safe

package codec

import (
	"encoding/binary"
	"math/bits"
	"sync"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxDepth is how deep messages may be nested. The deepest API types, apart from the schemas of
// custom resources, are about 12 deep.
const maxDepth = 64

// maxSize is the size in bytes of the largest object that is decoded here. Kubernetes' objects have
// at most a few MiB.
const maxSize = 64 << 20

// maxFields bounds the fields of a type, including those of the types in it. The key of a shape has
// 16 bits for each.
const maxFields = 1 << 16

// scratch is the working memory of one call. It is pooled for later calls; the garbage collector
// may free it between calls.
//
// It also caches values by their bytes: strings, quantities, and for DecodeShared managed fields,
// which are half of many objects and equal in all objects of a workload. A value that occurs once
// only leaves a mark. It is cached when it occurs again before another value takes its place. So
// unique values, such as uids and addresses, do not displace frequent ones. The caches are bounded
// by their number of places and by the size of a value.
type scratch struct {
	raw     []byte   // the current object
	fields  []*field // of its decoder
	tokens  []token
	pieces  []int32        // indexes of the tokens that are the first of a slice or pointer
	key     []byte         // of the shape
	print   uint64         // hash of the fields, by which the plan is found
	noting  *plan          // the plan that is being made, or nil
	shape   *shape         // nil: each piece is allocated on its own
	image   unsafe.Pointer // the memory of the value
	taken   int            // number of pieces of the shape that are in use
	unusual bool           // there is an unknown field, or a tag of more than two bytes
	// pointed tells that a quantity of the current object has a pointer, which a copy of the object
	// would have too.
	pointed bool

	recentPlans [maxRecentPlans]recentPlan // most recent first; may be those of other decoders
	// differences are those of the current object, at most as many as the template has tokens.
	differences []difference
	one         [1]token   // the token of a difference
	locating    bool       // compare fills locations
	locations   []location // of the current object, by token of its plan

	prepare func(any) // initializes the object before it is decoded; nil: zero
	sharing bool      // no caller will modify the object
	making  int       // where the field begins that makeShared decodes; -1: none
	found   []value   // shared values of the current object

	texts [2048]struct {
		mark uint32 // of the last value that was not held
		held string
	}
	managed [128]struct {
		mark uint32
		held metav1.FieldsV1
	}
	quantities [128]struct { // the last ones
		text string
		is   resource.Quantity // has no pointer
	}
	sharedPlaces sharedPlaces
}

const (
	maxTokens      = 16 << 10 // capacity that is kept for the next object
	longestText    = 128      // bytes of a string in the cache
	longestManaged = 4 << 10  // bytes of managed fields in the cache
)

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// release returns the scratch to the pool. The caller must not use it afterwards.
func (s *scratch) release() {
	s.reset()
	scratches.Put(s)
}

// reset drops all references to the current object.
func (s *scratch) reset() {
	s.raw, s.fields, s.prepare, s.noting = nil, nil, nil, nil
	if cap(s.tokens) > maxTokens {
		s.tokens = nil
	}
	s.tokens, s.pieces, s.key, s.shape, s.image, s.taken = s.tokens[:0], s.pieces[:0], s.key[:0], nil, nil, 0
	clear(s.found)
	s.found = s.found[:0]
}

// text returns string(b), from the cache if it is there.
func (s *scratch) text(b []byte) string {
	if len(b) > longestText {
		return string(b)
	}
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

// managedFields returns managed fields with the bytes b.
func (s *scratch) managedFields(b []byte) (f metav1.FieldsV1) {
	if !s.sharing || len(b) > longestManaged {
		f.SetRawBytes(b)
		return f
	}
	hash := hashOf(b)
	p := &s.managed[hash%uint64(len(s.managed))]
	if string(p.held.GetRawBytes()) == string(b) {
		return p.held
	}
	f.SetRawBytes(b)
	if mark := uint32(hash >> 32); p.mark == mark {
		p.held = f
	} else {
		p.mark = mark
	}
	return f
}

// hashOf returns a hash of the length, the two ends and the middle of b. It is fast. A collision
// only means that a value is not shared.
func hashOf(b []byte) uint64 {
	n := len(b)
	h := uint64(n)
	switch {
	case n >= 8:
		h ^= binary.LittleEndian.Uint64(b) * 0x9e3779b97f4a7c15
		h ^= bits.RotateLeft64(binary.LittleEndian.Uint64(b[n-8:])*0xbf58476d1ce4e5b9, 31)
		if n > 16 {
			h ^= bits.RotateLeft64(binary.LittleEndian.Uint64(b[n/2-4:])*0x94d049bb133111eb, 17)
		}
	case n >= 4:
		h ^= uint64(binary.LittleEndian.Uint32(b))<<32 | uint64(binary.LittleEndian.Uint32(b[n-4:]))
	default:
		for _, c := range b {
			h = h<<8 | uint64(c)
		}
	}
	hi, lo := bits.Mul64(h^0x2545f4914f6cdd1d, 0x9e3779b97f4a7c15)
	return hi ^ lo
}
