package store

import (
	"slices"
	"strings"
)

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

// appendOlder appends the objects under value of a snapshot that is older than the index, in key
// order. The index does not go back. So appendOlder calls the function for the versions that have
// changed or gone since, and where these are not known any more looks at all objects.
func (x *funcIndex) appendOlder(objects []*Object, sn *Snapshot, value string) ([]*Object, error) {
	begin := len(objects)
	visit := func(o *Object, values []string) {
		if slices.Contains(values, value) {
			objects = append(objects, o)
		}
	}
	moved, ok := x.history.after(sn.revision)
	if !ok {
		err := x.eachOlder(sn, visit)
		return objects, err
	}
	x.entries.ascend(indexKey{value: value}, func(k indexKey, _ int32) bool {
		if k.value != value {
			return false
		}
		if _, ok := slices.BinarySearch(moved, k.key); !ok {
			o, _ := sn.table.get(k.key)
			objects = append(objects, o)
		}
		return true
	})
	var fails olderFailures
	for _, key := range moved {
		if o, ok := sn.table.get(key); ok {
			x.visitOlder(o, visit, &fails)
		}
	}
	for key, f := range x.failed { // as it did when the snapshot was taken, unless it is among moved
		if _, ok := slices.BinarySearch(moved, key); !ok && !f.undecoded {
			fails.add(key, f.err)
		}
	}
	slices.SortFunc(objects[begin:], func(a, b *Object) int { return strings.Compare(a.key, b.key) })
	return objects, fails.err(x)
}

// eachOlder calls visit for all objects of a snapshot that is older than the index, in key order,
// with their values. It returns an *IndexError if the function failed for some of them.
func (x *funcIndex) eachOlder(sn *Snapshot, visit func(o *Object, values []string)) error {
	var fails olderFailures
	for o := range sn.All() {
		x.visitOlder(o, visit, &fails)
	}
	return fails.err(x)
}

func (x *funcIndex) visitOlder(o *Object, visit func(o *Object, values []string), fails *olderFailures) {
	if e := x.byKey[o.key]; e != nil && e.revision == o.revision {
		visit(o, e.values)
		return
	}
	switch values, fail := x.call(o); {
	case fail.err == nil:
		visit(o, values)
	case !fail.undecoded:
		fails.add(o.key, fail.err)
	}
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
