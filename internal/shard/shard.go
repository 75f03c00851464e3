package shard

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// ErrShard is wrapped by Validate's errors.
var ErrShard = errors.New("invalid shard")

// Shard is one of Count equal parts of a resource's objects: number Index, counted from 0. The zero
// value is all objects. Informers with the same Count and every Index below it have, together, each
// object once. Objects are told apart by their uid: the hash, which servers have chosen, puts names
// that differ in their last letters into one shard, so that a split by namespace is uneven.
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
