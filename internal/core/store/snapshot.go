package store

import (
	"iter"
	"slices"
	"strings"
)

// Snapshot is the state of a store at one moment. It is immutable and safe for concurrent use.
// Taking one copies no objects. While a caller keeps a snapshot, its versions of objects stay in
// memory. Readers of its table, and of its indexes by label or field, take no lock.
type Snapshot struct {
	store       *Store
	table       tree[string, *Object]
	byteIndexes []valueIndex // frozen
	revision    uint64
	rv          string
	bytes       int64 // bytes of the packed versions
	replaced    int64 // Store.replaced at this moment
}

// Snapshot returns the current state. Callers share it until the next change. It is safe for
// concurrent use.
func (s *Store) Snapshot() *Snapshot {
	s.mu.RLock()
	snap := s.snap
	current := snap != nil && snap.rv == s.resourceVersionLocked()
	s.mu.RUnlock()
	if current {
		return snap
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.snapshotLocked()
}

// snapshotLocked returns the snapshot of this revision, and creates it if there is none. Before
// writers change a node that a snapshot shares, they copy it. They change other nodes in place.
func (s *Store) snapshotLocked() *Snapshot {
	rv := s.resourceVersionLocked()
	if s.snap != nil {
		if s.snap.rv != rv {
			moved := *s.snap
			moved.rv = rv
			s.snap = &moved
		}
		return s.snap
	}
	snap := &Snapshot{
		store: s, table: s.table.freeze(), revision: s.revision, rv: rv,
		bytes: s.packed + int64(s.table.count)*objectOverhead, replaced: s.replaced,
	}
	for _, x := range s.byteIndexes.indexes {
		snap.byteIndexes = append(snap.byteIndexes, x.freeze())
	}
	s.snap = snap
	return snap
}

// Revision returns the revision of the store at this moment.
func (sn *Snapshot) Revision() uint64 { return sn.revision }

// ResourceVersion returns the resourceVersion to which all writers had progressed at this moment,
// or "" if there was no such version; see Store.ResourceVersion.
func (sn *Snapshot) ResourceVersion() string { return sn.rv }

// KeptBytes estimates the memory that is in use only because the caller keeps sn in addition to a
// newer snapshot (later). If later is nil, KeptBytes compares sn with the current state of the
// store. The memory consists of the versions that were replaced between the two states, and of
// nodes of the table. Some of these versions may also be in the log. If one object was replaced
// repeatedly, the estimate is too high, but it is never more than the whole snapshot.
func (sn *Snapshot) KeptBytes(later *Snapshot) int64 {
	var revision uint64
	var replaced int64
	if later != nil {
		revision, replaced = later.revision, later.replaced
	} else {
		sn.store.mu.RLock()
		revision, replaced = sn.store.revision, sn.store.replaced
		sn.store.mu.RUnlock()
	}
	nodes := min(int64(revision-sn.revision)*leafBytes, sn.table.footprint(treeEntryBytes))
	return min(replaced-sn.replaced, sn.bytes) + nodes
}

const (
	treeEntryBytes = 24 // of the table
	leafBytes      = maxTreeNode * treeEntryBytes
)

// Len returns the number of objects.
func (sn *Snapshot) Len() int { return sn.table.count }

// Get returns the object under key, and false if there is none.
func (sn *Snapshot) Get(key string) (*Object, bool) { return sn.table.get(key) }

// All yields all objects in key order.
func (sn *Snapshot) All() iter.Seq[*Object] { return sn.From("") }

// From yields the objects whose key is not below key, in key order.
func (sn *Snapshot) From(key string) iter.Seq[*Object] {
	return func(yield func(*Object) bool) {
		sn.table.ascend(key, func(_ string, o *Object) bool { return yield(o) })
	}
}

// Namespace yields the objects of one namespace in key order. If ns is "", it yields all objects.
func (sn *Snapshot) Namespace(ns string) iter.Seq[*Object] {
	return func(yield func(*Object) bool) { eachIn(&sn.table, ns, yield) }
}

// eachIn yields the objects of one namespace, or all if ns is "", in key order.
func eachIn(table *tree[string, *Object], ns string, yield func(*Object) bool) {
	prefix := ""
	if ns != "" {
		prefix = ns + "/"
	}
	table.ascend(prefix, func(key string, o *Object) bool { return strings.HasPrefix(key, prefix) && yield(o) })
}

// By yields the objects that an index has under value, in key order.
//
// The error is ErrUnknownIndex for an index that does not exist, and for an index by label or field
// that was added after the snapshot was taken. For an index by function, the error is an
// *IndexError if the function failed for at least one object; By still yields the other objects.
// See FuncIndex for how such an index follows snapshots.
func (sn *Snapshot) By(index, value string) (iter.Seq[*Object], error) {
	if sn.byteIndex(index) != nil {
		return sn.ByFrom(index, value, "")
	}
	objects, err := sn.AppendBy(nil, index, value)
	return slices.Values(objects), err
}

// AppendBy appends the objects that By yields to a slice. If an index by function has cached the
// objects of the value, AppendBy allocates nothing else. The errors are those of By.
func (sn *Snapshot) AppendBy(objects []*Object, index, value string) ([]*Object, error) {
	if sn.byteIndex(index) != nil {
		found, err := sn.ByFrom(index, value, "")
		return slices.AppendSeq(objects, found), err
	}
	if f := sn.store.funcIndex(index); f != nil {
		return f.appendBy(objects, sn, value)
	}
	return objects, unknownIndex(index)
}

// AppendBy appends the objects that currently have any of the values in an index. All objects are
// of one moment. For each value, the objects are in key order. The errors are those of Snapshot.By.
// AppendBy is safe for concurrent use.
func (s *Store) AppendBy(objects []*Object, index string, values ...string) ([]*Object, error) {
	snap := s.Snapshot()
	if f := s.funcIndex(index); f != nil {
		return f.appendNow(objects, snap, values)
	}
	var err error
	for _, value := range values {
		if objects, err = snap.AppendBy(objects, index, value); err != nil {
			break
		}
	}
	return objects, err
}

// Values yields the distinct values of an index, in order. For an unknown index it yields none.
func (sn *Snapshot) Values(index string) iter.Seq[string] {
	if x := sn.byteIndex(index); x != nil {
		return x.eachValue
	}
	if f := sn.store.funcIndex(index); f != nil {
		return func(yield func(string) bool) {
			for _, v := range f.distinct(sn) {
				if !yield(v) {
					return
				}
			}
		}
	}
	return func(func(string) bool) {}
}

// ByFrom yields the objects that have value in an index by label or field, in key order, starting
// with the first object whose key is not below key. The error is ErrUnknownIndex for any other
// index.
func (sn *Snapshot) ByFrom(index, value, key string) (iter.Seq[*Object], error) {
	x := sn.byteIndex(index)
	if x == nil {
		return func(func(*Object) bool) {}, unknownIndex(index)
	}
	return func(yield func(*Object) bool) {
		x.each(value, key, func(key string) bool {
			o, ok := sn.table.get(key)
			return !ok || yield(o)
		})
	}, nil
}

// CountBy counts the objects that have value in an index by label or field. most is the limit: when
// CountBy has counted that many objects, it stops and returns most. ok is false if there is no such
// index.
func (sn *Snapshot) CountBy(index, value string, most int) (n int, ok bool) {
	x := sn.byteIndex(index)
	if x == nil {
		return 0, false
	}
	x.each(value, "", func(string) bool {
		n++
		return n < most
	})
	return min(n, most), true
}

// Variety returns a number that changes when the distinct values of an index by label, label set or
// field change. If only the objects under these values change, the number stays the same. So a
// result computed from all Values is valid for each snapshot with the same Variety. Variety returns
// 0 if there is no such index.
func (sn *Snapshot) Variety(index string) uint64 {
	if x := sn.byteIndex(index); x != nil {
		return x.variety
	}
	return 0
}

func (sn *Snapshot) byteIndex(index string) *valueIndex {
	for i := range sn.byteIndexes {
		if sn.byteIndexes[i].name == index {
			return &sn.byteIndexes[i]
		}
	}
	return nil
}
