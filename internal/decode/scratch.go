package decode

import (
	"encoding/binary"
	"math/bits"
	"sync"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxDepth is how deep messages are followed into each other. The deepest of Kubernetes' own, the
// schemas of custom resources apart, are some 12 deep.
const maxDepth = 64

// maxSize is how many bytes are decoded here. Kubernetes' objects are at most a few MiB.
const maxSize = 64 << 20

// maxFields is how many fields a type may have, with those of what is inside it: a key of a shape
// has 16 bits for each.
const maxFields = 1 << 16

// scratch is what one call needs. It goes from call to call while there are any, and then to the
// garbage collector.
//
// It holds what has come again and again, found by its bytes: strings, quantities, and for
// DecodeShared managed fields, which are half of many objects and the same in all of a workload.
// What comes for the first time only leaves a mark; it is held when it comes again before anything
// else takes its place. So what is unique, such as uids and addresses, does not drive out what is
// not. Its bounds are its places, and the size of what they take.
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

	knowns      [knowns]known // the last first; they may be other decoders'
	differences []difference  // of the object in hand; as many as the sample has tokens at most
	one         [1]token      // of a difference
	locating    bool          // spots is to be filled
	spots       []spot        // of the object in hand, by token of its plan

	prepare func(any) // makes the object what it is before it is decoded; nil: zero
	sharing bool      // nobody will write to the object
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

// release gives the scratch back. It is not used after that.
func (s *scratch) release() {
	s.reset()
	scratches.Put(s)
}

// reset lets go of the object.
func (s *scratch) reset() {
	s.raw, s.fields, s.prepare, s.noting = nil, nil, nil, nil
	if cap(s.tokens) > maxTokens {
		s.tokens = nil
	}
	s.tokens, s.pieces, s.key, s.shape, s.image, s.taken = s.tokens[:0], s.pieces[:0], s.key[:0], nil, nil, 0
	clear(s.found)
	s.found = s.found[:0]
}

// text is string(b).
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

// managedFields makes managed fields of their bytes.
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

// hashOf looks at the length, the two ends and the middle. That is quick, and as good as need be:
// what falls on one place is not shared, and that is all.
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
