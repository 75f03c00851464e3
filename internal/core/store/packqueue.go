package store

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/internal/core/pack"
	"github.com/weirproject/weir/internal/core/views"
)

// A second goroutine helps to pack when packApart objects wait and arrive faster than one per
// packTime, which is about the time to pack one object. To start it for fewer objects costs more
// time than it saves.
const (
	packApart = 8
	packTime  = 10 * time.Microsecond
	// fastTime is the mean time between two objects below which they count as frequent. The store
	// patches frequent objects instead of packing them.
	fastTime = 100 * time.Microsecond
	// fastLasts is how long the store patches objects after they were frequent.
	fastLasts = time.Second
)

// packQueue contains the objects of a batch that are not packed yet, at most batchChanges of them.
// Packing is most of the work of putting objects. The writer packs when it flushes the batch. When
// objects arrive faster than one goroutine packs, a second goroutine packs while the batch still
// fills. It ends when no object is left to pack, and batch.pack waits for it.
type packQueue struct {
	raws    []byte    // the bytes of the objects, each followed by its opaque texts
	began   time.Time // when the first of them was added
	patches bool      // patch the previous version instead of packing
	jobs    [batchChanges]packJob
	added   atomic.Int32 // number of jobs
	taken   atomic.Int32 // number of jobs that a goroutine has taken
	apart   sync.WaitGroup
	running atomic.Bool // the second goroutine runs
	scratch [2][]byte
}

// packJob is one object to pack.
type packJob struct {
	object      *Object
	before      *Object // the version to patch, or nil
	raw, opaque []byte  // opaque is the opaque texts, which are not packed
}

// add copies an object's bytes until they are packed. before is the version in the table, or nil.
// uid is the text of the uid in raw.
func (q *packQueue) add(s *Store, o, before *Object, raw, uid []byte, id *identity) {
	// If raws grows into new memory, earlier jobs keep referring to the old memory.
	from := len(q.raws)
	q.raws = o.cutUID(q.raws, raw, uid)
	opaque := len(q.raws)
	q.raws = append(append(q.raws, id.uidText...), id.rvText...)
	n := q.added.Load()
	if n == 0 {
		q.began = time.Now()
	}
	if before != nil && !(q.patches && before.isPatchable()) {
		before = nil
	}
	q.jobs[n] = packJob{o, before, q.raws[from:opaque:opaque], q.raws[opaque:]}
	q.added.Store(n + 1)
	if n+1-q.taken.Load() >= packApart && !q.running.Load() && time.Since(q.began) < time.Duration(n)*packTime {
		q.running.Store(true)
		q.apart.Go(func() {
			q.work(s, &q.scratch[1])
			q.running.Store(false)
		})
	}
}

// comesFast reports whether the mean time between the objects is at most fastTime.
func (q *packQueue) comesFast() bool {
	n := q.added.Load()
	return n >= packApart && time.Since(q.began) < time.Duration(n)*fastTime
}

// work packs until every job is taken.
func (q *packQueue) work(s *Store, scratch *[]byte) {
	for {
		i := q.taken.Load()
		if i >= q.added.Load() {
			return
		}
		if q.taken.CompareAndSwap(i, i+1) {
			q.jobs[i].pack(s, scratch)
		}
	}
}

func (j *packJob) pack(s *Store, scratch *[]byte) {
	if j.before != nil && j.patch(scratch) {
		return
	}
	packed, layout := s.packSibling((*scratch)[:0], j.raw, j.object.key)
	n := len(packed)
	packed = append(packed, j.opaque...)
	j.object.packed, j.object.layout = string(packed), layout
	if name, ok := nameOf(j.object.key); ok {
		s.packer.Note(name, layout.dict, j.object.packed[:n], len(j.raw))
	}
	if *scratch = packed; cap(packed) > maxScratch {
		*scratch = nil
	}
}

// A patch uses at most half of the packed bytes that it applies to, or patchBytes if that is more.
// If it would be larger, the object is packed instead.
const patchBytes = 384

// isPatchable reports whether the next version can be stored as a patch of this version's packed
// bytes.
func (o *Object) isPatchable() bool {
	return o.layout.dict != nil && o.baseSize() <= pack.MaxPatched
}

// patch stores the object as a patch. It returns false if the patch would be too large.
func (j *packJob) patch(scratch *[]byte) bool {
	buf := baseBuffers.Get().(*baseBuffer)
	defer baseBuffers.Put(buf)
	base, err := buf.unpack(j.before)
	if err != nil {
		return false
	}
	packed, _ := j.before.parts()
	out, ok := pack.AppendPatch(append((*scratch)[:0], packed...), base, j.raw, max(patchBytes, len(packed)/2))
	*scratch = out
	if !ok {
		return false
	}
	j.object.patched, j.object.based = uint16(len(out)-len(packed)), uint16(len(base))
	*scratch = append(out, j.opaque...)
	j.object.packed, j.object.layout = string(*scratch), j.before.layout
	return true
}

// pack packs the remaining objects, and blocks until the second goroutine has ended.
func (b *batch) pack(s *Store) {
	q := &b.queue
	q.work(s, &q.scratch[0])
	q.apart.Wait()
	jobs := q.jobs[:q.added.Load()]
	for i := range jobs {
		if s.packer.Observe(jobs[i].raw) {
			b.repack(s)
		}
	}
	clear(jobs)
	q.added.Store(0)
	q.taken.Store(0)
	if q.raws = q.raws[:0]; cap(q.raws) > 2*batchBytes {
		q.raws = nil
	}
}

// repack packs the objects of the batch that are stored as received because there was no dictionary
// yet.
func (b *batch) repack(s *Store) {
	for i := range b.list {
		o := b.list[i].object
		if o == nil || o.size == 0 || o.layout.dict != nil {
			continue
		}
		body, uid, rv := o.tail()
		var packed []byte
		packed, o.layout = s.pack(nil, views.Bytes(body))
		o.packed = string(packed) + uid + rv
	}
}
