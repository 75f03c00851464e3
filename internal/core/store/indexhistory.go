package store

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"
)

// funcValues holds the entries of an index that is being built, by value. Sorting them value by
// value is much cheaper than putting each into a tree.
type funcValues map[string]*funcValue

type funcValue struct {
	value   string
	entries []treeEntry[indexKey, int32]
}

// add adds the entry of a version that has a number, and returns the string that all entries with
// this value share.
func (m funcValues) add(value, key string, number int32) string {
	v := m[value]
	if v == nil {
		v = &funcValue{value: strings.Clone(value)} // it may be a part of a longer one
		m[v.value] = v
	}
	v.entries = append(v.entries, treeEntry[indexKey, int32]{number, indexKey{v.value, key}})
	return v.value
}

// tree returns all entries in a tree.
func (m funcValues) tree() tree[indexKey, int32] {
	t := newTree[indexKey, int32](compareIndexKeys)
	for _, value := range slices.Sorted(maps.Keys(m)) {
		entries := m[value].entries
		slices.SortFunc(entries, func(a, b treeEntry[indexKey, int32]) int { return strings.Compare(a.key.key, b.key.key) })
		for i := range entries {
			t.set(entries[i].key, entries[i].val)
		}
	}
	return t
}

// indexHistory holds the keys whose values an index by function has changed last, so that a query
// of a snapshot that is a little older than the index looks only at these. Readers that take a
// snapshot each and then wait for one another have such. The zero value is empty. The index's lock
// guards it.
type indexHistory struct {
	moves []indexMove // oldest first; no more than maxIndexMoves
	since uint64      // the revision after which all moves are known
}

// indexMove says that the values of a key may have changed when the index came to a revision.
type indexMove struct {
	key string
	at  uint64
}

// maxIndexMoves bounds the moves that are remembered. The older half is forgotten at once.
const maxIndexMoves = 1024

func (h *indexHistory) reset(revision uint64) { *h = indexHistory{since: revision} }

func (h *indexHistory) add(key string, at uint64) {
	if len(h.moves) == maxIndexMoves {
		h.since = h.moves[maxIndexMoves/2-1].at
		h.moves = slices.Delete(h.moves, 0, maxIndexMoves/2)
	}
	h.moves = append(h.moves, indexMove{key, at})
}

// after returns the keys whose values may have changed after a revision, in order. ok is false if
// they are not known any more.
func (h *indexHistory) after(revision uint64) (keys []string, ok bool) {
	if revision < h.since {
		return nil, false
	}
	for _, m := range slices.Backward(h.moves) {
		if m.at <= revision {
			break
		}
		keys = append(keys, m.key)
	}
	slices.Sort(keys)
	return slices.Compact(keys), true
}

// olderFailures are the failures of the function for versions of an older snapshot.
type olderFailures struct {
	key   string // the lowest one
	first error
	n     int
}

func (f *olderFailures) add(key string, err error) {
	if f.n++; f.n == 1 || key < f.key {
		f.key, f.first = key, err
	}
}

func (f *olderFailures) err(x *funcIndex) error {
	if f.n == 0 {
		return nil
	}
	return &IndexError{Index: x.name, Key: f.key, More: f.n - 1, Err: f.first}
}

// indexedVersions holds the versions that an index by function has seen, under numbers that it
// gives them, so that a query need not look them up in the table.
//
// It drops all of them when enough have been replaced. By then it is not known which, and what a
// query finds is looked up in the table once more. So each index holds no more versions that have
// left the table than its dirtyKeys allow. The index's lock guards everything but held itself.
type indexedVersions struct {
	// held is nil, or shorter than there are numbers: the missing ones were dropped.
	held atomic.Pointer[versionList]
	n    int     // numbers, so far
	free []int32 // that are not used any more
}

type versionList struct{ all []*Object }

// versions returns the versions that are held, by number. Others are nil.
func (s *indexedVersions) versions() []*Object {
	p := s.held.Load()
	if p == nil {
		p = new(versionList)
		s.held.Store(p)
	}
	if missing := s.n - len(p.all); missing > 0 {
		p.all = append(p.all, make([]*Object, missing)...)
	}
	return p.all
}

// letGo drops all versions. Safe for concurrent use.
func (s *indexedVersions) letGo() { s.held.Store(nil) }

// reset starts again, with room for n versions.
func (s *indexedVersions) reset(n int) {
	s.n, s.free = 0, nil
	s.held.Store(&versionList{make([]*Object, 0, n)})
}

// add holds a version under a free number, and returns the number.
func (s *indexedVersions) add(o *Object) int32 {
	if last := len(s.free) - 1; last >= 0 {
		number := s.free[last]
		s.free = s.free[:last]
		s.set(number, o)
		return number
	}
	number := int32(s.n)
	s.n++
	if p := s.held.Load(); p != nil && len(p.all) == int(number) {
		p.all = append(p.all, nil)
	}
	s.set(number, o)
	return number
}

// set replaces the version that has the number. A version that has left the table, as an older
// snapshot may show, is not held: the writer does not count it again.
func (s *indexedVersions) set(number int32, o *Object) {
	if o != nil && !o.live() {
		o = nil
	}
	if p := s.held.Load(); p != nil && int(number) < len(p.all) {
		p.all[number] = o
	}
}

func (s *indexedVersions) remove(number int32) {
	s.set(number, nil)
	s.free = append(s.free, number)
}

func (s *indexedVersions) footprint() int64 { return 8*int64(s.n) + 4*int64(cap(s.free)) }
