package store

import (
	"maps"
	"slices"
	"strings"
)

// build derives everything anew from sn, and collects what has changed since sn.
func (x *funcIndex) build(sn *Snapshot) {
	x.s.mu.Lock()
	x.s.log.collect(&x.dirty)
	current := x.s.snapshotLocked()
	x.s.mu.Unlock()
	x.upTo, x.later = sn.revision, differences(sn, current)
	x.byKey, x.bytes, x.failed = make(map[string]*funcEntry, sn.Len()), 0, make(map[string]funcFailure)
	x.versions.reset(sn.Len())
	made := funcValues{}
	take := func(o *Object, values []string) {
		e := x.learn(o)
		e.values = make([]string, 0, len(values))
		for _, v := range values {
			e.values = append(e.values, made.add(v, o.key, e.number))
		}
		x.bytes += e.footprint()
	}
	var rest []*Object
	for o := range sn.All() {
		if values, ok := x.derived.take(o); ok {
			take(o, values)
		} else {
			rest = append(rest, o)
		}
	}
	decodeEach(rest, func(o *Object, decoded any, err error) {
		values, fail := x.callWith(decoded, err)
		if fail.err != nil {
			x.failed[o.key] = fail
			return
		}
		take(o, values)
	})
	x.entries = made.tree()
}

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
