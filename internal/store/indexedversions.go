package store

import "sync/atomic"

// indexedVersions holds the versions that an index by function has seen, under numbers that it
// gives them, so that a query need not look them up in the table.
//
// All are let go of when enough have been replaced. By then it is not known which, and what a query
// finds is looked up in the table once more. So each index holds no more versions that have left
// the table than its dirtyKeys allow. The index's lock guards everything but held itself.
type indexedVersions struct {
	// held is nil, or shorter than there are numbers: those that are missing were let go of.
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

// letGo lets go of all versions. Safe for concurrent use.
func (s *indexedVersions) letGo() { s.held.Store(nil) }

// reset starts anew, with room for n versions.
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
