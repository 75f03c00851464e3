package store

import (
	"iter"
	"slices"
)

// DropIndex removes an index by label or field. Snapshots that were taken before still know it. It
// returns false if there is no such index. Safe for concurrent use.
func (s *Store) DropIndex(name string) bool {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.flush() // the batch is prepared for the indexes as they are
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.byteIndexes
	i := slices.IndexFunc(old.indexes, func(x *byteIndex) bool { return x.name == name })
	if i < 0 {
		return false
	}
	s.byteIndexes = &byteIndexSet{number: old.number + 1, indexes: slices.Delete(slices.Clone(old.indexes), i, i+1)}
	s.snap = nil
	return true
}

// IndexBytes returns the estimated bytes of an index by label or field, or 0 if there is no such
// index. Safe for concurrent use.
func (s *Store) IndexBytes(name string) int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, x := range s.byteIndexes.indexes {
		if x.name == name {
			return x.footprint()
		}
	}
	return 0
}

// ByFrom yields the objects that an index by label or field has under value, in key order, from the
// first whose key is not below key. The error is ErrUnknownIndex for any other index.
func (sn *Snapshot) ByFrom(index, value, key string) (iter.Seq[*Object], error) {
	x := sn.byteIndex(index)
	if x == nil {
		return func(func(*Object) bool) {}, unknownIndex(index)
	}
	return func(yield func(*Object) bool) {
		x.entries.ascend(indexKey{value, key}, func(k indexKey, _ struct{}) bool {
			if k.value != value {
				return false
			}
			o, ok := sn.table.get(k.key)
			return !ok || yield(o)
		})
	}, nil
}

// CountBy counts the objects that an index by label or field has under value, and stops at most. ok
// is false if there is no such index.
func (sn *Snapshot) CountBy(index, value string, most int) (n int, ok bool) {
	x := sn.byteIndex(index)
	if x == nil {
		return 0, false
	}
	x.entries.ascend(indexKey{value: value}, func(k indexKey, _ struct{}) bool {
		if k.value != value || n >= most {
			return false
		}
		n++
		return true
	})
	return n, true
}

// Variety returns a number that stays the same as long as the distinct values of an index by label,
// label set or field do, whichever objects have them. So what was made of all Values holds for each
// snapshot of the same variety. Variety returns 0 if there is no such index.
func (sn *Snapshot) Variety(index string) uint64 {
	if x := sn.byteIndex(index); x != nil {
		return x.variety
	}
	return 0
}

func (sn *Snapshot) byteIndex(index string) *frozenIndex {
	for i := range sn.byteIndexes {
		if sn.byteIndexes[i].name == index {
			return &sn.byteIndexes[i]
		}
	}
	return nil
}
