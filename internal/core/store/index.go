package store

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/weirproject/weir/internal/core/views"
	"github.com/weirproject/weir/internal/core/wire"
)

// Index describes how objects are indexed. LabelIndex, LabelSetIndex, FieldIndex and FuncIndex
// return one. The zero value indexes nothing.
type Index struct {
	label string
	sets  bool
	path  *wire.Path
	fn    func(decoded any) ([]string, error)
}

// LabelIndex returns an index by the value of a label. Objects without the label are not in it. The
// writer updates it from the objects' bytes.
func LabelIndex(label string) Index { return Index{label: label} }

// LabelSetIndex returns an index by all labels together, as wire.Meta's LabelSet writes them.
// Objects without labels have the empty set. The objects of a workload have the same labels, so
// there are usually few sets. A label selector must be evaluated only once for each set. The writer
// updates the index from the objects' bytes.
func LabelSetIndex() Index { return Index{sets: true} }

// FieldIndex returns an index by the values of a field path. p must be compiled for the store's
// encoding. The writer updates the index from the objects' bytes.
func FieldIndex(p *wire.Path) Index { return Index{path: p} }

// FuncIndex returns an index by the values that f returns for a decoded object. f must not modify
// or retain the object, and must not query any index by function of the same store.
//
// The writer does not update this index. The first query calls f for all objects, and a later query
// for the objects that have changed since the last query. If Derive has already called f for a
// version, the query does not call f again. While a query calls f, other queries of the index wait.
// Several goroutines decode the objects if there are many, but only one goroutine at a time calls
// f.
//
// A query returns the state of its snapshot. The index only moves forward. A query of a snapshot
// that is older than the index reads all objects of the snapshot. It calls f for the objects that
// have changed since the snapshot. Store.AppendBy never queries an older snapshot.
//
// If f fails or panics for an object, queries return the other objects and an *IndexError, until
// that object changes. An object that cannot be decoded is in no index by function, but causes no
// error.
func FuncIndex(f func(decoded any) ([]string, error)) Index { return Index{fn: f} }

// values appends to dst the values under which the index contains an object. They are valid until
// the next call with m.
func (ix Index) values(dst [][]byte, m *wire.Meta, raw []byte) ([][]byte, error) {
	if ix.path != nil {
		return ix.path.Append(dst, raw)
	}
	if ix.sets {
		return append(dst, m.LabelSet()), nil
	}
	if ix.label != "" {
		if v, ok := m.Label(ix.label); ok {
			dst = append(dst, v)
		}
	}
	return dst, nil
}

// heldValues does what values does for a stored object. An object that is stored as a Go value has
// no values in an index by field.
func (ix Index) heldValues(dst [][]byte, o *Object, m *wire.Meta, raw []byte) ([][]byte, error) {
	if !o.layout.isValue {
		return ix.values(dst, m, raw)
	}
	if ix.sets {
		return append(dst, wire.LabelSetOf(o.layout.labels)), nil
	}
	if v, ok := o.layout.labels[ix.label]; ok && ix.label != "" {
		dst = append(dst, []byte(v))
	}
	return dst, nil
}

// byteIndexSet is the immutable list of the indexes that writers update. number identifies the
// list; the hash of an object's index values depends on it.
type byteIndexSet struct {
	number  uint64
	indexes []*byteIndex
}

// find returns the position of an index, or a negative number if there is none of that name.
func (set *byteIndexSet) find(name string) int {
	return slices.IndexFunc(set.indexes, func(x *byteIndex) bool { return x.name == name })
}

// indexKey is an entry of an index: ordered by value, then by the object's key.
type indexKey struct{ value, key string }

func compareIndexKeys(a, b indexKey) int {
	if c := strings.Compare(a.value, b.value); c != 0 {
		return c
	}
	return strings.Compare(a.key, b.key)
}

// valueIndex contains the entries of an index. Entries with the same value share the value's
// string, and an entry shares the string of its object's key with the object.
type valueIndex struct {
	name    string
	entries tree[indexKey, struct{}]
	bytes   int64  // of the values
	variety uint64 // see Snapshot.Variety
}

