package store

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weirproject/weir/internal/core/wire"
)

// AddIndex adds an index under a name, before or after the first object. It is safe for concurrent
// use.
//
// An index by function is not built before it is queried. Until then it costs only what Derive
// keeps for the first query: a few values for each object. AddIndex builds an index by label or
// field from a snapshot while everybody goes on, catches up, and puts it in place. It blocks until
// then. Snapshots that are taken after it has returned know the index.
//
// The errors are ErrIndexExists, ErrNoDecoder for an index by function in a store without
// Config.Decode, and an *IndexError for an object that cannot be read.
func (s *Store) AddIndex(name string, ix Index) error {
	if ix.fn != nil {
		return s.addFuncIndex(name, ix)
	}
	b, err := s.startIndex(name, ix)
	if err != nil {
		return err
	}
	return b.finish()
}

func (s *Store) addFuncIndex(name string, ix Index) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.decoder.decode == nil {
		return ErrNoDecoder
	}
	if s.takenLocked(name) {
		return fmt.Errorf("index %q: %w", name, ErrIndexExists)
	}
	s.funcs[name] = newFuncIndex(s, name, ix.fn)
	all := slices.Collect(maps.Values(s.funcs))
	s.derives.Store(&all)
	return nil
}

// startIndex reserves the name, and begins to collect what changes.
func (s *Store) startIndex(name string, ix Index) (*indexBuilder, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.takenLocked(name) {
		return nil, fmt.Errorf("index %q: %w", name, ErrIndexExists)
	}
	s.reserved[name] = struct{}{}
	b := &indexBuilder{s: s, index: newByteIndex(name, ix), snap: s.snapshotLocked()}
	s.log.collect(&b.dirty)
	return b, nil
}

// finish builds the index, puts it in place, and ends the reservation of its name.
func (b *indexBuilder) finish() error {
	s := b.s
	err := b.build()
	s.writing.Lock()
	defer s.writing.Unlock()
	s.flush() // the batch is prepared for the indexes as they are
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		err = b.installLocked()
	}
	s.log.stopCollecting(&b.dirty)
	delete(s.reserved, b.index.name)
	return err
}

func (s *Store) takenLocked(name string) bool {
	for _, x := range s.byteIndexes.indexes {
		if x.name == name {
			return true
		}
	}
	_, isFunc := s.funcs[name]
	_, isReserved := s.reserved[name]
	return isFunc || isReserved
}

func (s *Store) funcIndex(name string) *funcIndex {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.funcs[name]
}

// indexBuilder builds a label or field index beside the running store.
type indexBuilder struct {
	s      *Store
	index  *byteIndex
	snap   *Snapshot // that the index is of
	dirty  dirtyKeys // what has changed since
	values [][]byte
	meta   wire.Meta
	raw    []byte
}

const (
	// A builder takes the lock to catch up for the last time when at most buildRest keys have
	// changed meanwhile, or after buildRounds rounds.
	buildRest   = 128
	buildRounds = 8
)

func (b *indexBuilder) build() error {
	for o := range b.snap.All() {
		if err := b.change(nil, o); err != nil {
			return err
		}
	}
	for range buildRounds {
		before := b.snap
		revs, lost := b.goOn()
		if lost {
			b.index = newByteIndex(b.index.name, b.index.source)
			for o := range b.snap.All() {
				if err := b.change(nil, o); err != nil {
					return err
				}
			}
			continue
		}
		if err := b.catchUp(before, revs); err != nil {
			return err
		}
		if len(revs) <= buildRest {
			return nil
		}
	}
	return nil
}

// goOn moves b.snap to the store as it is, and returns the keys of what may have changed since. If
// lost is set, there were too many: everything may have changed.
func (b *indexBuilder) goOn() (revs map[string]uint64, lost bool) {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	return b.goOnLocked()
}

// goOnLocked does what goOn does, with the store's lock held. A change between its two steps would
// be in the snapshot and not among the keys, and the next round would find it in both snapshots.
func (b *indexBuilder) goOnLocked() (revs map[string]uint64, lost bool) {
	revs, lost = b.s.log.take(&b.dirty)
	b.snap = b.s.snapshotLocked()
	return revs, lost
}

// installLocked catches up with the rest and puts the index in place. The caller holds the lock.
func (b *indexBuilder) installLocked() error {
	before := b.snap
	revs, lost := b.goOnLocked()
	if lost {
		before = &Snapshot{table: newTree[string, *Object](before.table.cmp)}
		b.index = newByteIndex(b.index.name, b.index.source)
		revs = make(map[string]uint64, b.snap.Len())
		for o := range b.snap.All() {
			revs[o.key] = 0
		}
	}
	if err := b.catchUp(before, revs); err != nil {
		return err
	}
	old := b.s.byteIndexes
	b.s.byteIndexes = &byteIndexSet{number: old.number + 1, indexes: append(old.indexes[:len(old.indexes):len(old.indexes)], b.index)}
	b.s.snap = nil
	return nil
}

// catchUp moves the index from snapshot before to b.snap. The keys of revs are those that may
// differ.
func (b *indexBuilder) catchUp(before *Snapshot, revs map[string]uint64) error {
	for key := range revs {
		was, _ := before.Get(key)
		is, _ := b.snap.Get(key)
		if was == is {
			continue
		}
		if err := b.change(was, is); err != nil {
			return err
		}
	}
	return nil
}

// change replaces the values of version was by those of version is; either may be nil.
func (b *indexBuilder) change(was, is *Object) error {
	if was != nil {
		if err := b.read(was); err != nil {
			return err
		}
		for _, v := range b.values {
			b.index.remove(string(v), was.key)
		}
	}
	if is == nil {
		return nil
	}
	if err := b.read(is); err != nil {
		return err
	}
	for _, v := range b.values {
		b.index.add(string(v), is.key)
	}
	return nil
}

func (b *indexBuilder) read(o *Object) (err error) {
	if !o.layout.isValue {
		b.raw, err = o.Meta(&b.meta, b.raw)
	}
	if err == nil {
		b.values, err = b.index.source.heldValues(b.values[:0], o, &b.meta, b.raw)
	}
	if err != nil {
		return &IndexError{Index: b.index.name, Key: o.key, Err: err}
	}
	return nil
}

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
