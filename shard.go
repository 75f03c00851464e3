package weir

import "github.com/weirproject/weir/internal/core/shard"

// Shard is one of Count equal parts of a resource's objects: part Index, counted from 0. The zero
// value is all objects. Informers with the same Count and every Index below it together store each
// object exactly once (KEP-5866).
//
// A hash of its uid decides an object's shard, so an object moves only when Count changes. To
// change Count without a gap, start informers with the new Count, wait until they are in sync, and
// then stop the old ones: meanwhile each object is in one old shard and in one new one.
type Shard struct {
	Index, Count int
}

// Validate returns an error that wraps ErrInvalidOptions unless the shard is the zero value or 0 ≤
// Index < Count.
func (s Shard) Validate() error {
	if err := shard.Shard(s).Validate(); err != nil {
		return optionsError(err)
	}
	return nil
}

// All reports whether every object is in the shard.
func (s Shard) All() bool { return shard.Shard(s).All() }

// selector returns the selector of a valid shard, or nil for all objects.
func (s Shard) selector() *shard.Selector { return shard.Shard(s).Selector() }
