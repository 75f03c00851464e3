// Package shard splits the objects of a resource into shards by a hash of their uid or namespace,
// as KEP-5866 defines it: the shards of one split are disjoint, and together they are everything.
// It reads and writes the shardSelector of a LIST or WATCH. It is pure: no goroutine, no clock, no
// I/O.
package shard

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/weirproject/weir/internal/core/wire"
)

// ErrShard is wrapped by Validate's errors.
var ErrShard = errors.New("invalid shard")

// Shard is one of Count equal parts of a resource's objects: number Index, counted from 0. The zero
// value is all objects. Informers with the same Count and every Index below it have, together, each
// object once. The hash is that of the uid. A split by namespace would be uneven: the hash,
// which servers chose, puts names that differ only in their last letters into one shard.
type Shard struct {
	Index, Count int
}

// Validate returns an error that wraps ErrShard unless the shard is one of a split.
func (s Shard) Validate() error {
	switch {
	case s.Count < 0:
		return fmt.Errorf("%w: Count %d is negative", ErrShard, s.Count)
	case s.Count == 0 && s.Index != 0:
		return fmt.Errorf("%w: Index %d without a Count", ErrShard, s.Index)
	case s.Count > 0 && (s.Index < 0 || s.Index >= s.Count):
		return fmt.Errorf("%w: Index %d is not one of 0 to %d", ErrShard, s.Index, s.Count-1)
	}
	return nil
}

// All reports whether every object is in the shard.
func (s Shard) All() bool { return s.Count <= 1 }

// Selector returns the selector of the objects of a valid shard, or nil if all are chosen.
func (s Shard) Selector() *Selector {
	if s.All() {
		return nil
	}
	r := Range{First: bound(s.Index, s.Count), Last: math.MaxUint64}
	if s.Index < s.Count-1 {
		r.Last = bound(s.Index+1, s.Count) - 1
	}
	return newSelector(UID, []Range{r})
}

// bound returns the first hash of a shard: 2^64 * index / count.
func bound(index, count int) uint64 {
	quotient, _ := bits.Div64(uint64(index), 0, uint64(count))
	return quotient
}

// Field is the field of an object that is hashed. It never changes in an object's life, so an
// object stays in its shard.
type Field uint8

const (
	UID       Field = iota // metadata.uid; the zero value
	Namespace              // metadata.namespace, which is empty for objects of no namespace
)

// path returns the field's name in a selector.
func (f Field) path() string {
	if f == Namespace {
		return "object.metadata.namespace"
	}
	return "object.metadata.uid"
}

// Range is a range of hashes, both ends included. First <= Last.
type Range struct{ First, Last uint64 }

// Selector chooses objects by ranges of one field's hash. It has at least one range. It is
// immutable and safe for concurrent use.
type Selector struct {
	field  Field
	ranges []Range // as they were written
	union  []Range // of ranges: in order, and apart from each other
}

func newSelector(f Field, ranges []Range) *Selector {
	s := &Selector{field: f, ranges: ranges}
	sorted := slices.SortedFunc(slices.Values(ranges), func(a, b Range) int { return cmp.Compare(a.First, b.First) })
	for _, r := range sorted {
		if last := len(s.union) - 1; last >= 0 && r.First <= s.union[last].Last {
			s.union[last].Last = max(s.union[last].Last, r.Last)
		} else {
			s.union = append(s.union, r)
		}
	}
	return s
}

// Field returns the field that is hashed.
func (s *Selector) Field() Field { return s.field }

// Has reports whether a hash is in one of the ranges.
func (s *Selector) Has(hash uint64) bool {
	i, _ := slices.BinarySearchFunc(s.union, hash, func(r Range, hash uint64) int { return cmp.Compare(r.Last, hash) })
	return i < len(s.union) && s.union[i].First <= hash
}

// Chooses reports whether an object with this uid and namespace is chosen.
func (s *Selector) Chooses(uid, namespace []byte) bool {
	if s.field == Namespace {
		return s.Has(Hash(namespace))
	}
	return s.Has(Hash(uid))
}

// Keep returns a reflector's Config.Keep, which accepts the objects that are chosen. That of a nil
// Selector is nil, and accepts everything.
func (s *Selector) Keep() func(*wire.Meta) bool {
	if s == nil {
		return nil
	}
	return func(m *wire.Meta) bool { return s.Chooses(m.UID, m.Namespace) }
}

// String returns the selector as kube-apiserver writes it. Parse reads it back. A nil Selector is
// "", as in a query without a shardSelector.
func (s *Selector) String() string {
	if s == nil {
		return ""
	}
	var b strings.Builder
	for i, r := range s.ranges {
		if i > 0 {
			b.WriteString(" || ")
		}
		fmt.Fprintf(&b, "shardRange(%s, '0x%016x', '%s')", s.field.path(), r.First, r.end())
	}
	return b.String()
}

// end returns the first hash after the range, in hexadecimal. That of the last range has 65 bits.
func (r Range) end() string {
	if r.Last == math.MaxUint64 {
		return pastAll
	}
	return fmt.Sprintf("0x%016x", r.Last+1)
}

// pastAll is 2^64, the end of the last range.
const pastAll = "0x10000000000000000"

// Hash returns the 64-bit FNV-1a hash of a text. Servers hash a field with it.
func Hash[T string | []byte](text T) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * prime
	}
	return h
}
