package store

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/internal/core/pack"
)

// batch is the set of changes that the writers have prepared: at most one change for each key, and
// at most batchChanges, or all changes of a relist (see hold). The writers do all slow work
// (packing, reading index values, comparing with the version in the table) before they lock
// Store.mu. Store.writing guards the batch. The batch is prepared for one set of indexes, so
// AddIndex and DropIndex apply it before they change the set. While no change is buffered, the
// store has no batch.
//
// Packing is most of the work of putting objects. The writer packs when it flushes the batch. If
// objects arrive faster than one goroutine can pack them, a second goroutine already packs while
// writers add further objects. The second goroutine ends when no object is left to pack, and pack
// waits for its end.
type batch struct {
	list     []pending // the capacity is batchChanges, so append never moves an element
	keys     map[string]struct{}
	listed   bool // at least one change comes from a replace
	whole    bool // see hold
	index    indexOps
	records  []Change  // the changes of list for the log
	woken    []*Cursor // the cursors that the records wake
	notified []any     // scratch for signal; empty otherwise

	raws     []byte // the bytes of the unpacked objects
	unpacked [batchChanges]*pending
	began    time.Time    // when the first object of unpacked was added
	patches  bool         // patch the previous version instead of packing
	added    atomic.Int32 // number of objects in unpacked
	taken    atomic.Int32 // number of objects of unpacked that a goroutine has taken
	apart    sync.WaitGroup
	running  atomic.Bool // the second goroutine runs
	scratch  [2][]byte
}

const (
	// The store flushes a batch that has batchChanges changes, or batchBytes bytes.
	batchChanges = 128
	batchBytes   = 256 << 10
	// A second goroutine helps to pack if packApart objects wait, and objects arrive faster than one
	// per packTime. packTime is about the time to pack one object. For fewer objects, starting the
	// goroutine would cost more time than it saves.
	packApart = 8
	packTime  = 10 * time.Microsecond
	// Objects count as frequent if the mean time between two consecutive objects is below fastTime.
	// The store patches frequent objects instead of packing them.
	fastTime = 100 * time.Microsecond
	// The store patches objects until fastLasts after the last time when they were frequent.
	fastLasts = time.Second
	// The maximum size of a patch is half of the packed bytes to which the patch applies, or
	// patchBytes if that is more. If the patch would be larger, the object is packed instead.
	patchBytes = 384
)

// pending is a change that a writer has prepared. Old is the version in the table. If New is nil,
// the change removes the writer's owner from Old. Then the log receives the change only if Old has
// no other owner. Revision and Awaited are set when the batch is applied.
type pending struct {
	Change
	writer    *Writer
	raw       []byte      // New's bytes until they are packed, without a uid that was cut out
	value     *decodedBox // New's decoded value, or nil if the caller did not pass it
	late      bool        // a deletion whose version, or a higher one, the source has already reported
	coalesced uint64      // of a deletion: see Writer.Coalesced
	from, to  int         // the range of its index changes
}

// batches pools the batches of all stores between uses.
var batches = sync.Pool{New: func() any {
	return &batch{list: make([]pending, 0, batchChanges), keys: map[string]struct{}{}}
}}

func (b *batch) empty() bool { return b == nil || len(b.list) == 0 }

func (b *batch) full() bool {
	return !b.whole && (len(b.list) >= batchChanges || len(b.raws) >= batchBytes)
}

// hold makes the batch take n changes of a relist, however many, without being full. They need no
// packing, and each of them has a different key.
func (b *batch) hold(n int) {
	b.whole = true
	b.list = slices.Grow(b.list, n)
}

func (b *batch) has(key []byte) bool {
	if b.empty() {
		return false
	}
	_, ok := b.keys[string(key)]
	return ok
}

// add adds a change, and returns its place in the list.
func (b *batch) add(p *pending) *pending {
	if !b.whole {
		b.keys[p.Key()] = struct{}{}
	}
	b.list = append(b.list, *p)
	b.listed = b.listed || p.writer.replacing
	return &b.list[len(b.list)-1]
}

// addUnpacked adds a change whose new version must be packed. It copies the version's bytes. uid is
// the text of the uid in raw.
func (b *batch) addUnpacked(s *Store, change *pending, raw, uid []byte) {
	p := b.add(change)
	// If append moves raws to new memory, earlier changes still refer to the old memory, which keeps
	// their bytes.
	from := len(b.raws)
	b.raws = p.New.cutUID(b.raws, raw, uid)
	p.raw = b.raws[from:len(b.raws):len(b.raws)]
	s.packer.Observe(p.raw)
	n := b.added.Load()
	if n == 0 {
		b.began = time.Now()
	}
	b.unpacked[n] = p
	b.added.Store(n + 1)
	if n+1-b.taken.Load() >= packApart && !b.running.Load() && time.Since(b.began) < time.Duration(n)*packTime {
		b.running.Store(true)
		b.apart.Go(func() {
			b.packNext(s, &b.scratch[1])
			b.running.Store(false)
		})
	}
}

