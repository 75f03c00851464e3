// Package shard splits the objects of a resource into shards by a hash of their uid or namespace,
// as KEP-5866 defines it: the shards of one split are disjoint, and together they are everything.
// It reads and writes the shardSelector of a LIST or WATCH. It is pure: no goroutine, no clock, no
// I/O.
package shard

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weirproject/weir/internal/wire"
)

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

// Field returns what is hashed.
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

// end returns the first hash behind the range, in hexadecimal. For the last range it takes 65 bits.
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
