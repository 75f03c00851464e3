// Package shard splits the objects of a resource into shards, by the hash of their uid or
// namespace. KEP-5866 defines the hash. The shards of one split are disjoint, and together contain
// all objects. The package also parses and writes the shardSelector of a LIST or WATCH. It uses no
// goroutine, clock or I/O.
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

// Shard is one of Count equal parts of a resource's objects. Index is the number of the part, from
// 0. The zero value contains all objects. If one informer runs for each Index below Count, each
// object is in exactly one informer. Shard hashes the uid. A split by namespace would be uneven,
// because the hash that KEP-5866 defines puts names that differ only in their last letters into one
// shard.
type Shard struct {
	Index, Count int
}

// Validate returns an error that wraps ErrShard unless Index and Count are valid together.
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

// All reports whether the shard contains every object: Count is 0 or 1.
func (s Shard) All() bool { return s.Count <= 1 }

// Selector returns the selector of the objects in a valid shard, or nil if the shard contains all
// objects.
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

// bound returns the first hash of a shard: 2^64 * index / count, rounded down.
func bound(index, count int) uint64 {
	quotient, _ := bits.Div64(uint64(index), 0, uint64(count))
	return quotient
}

// Field is the field of an object that is hashed. An object's uid and namespace never change, so an
// object stays in its shard.
type Field uint8

const (
	UID       Field = iota // metadata.uid; the zero value
	Namespace              // metadata.namespace, which is empty for cluster-scoped objects
)

// path returns the text for f in a selector.
func (f Field) path() string {
	if f == Namespace {
		return "object.metadata.namespace"
	}
	return "object.metadata.uid"
}

// Range is a range of hashes from First to Last, including both. First must not be greater than
// Last.
type Range struct{ First, Last uint64 }

// Selector selects objects by ranges of one field's hash. It has at least one range. It is
// immutable and safe for concurrent use.
type Selector struct {
	field  Field
	ranges []Range // as in the selector's text
	union  []Range // the hashes in ranges, as sorted ranges that do not overlap
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

// Has reports whether one of the ranges contains hash.
func (s *Selector) Has(hash uint64) bool {
	i, _ := slices.BinarySearchFunc(s.union, hash, func(r Range, hash uint64) int { return cmp.Compare(r.Last, hash) })
	return i < len(s.union) && s.union[i].First <= hash
}

// Chooses reports whether the selector selects an object with this uid and namespace.
func (s *Selector) Chooses(uid, namespace []byte) bool {
	if s.field == Namespace {
		return s.Has(Hash(namespace))
	}
	return s.Has(Hash(uid))
}

// Keep returns a function for the field Keep of a reflector's Config, which decides whether the
// reflector accepts an object. The function accepts the selected objects. If s is nil, Keep returns
// nil, with which a reflector accepts all objects.
func (s *Selector) Keep() func(*wire.Meta) bool {
	if s == nil {
		return nil
	}
	return func(m *wire.Meta) bool { return s.Chooses(m.UID, m.Namespace) }
}

// String returns the selector in the form that kube-apiserver writes and Parse accepts. A nil
// Selector returns "", as in a query without a shardSelector.
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

// end returns the first hash after the range, in hexadecimal. After the highest hash, it returns
// 2^64, which is no hash.
func (r Range) end() string {
	if r.Last == math.MaxUint64 {
		return pastAll
	}
	return fmt.Sprintf("0x%016x", r.Last+1)
}

// pastAll is 2^64, the number after the highest hash.
const pastAll = "0x10000000000000000"

// Hash returns the 64-bit FNV-1a hash of text, the hash that servers use.
func Hash[T string | []byte](text T) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * prime
	}
	return h
}
