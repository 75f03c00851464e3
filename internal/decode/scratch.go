package decode

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
	raw    []byte   // the object in hand
	fields []*field // of its decoder
	tokens []token
	pieces []int32 // those that are the first of a slice or pointer
	key    []byte  // the same, to find the shape by
	print  uint64  // of the fields that came, to find the plan by
	noting *plan   // that is being made
	shape  *shape  // nil: each piece is allocated on its own
	image  unsafe.Pointer
	taken  int  // pieces
	odd    bool // it has a field that is not known, or a tag that is longer than need be

	knowns      [knowns]known // most recent first; may be those of other decoders
	differences []difference  // of the object in hand; as many as the sample has tokens at most
	one         [1]token      // of a difference
	locating    bool          // spots is to be filled
	spots       []spot        // of the current object, by token of its plan

	prepare func(any) // initializes the object before it is decoded; nil: zero
	sharing bool      // nobody will modify the object
	making  int       // where the field begins that is being made to be shared
	found   []value   // for the object in hand

	texts [2048]struct {
		mark uint32 // of what came last and was not held
		held string
	}
	managed [128]struct {
		mark uint32
		held metav1.FieldsV1
	}
	quantities [128]struct { // those that came last
		text string
		is   resource.Quantity // which has no pointer
	}
	shared shares
}

const (
	maxTokens      = 16 << 10 // that are kept room for from one object to the next
	longestText    = 128      // bytes
	longestManaged = 4 << 10  // bytes
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
	if len(b)-1 >= longestText { // or empty
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