// comesFast reports whether the objects of the batch are frequent; see fastTime.
func (b *batch) comesFast() bool {
	n := b.added.Load()
	return n >= packApart && time.Since(b.began) < time.Duration(n)*fastTime
}

// pack packs the remaining objects, and blocks until the second goroutine has ended.
func (b *batch) pack(s *Store) {
	b.packNext(s, &b.scratch[0])
	b.apart.Wait()
	clear(b.unpacked[:b.added.Load()])
	b.added.Store(0)
	b.taken.Store(0)
	if b.raws = b.raws[:0]; cap(b.raws) > 2*batchBytes {
		b.raws = nil
	}
}

// packNext packs until every object is taken.
func (b *batch) packNext(s *Store, buf *[]byte) {
	for {
		i := b.taken.Load()
		if i >= b.added.Load() {
			return
		}
		if !b.taken.CompareAndSwap(i, i+1) {
			continue
		}
		if p := b.unpacked[i]; !b.patches || !p.patch(buf) {
			p.pack(s, buf)
		}
		if cap(*buf) > maxScratch {
			*buf = nil
		}
	}
}

// pack packs the new version.
func (p *pending) pack(s *Store, buf *[]byte) {
	o, name := p.New, nameOf(p.New.key)
	packed, dict := s.packer.PackSibling((*buf)[:0], p.raw, name)
	n := len(packed)
	*buf = append(packed, o.packed...)
	o.packed, o.layout = string(*buf), s.layoutOf(dict)
	s.packer.Note(name, dict, o.packed[:n], len(p.raw))
}

// patch stores the new version as a patch of the old version's packed bytes. It returns false if
// that is not possible, or the patch would be too large.
func (p *pending) patch(buf *[]byte) bool {
	o, old := p.New, p.Old
	if old == nil || old.layout.dict == nil || old.baseSize() > pack.MaxPatched {
		return false
	}
	sc := scratches.Get().(*scratch)
	defer sc.release()
	base, err := old.unpackBase(sc.raw[:0])
	if err != nil {
		return false
	}
	sc.raw = base
	packed, _ := old.parts()
	out, ok := pack.AppendPatch(append((*buf)[:0], packed...), base, p.raw, max(patchBytes, len(packed)/2))
	*buf = out
	if !ok {
		return false
	}
	o.patched, o.based = uint16(len(out)-len(packed)), uint16(len(base))
	*buf = append(out, o.packed...)
	o.packed, o.layout = string(*buf), old.layout
	return true
}

// packAlone packs a version outside a batch.
func (s *Store) packAlone(o *Object, raw, uid []byte) {
	packed, dict := s.packer.Pack(nil, o.cutUID(nil, raw, uid))
	o.packed, o.layout = string(packed)+o.packed, s.layoutOf(dict)
}

// layoutOf returns the layout of objects that are packed with a dictionary.
func (s *Store) layoutOf(dict *pack.Dictionary) *layout {
	if l := s.layout.Load(); l.dict == dict {
		return l
	}
	l := dict.Attached(func() any { return &layout{cachedDecoder: s.decoder, dict: dict} }).(*layout)
	s.layout.Store(l)
	return l
}

// release notifies the packer that a version has left the table.
func (s *Store) release(o *Object) {
	packed, _, _ := o.tail()
	s.packer.Release(nameOf(o.key), o.layout.dict, packed)
}

// nameOf returns the pack.Name of the object with this key. Objects whose names are the same up to
// the last dash, such as replicas, are a group. If a name has no dash, Group is empty.
func nameOf(key string) pack.Name {
	i := strings.LastIndexByte(key, '-')
	if i <= strings.LastIndexByte(key, '/') {
		return pack.Name{Object: key}
	}
	return pack.Name{Group: key[:i], Object: key}
}

// publishValues attaches to each new version the decoded value that the caller has passed to PutAs.
// So handlers need not decode the version. If the store has no handler, publishValues drops the
// values. The caller holds the store's lock.
func (b *batch) publishValues(s *Store) {
	handled := s.log.handlers.Load() > 0
	for i := range b.list {
		switch p := &b.list[i]; {
		case !handled:
			p.value = nil
		case p.value != nil:
			p.value = s.decoder.cache.publish(p.New, p.value)
		}
	}
}

// keepValues makes the log keep the values that publishValues has stored. The log must already
// contain the changes.
func (b *batch) keepValues(s *Store) {
	for i := range b.list {
		if p := &b.list[i]; p.value != nil {
			s.log.keepValues(&Change{Revision: p.New.revision, New: p.New}, nil, p.value)
		}
	}
}

// release empties the batch and returns it to the pool, unless it has become large. The batch keeps
// its buffers, but no reference to the store.
func (b *batch) release() {
	if b.whole {
		return
	}
	clear(b.list)
	clear(b.keys)
	clear(b.records)
	clear(b.woken)
	b.index.reset()
	b.list, b.listed = b.list[:0], false
	b.records, b.woken = b.records[:0], b.woken[:0]
	batches.Put(b)
}
