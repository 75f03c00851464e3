package weir

import "github.com/weirproject/weir/internal/core/shard"

// Shard selects one of Count equal parts of a resource's objects. Index is the number of the part,
// from 0 to Count-1. The zero value selects all objects. Informers with all indexes of one Count
// together store each object exactly once (KEP-5866).
//
// A hash of the object's uid decides its shard, so an object moves to another shard only when Count
// changes. To change Count without a gap, start informers with the new Count, wait until they have
// synced, and then stop the old informers. At each moment, at least one informer then stores a
// given object. After the new informers have synced, one old and one new informer store it, until
// the old informers stop.
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
