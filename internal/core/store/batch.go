package store

import (
	"hash/maphash"
	"sync"

	"github.com/weirproject/weir/internal/core/views"
	"github.com/weirproject/weir/internal/core/wire"
)

// batch is the set of changes that the writers have prepared: at most one change for each key, and
// at most batchChanges. The writers do all slow work (packing, reading index values, comparing with
// the version in the table) before they lock Store.mu. Store.writing guards the batch. The batch is
// prepared for one set of indexes, so AddIndex and DropIndex apply it before they change the set. A
// store has a batch only while a change is buffered.
type batch struct {
	list     []pending
	keys     map[string]struct{}
	listed   bool // at least one change comes from a replace
	queue    packQueue
	ops      []indexOp
	arena    []byte // the values of ops
	records  []Change
	woken    []*Cursor // the cursors that the records wake
	notified []any     // scratch for signal; empty otherwise

	// Scratch memory.
	spans  []span
	values [][]byte
	meta   wire.Meta
	raw    []byte
}

// The store flushes a batch that has batchChanges changes, or batchBytes bytes.
const (
	batchChanges = 128
	batchBytes   = 256 << 10
)

// pending is one change of a key, from version before to version object. before is the version in
// the table, or nil. If object is nil, the change removes the writer's owner from before.
type pending struct {
	writer         *Writer
	key            string
	before, object *Object
	value          *decodedBox // the decoded object, or nil if the caller did not pass it
	end            uint64      // if object is nil: the resourceVersion of the deletion
	missed         bool        // if object is nil: the source did not report the deletion
	// late is set if object is nil and the source has already reported end or a higher version.
	late      bool
	coalesced uint64  // if object is nil: see Writer.Coalesced
	final     *Object // if object is nil: the state that the deletion reported, or nil
	hash      uint64  // the hash of object's index values
	from, to  int     // the range of its index changes in ops
}

// span is one value of one index: the bytes arena[from:to].
type span struct{ index, from, to int }

type indexOp struct {
	span
	add bool
}

// batches pools the batches of all stores between uses.
var batches = sync.Pool{New: func() any { return &batch{keys: map[string]struct{}{}} }}

func (b *batch) empty() bool { return b == nil || len(b.list) == 0 }

func (b *batch) full() bool { return len(b.list) >= batchChanges || len(b.queue.raws) >= batchBytes }

func (b *batch) has(key []byte) bool {
	if b.empty() {
		return false
	}
	_, ok := b.keys[string(key)]
	return ok
}

func (b *batch) add(p *pending) {
	b.keys[p.key] = struct{}{}
	b.list = append(b.list, *p)
	b.listed = b.listed || p.writer.replacing
}

// drop discards the index changes of p, which will not be added to the batch.
func (b *batch) drop(p *pending) { b.ops = b.ops[:p.from] }

var hashSeed = maphash.MakeSeed()

// index prepares the index changes from p.before to the object with metadata m, and sets p.hash to
// the hash of the object's values. If p.before has the same hash, its values are the same, and
// index does not unpack it.
func (b *batch) index(s *Store, p *pending, m *wire.Meta, raw []byte) error {
	mark := b.beginIndex(p)
	set := s.byteIndexes
	if len(set.indexes) == 0 {
		return nil
	}
	if err := b.read(set, m, raw); err != nil {
		return err
	}
	b.endIndex(set, p, mark)
	return nil
}

// indexAgain does the same as index for p.object, which is already packed or stored as a value.
func (b *batch) indexAgain(s *Store, p *pending) {
	mark := b.beginIndex(p)
	if set := s.byteIndexes; len(set.indexes) > 0 {
		b.readHeld(set, p.object)
		b.endIndex(set, p, mark)
	}
	p.object.indexed = p.hash
}

func (b *batch) beginIndex(p *pending) (mark int) {
	p.from, p.to, p.hash = len(b.ops), len(b.ops), 0
	b.spans = b.spans[:0]
	return len(b.arena)
}

// endIndex adds the index changes from p.before's values to the values in b.spans.
func (b *batch) endIndex(set *byteIndexSet, p *pending, mark int) {
	p.hash = b.hash(set)
	if p.before != nil && p.before.indexed == p.hash {
		b.arena = b.arena[:mark]
		return
	}
	fresh := len(b.spans)
	if p.before != nil {
		b.readHeld(set, p.before)
	}
	b.diff(b.spans[:fresh], b.spans[fresh:], true)
	b.diff(b.spans[fresh:], b.spans[:fresh], false)
	p.to = len(b.ops)
}

