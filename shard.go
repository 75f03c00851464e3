package weir

import "github.com/weirproject/weir/internal/core/shard"

// Shard is part Index, counted from 0, of Count equal parts of a resource's objects. The zero value
// selects all objects. If informers with the same Count have the indexes 0 to Count-1, they
// together store each object exactly once (KEP-5866).
//
// A hash of the object's uid decides its shard, so an object moves to another shard only when Count
// changes. To change Count so that at least one informer stores each object at any time, start
// informers with the new Count, wait until they have synced, and then stop the old ones. Until then
// one old and one new informer store each object.
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

// selector returns the selector of a valid shard, or nil if the shard contains all objects.
func (s Shard) selector() *shard.Selector { return shard.Shard(s).Selector() }
