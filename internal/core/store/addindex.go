package store

import (
	"fmt"
	"maps"
	"slices"
)

// AddIndex adds an index under a name. The store may already contain objects. AddIndex is safe for
// concurrent use.
//
// AddIndex only registers an index by function: the first query of the index builds it. Before that
// query, the index uses memory only for the values that Derive has computed. AddIndex builds an
// index by label or field itself. It reads a snapshot for that, while readers and writers continue.
// At the end AddIndex blocks the writers while it reads the last changes. Snapshots that are taken
// after AddIndex has returned have the index.
//
// The errors are ErrIndexExists, ErrNoDecoder for an index by function in a store without
// Config.Decode, and an *IndexError for an object that cannot be read.
func (s *Store) AddIndex(name string, ix Index) error {
	if ix.fn != nil && s.decoder.decode == nil {
		return ErrNoDecoder
	}
	s.mu.Lock()
	_, taken := s.indexNames[name]
	s.indexNames[name] = struct{}{}
	if !taken && ix.fn != nil {
		s.funcs[name] = newFuncIndex(s, name, ix.fn)
		s.derives.Store(new(slices.Collect(maps.Values(s.funcs))))
	}
	s.mu.Unlock()
	switch {
	case taken:
		return fmt.Errorf("index %q: %w", name, ErrIndexExists)
	case ix.fn != nil:
		return nil
	}
	return newIndexBuilder(s, name, ix).finish()
}

// finish builds the index and adds it to the store. After an error it releases the name.
func (b *indexBuilder) finish() error {
	s := b.s
	var err error
	for range buildRounds {
		if err = b.follow(s.Snapshot()); err != nil {
			break
		}
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	s.flush() // the buffered changes were prepared for the current set of indexes
	if err == nil {
		err = b.follow(s.Snapshot())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		delete(s.indexNames, b.index.name)
		return err
	}
	s.setIndexesLocked(append(slices.Clone(s.byteIndexes.indexes), b.index))
	return nil
}

// setIndexesLocked changes the set of indexes that writers update.
func (s *Store) setIndexesLocked(indexes []*byteIndex) {
	s.byteIndexes = &byteIndexSet{number: s.byteIndexes.number + 1, indexes: indexes}
	s.snap = nil
}

func (s *Store) funcIndex(name string) *funcIndex {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.funcs[name]
}

// indexBuilder builds an index by label or field while the store is in use.
type indexBuilder struct {
	s     *Store
	index *byteIndex
	table tree[string, *Object] // the index has the values of this table's objects
	set   byteIndexSet          // contains only index
	ops   indexOps              // scratch
}

func newIndexBuilder(s *Store, name string, ix Index) *indexBuilder {
	b := &indexBuilder{s: s, index: &byteIndex{newValueIndex(name), ix}}
	b.set.indexes = []*byteIndex{b.index}
	return b
}

// buildRounds is how often a builder catches up while writers continue. After that it blocks the
// writers and catches up for the last time. The first round reads all objects; each later round
// reads what changed during the previous round.
const buildRounds = 3

// follow updates the index to the state of a snapshot. It returns an *IndexError for the first
// object that it cannot read.
func (b *indexBuilder) follow(sn *Snapshot) (err error) {
	eachDifference(&b.table, &sn.table, func(was, is *Object) {
		if err == nil {
			err = b.change(was, is)
		}
	})
	b.table = sn.table
	return err
}

// eachDifference compares two frozen tables. For each key whose versions differ, it calls visit
// with the version in before (was) and the version in after (is). If a table does not have the key,
// its version is nil. eachDifference skips leaves that are in both tables.
func eachDifference(before, after *tree[string, *Object], visit func(was, is *Object)) {
	shared := make(map[*leaf]bool)
	before.eachLeaf(func(l *leaf) { shared[l] = false })
	after.eachLeaf(func(l *leaf) {
		if _, ok := shared[l]; ok {
			shared[l] = true
			return
		}
		for i := range l.items {
			if was, _ := before.get(l.items[i].key); was != l.items[i].val {
				visit(was, l.items[i].val)
			}
		}
	})
	before.eachLeaf(func(l *leaf) {
		if shared[l] {
			return
		}
		for i := range l.items {
			if _, ok := after.get(l.items[i].key); !ok {
				visit(l.items[i].val, nil)
			}
		}
	})
}

// change removes the index entries of the old version (was), and adds the index entries of the new
// version (is). Either version may be nil.
func (b *indexBuilder) change(was, is *Object) error {
	if err := b.each(was, b.index.remove); err != nil {
		return err
	}
	return b.each(is, func(value, key string) { b.index.add(value, key) })
}

// each calls visit with each value that the version o has in the index. o may be nil.
func (b *indexBuilder) each(o *Object, visit func(value, key string)) error {
	if o == nil {
		return nil
	}
	defer b.ops.reset()
	b.ops.spans = b.ops.spans[:0]
	if err := b.ops.readHeld(&b.set, o); err != nil {
		return &IndexError{Index: b.index.name, Key: o.key, Err: err}
	}
	for _, sp := range b.ops.spans {
		visit(b.ops.text(sp), o.key)
	}
	return nil
}

// DropIndex removes an index by label or field. Snapshots taken before still have it. DropIndex
// returns false if there is no index by label or field with that name. It is safe for concurrent
// use.
func (s *Store) DropIndex(name string) bool {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.flush() // the buffered changes were prepared for the current set of indexes
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.byteIndexes.find(name)
	if i < 0 {
		return false
	}
	delete(s.indexNames, name)
	s.setIndexesLocked(slices.Delete(slices.Clone(s.byteIndexes.indexes), i, i+1))
	return true
}

// IndexBytes returns the estimated bytes of an index by label or field, or 0 if there is no such
// index. It is safe for concurrent use.
func (s *Store) IndexBytes(name string) int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	i := s.byteIndexes.find(name)
	if i < 0 {
		return 0
	}
	return s.byteIndexes.indexes[i].footprint()
}