// byteIndex is an index that the writers update. The store's lock guards it.
type byteIndex struct {
	valueIndex
	source Index
}

// varieties counts, over all indexes of the process, how often an index was created, got a new
// value, or lost its last entry with a value.
var varieties atomic.Uint64

func newValueIndex(name string) valueIndex {
	return valueIndex{name: name, entries: tree[indexKey, struct{}]{cmp: compareIndexKeys}, variety: varieties.Add(1)}
}

// freeze returns an immutable copy.
func (x *valueIndex) freeze() valueIndex {
	frozen := *x
	frozen.entries = x.entries.freeze()
	return frozen
}

// add adds an entry. It returns the index's own string for value, which is a copy if value is new
// in the index.
func (x *valueIndex) add(value, key string) string {
	own, ok := x.first(value)
	if !ok || own != value {
		own = strings.Clone(value)
		x.bytes += int64(len(own))
		x.variety = varieties.Add(1)
	}
	x.entries.set(indexKey{own, key}, struct{}{})
	return own
}

func (x *valueIndex) remove(value, key string) {
	if !x.entries.delete(indexKey{value, key}) {
		return
	}
	if left, ok := x.first(value); !ok || left != value {
		x.bytes -= int64(len(value))
		x.variety = varieties.Add(1)
	}
}

func (x *valueIndex) footprint() int64 { return x.entries.footprint(32) + x.bytes }

// each yields the keys of the objects under value, in order, starting with the first key that is
// not below key.
func (x *valueIndex) each(value, key string, yield func(key string) bool) {
	x.entries.ascend(indexKey{value, key}, func(k indexKey, _ struct{}) bool {
		return k.value == value && yield(k.key)
	})
}

// first returns the lowest value that is not below the argument from. ok is false if there is none.
func (x *valueIndex) first(from string) (value string, ok bool) {
	x.entries.ascend(indexKey{value: from}, func(k indexKey, _ struct{}) bool {
		value, ok = k.value, true
		return false
	})
	return value, ok
}

// eachValue yields the distinct values. It reads only one entry of each value.
func (x *valueIndex) eachValue(yield func(string) bool) {
	for v, ok := x.first(""); ok && yield(v); v, ok = x.first(v + "\x00") {
	}
}

func unknownIndex(name string) error { return fmt.Errorf("index %q: %w", name, ErrUnknownIndex) }

// indexOps contains the entries that a batch adds to the byte indexes and removes from them.
type indexOps struct {
	list  []indexOp
	arena []byte // the values of list

	// Scratch memory.
	spans  []span
	values [][]byte
	object scratch
}

// span is one value of one index: the bytes arena[from:to].
type span struct{ index, from, to int }

type indexOp struct {
	span
	add bool
}

var hashSeed = maphash.MakeSeed()

// prepare prepares the index changes of p. m and raw are the metadata and the bytes of the new
// version. If m is nil, prepare reads the new version, which is then already packed or a Go value.
//
// If both versions have the same hash of their values, the values are the same, and prepare does
// not unpack the old version.
func (x *indexOps) prepare(set *byteIndexSet, p *pending, m *wire.Meta, raw []byte) (err error) {
	p.from, p.to = len(x.list), len(x.list)
	if len(set.indexes) == 0 {
		return nil
	}
	x.spans = x.spans[:0]
	mark := len(x.arena)
	if m != nil {
		err = x.read(set, m, raw)
	} else if p.New != nil {
		_ = x.readHeld(set, p.New) // a version that an index cannot read is not in that index
	}
	if err != nil {
		return err
	}
	hash, fresh := x.hash(set), len(x.spans)
	if p.New != nil {
		p.New.indexed = hash
	}
	if p.Old != nil && p.Old.indexed == hash {
		x.arena = x.arena[:mark]
		return nil
	}
	if p.Old != nil {
		_ = x.readHeld(set, p.Old) // cannot fail, because all indexes have already read this version
	}
	x.diff(x.spans[:fresh], x.spans[fresh:], true)
	x.diff(x.spans[fresh:], x.spans[:fresh], false)
	p.to = len(x.list)
	return nil
}