// unindex prepares the index changes for the removal of p.before.
func (b *batch) unindex(s *Store, p *pending) {
	set := s.byteIndexes
	p.from, p.to = len(b.ops), len(b.ops)
	if len(set.indexes) == 0 {
		return
	}
	b.spans = b.spans[:0]
	b.readHeld(set, p.before)
	b.diff(b.spans, nil, false)
	p.to = len(b.ops)
}

// read appends an object's values in all indexes to b.spans.
func (b *batch) read(set *byteIndexSet, m *wire.Meta, raw []byte) (err error) {
	for i, x := range set.indexes {
		b.values, err = x.source.values(b.values[:0], m, raw)
		if err != nil {
			return err
		}
		b.note(i)
	}
	return nil
}

// readHeld appends the values of an object of the table to b.spans. It cannot fail: all indexes
// have read the object before.
func (b *batch) readHeld(set *byteIndexSet, o *Object) {
	var raw []byte
	var err error
	if !o.layout.isValue {
		raw, err = o.Meta(&b.meta, b.raw)
	}
	for i := 0; err == nil && i < len(set.indexes); i++ {
		if b.values, err = set.indexes[i].source.heldValues(b.values[:0], o, &b.meta, raw); err == nil {
			b.note(i)
		}
	}
	if raw != nil {
		b.raw = raw
	}
	if cap(b.raw) > maxScratch {
		b.raw = nil
	}
}

// note copies b.values, the values of the index at a position in the set, to the arena, and their
// ranges to b.spans.
func (b *batch) note(index int) {
	for _, v := range b.values {
		from := len(b.arena)
		b.arena = append(b.arena, v...)
		b.spans = append(b.spans, span{index, from, len(b.arena)})
	}
}

// hash returns the hash of the values in b.spans. Equal values have different hashes for different
// sets of indexes.
func (b *batch) hash(set *byteIndexSet) uint64 {
	var h maphash.Hash
	h.SetSeed(hashSeed)
	maphash.WriteComparable(&h, set.number)
	for _, sp := range b.spans {
		maphash.WriteComparable(&h, [2]int{sp.index, sp.to - sp.from})
		_, _ = h.Write(b.arena[sp.from:sp.to])
	}
	return h.Sum64()
}

// diff appends an index change for each value of spans that is not in others.
func (b *batch) diff(spans, others []span, add bool) {
next:
	for _, sp := range spans {
		for _, other := range others {
			if sp.index == other.index && string(b.arena[sp.from:sp.to]) == string(b.arena[other.from:other.to]) {
				continue next
			}
		}
		b.ops = append(b.ops, indexOp{sp, add})
	}
}

// applyOps applies the index changes of p. The caller holds the store's lock.
func (b *batch) applyOps(s *Store, p *pending) {
	for _, op := range b.ops[p.from:p.to] {
		value := views.String(b.arena[op.span.from:op.span.to])
		if x := s.byteIndexes.indexes[op.index]; op.add {
			x.add(value, p.key)
		} else {
			x.remove(value, p.key)
		}
	}
}

// publishValues stores the decoded values that callers passed to PutAs with their versions, so that
// handlers need not decode these. If the store has no handler, it drops the values. The caller
// holds the store's lock.
func (b *batch) publishValues(s *Store) {
	handled := s.log.handlers.Load() > 0
	for i := range b.list {
		switch p := &b.list[i]; {
		case !handled:
			p.value = nil
		case p.value != nil:
			p.value = s.publish(p.object, p.value)
		}
	}
}

// keepValues makes the log keep the values that publishValues has stored. The log must already
// contain the changes.
func (b *batch) keepValues(s *Store) {
	for i := range b.list {
		if p := &b.list[i]; p.value != nil {
			s.log.keepValues(&Change{Revision: p.object.revision, New: p.object}, nil, p.value)
		}
	}
}

// release empties the batch and returns it to the pool. The batch keeps its buffers, but no
// reference to the store.
func (b *batch) release() {
	clear(b.list)
	clear(b.keys)
	clear(b.records)
	clear(b.woken)
	clear(b.values[:cap(b.values)])
	b.list, b.listed, b.meta = b.list[:0], false, wire.Meta{}
	b.records, b.woken = b.records[:0], b.woken[:0]
	b.ops, b.arena = b.ops[:0], b.arena[:0]
	if cap(b.arena) > maxScratch {
		b.arena = nil
	}
	batches.Put(b)
}
