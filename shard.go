package weir

import "github.com/weirproject/weir/internal/shard"

// Shard is one of Count equal parts of the objects of a resource: number Index, from 0. The zero
// value is all objects. Informers of the same Count with every Index below it hold each object
// exactly once, together (KEP-5866).
//
// A hash of its uid decides which shard an object is in, so that changes only with Count. To change
// Count without a gap, start informers of the new Count, wait until they are in sync, and then stop
// the old ones: meanwhile each object is in one old shard and in one new one.
type Shard struct {
	Index, Count int
}

// Validate returns an error that wraps ErrOptions unless the shard is the zero value or one of a
// split.
func (s Shard) Validate() error {
	if err := shard.Shard(s).Validate(); err != nil {
		return optionsError(err)
	}
	return nil
}

// All reports whether every object is in the shard.
func (s Shard) All() bool { return shard.Shard(s).All() }

// selector returns what chooses the objects of a valid shard, nil for all.
func (s Shard) selector() *shard.Selector { return shard.Shard(s).Selector() }