// read appends an object's values in all indexes to x.spans.
func (x *indexOps) read(set *byteIndexSet, m *wire.Meta, raw []byte) (err error) {
	for i, index := range set.indexes {
		if x.values, err = index.source.values(x.values[:0], m, raw); err != nil {
			return err
		}
		x.note(i)
	}
	return nil
}

// readHeld appends the values of a packed object, or of a value, in all indexes to x.spans.
func (x *indexOps) readHeld(set *byteIndexSet, o *Object) (err error) {
	sc := &x.object
	if !o.layout.isValue {
		if sc.raw, err = o.Meta(&sc.meta, sc.raw); err != nil {
			return err
		}
	}
	for i, index := range set.indexes {
		if x.values, err = index.source.heldValues(x.values[:0], o, &sc.meta, sc.raw); err != nil {
			return err
		}
		x.note(i)
	}
	return nil
}

// note copies x.values to the arena, and appends their ranges to x.spans. index is the position of
// their index in the set.
func (x *indexOps) note(index int) {
	for _, v := range x.values {
		from := len(x.arena)
		x.arena = append(x.arena, v...)
		x.spans = append(x.spans, span{index, from, len(x.arena)})
	}
}

// hash returns the hash of the values in x.spans. The hash also depends on the set of indexes, so
// equal values have different hashes in different sets.
func (x *indexOps) hash(set *byteIndexSet) uint64 {
	var h maphash.Hash
	h.SetSeed(hashSeed)
	maphash.WriteComparable(&h, set.number)
	for _, sp := range x.spans {
		maphash.WriteComparable(&h, [2]int{sp.index, sp.to - sp.from})
		_, _ = h.Write(x.arena[sp.from:sp.to])
	}
	return h.Sum64()
}

// diff appends an index change for each value of spans that is not in others.
func (x *indexOps) diff(spans, others []span, add bool) {
	for _, sp := range spans {
		among := slices.ContainsFunc(others, func(other span) bool { return sp.index == other.index && x.text(sp) == x.text(other) })
		if !among {
			x.list = append(x.list, indexOp{sp, add})
		}
	}
}

// text returns the value of a span. It is valid until reset.
func (x *indexOps) text(sp span) string { return views.String(x.arena[sp.from:sp.to]) }

// apply applies the index changes of p. The caller holds the store's lock.
func (x *indexOps) apply(set *byteIndexSet, p *pending) {
	for _, op := range x.list[p.from:p.to] {
		if index := set.indexes[op.index]; op.add {
			index.add(x.text(op.span), p.Key())
		} else {
			index.remove(x.text(op.span), p.Key())
		}
	}
}

// reset removes all changes. It keeps the buffers, but no reference to an object.
func (x *indexOps) reset() {
	clear(x.values[:cap(x.values)])
	x.object.meta = wire.Meta{}
	x.list, x.arena = x.list[:0], x.arena[:0]
	if cap(x.arena) > maxScratch {
		x.arena = nil
	}
	if cap(x.object.raw) > maxScratch {
		x.object.raw = nil
	}
}

// IndexError reports that the function of an index failed for an object, or that AddIndex could not
// read an object.
type IndexError struct {
	Index, Key string
	More       int // the number of other objects with an error
	Err        error
}

// Error names the index and the object's key.
func (e *IndexError) Error() string {
	if e.More > 0 {
		return fmt.Sprintf("index %q: object %s (and %d more): %v", e.Index, e.Key, e.More, e.Err)
	}
	return fmt.Sprintf("index %q: object %s: %v", e.Index, e.Key, e.Err)
}

// Unwrap returns the error of the function or the decoder.
func (e *IndexError) Unwrap() error { return e.Err }
