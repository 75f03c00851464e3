package store

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// A second goroutine is worth it when packApart objects wait to be packed, and
// they come faster than one each packTime, about what packing takes: to wake a
// goroutine for a trickle costs more than it brings.
const (
	packApart = 8
	packTime  = 10 * time.Microsecond
	// At hurryTime an object or less, packing well would take what CPU a cursor
	// that has fallen behind needs to catch up.
	hurryTime = 100 * time.Microsecond
	// hurryLasts is how long they are packed quickly after that.
	hurryLasts = time.Second
)

// stage holds the objects of a batch that are to be packed, which is most of the
// work of taking them in. The writer packs them when it flushes the batch. When
// they come faster than that, a second goroutine packs while the batch still
// fills. It ends when nothing is left to pack, and never outlives the batch.
type stage struct {
	raws    []byte    // of the objects, each with its odd texts behind it
	began   time.Time // when the first of them came
	hurry   bool      // pack them quickly rather than well
	jobs    [batchChanges]job
	put     atomic.Int32 // so many jobs are there,
	taken   atomic.Int32 // and so many of those have somebody who packs them
	apart   sync.WaitGroup
	running atomic.Bool // the second goroutine
	scratch [2][]byte
}

// job is one object to pack.
type job struct {
	object   *Object
	raw, odd []byte // odd is the texts that stay as they are
}

// add keeps an object's bytes, in which its uid is this text, until they are packed.
func (st *stage) add(gs *generations, o *Object, raw, uid []byte, id *identity) {
	// Should raws grow into other memory, the jobs there are keep what they have.
	from := len(st.raws)
	st.raws = o.cutUID(st.raws, raw, uid)
	odd := len(st.raws)
	st.raws = append(append(st.raws, id.uidText...), id.rvText...)
	n := st.put.Load()
	if n == 0 {
		st.began = time.Now()
	}
	st.jobs[n] = job{o, st.raws[from:odd:odd], st.raws[odd:]}
	st.put.Store(n + 1)
	if n+1-st.taken.Load() >= packApart && !st.running.Load() && time.Since(st.began) < time.Duration(n)*packTime {
		st.running.Store(true)
		st.apart.Go(func() {
			st.work(gs, &st.scratch[1])
			st.running.Store(false)
		})
	}
}

// isFast reports whether the objects have come hurryTime apart or less.
func (st *stage) isFast() bool {
	n := st.put.Load()
	return n >= packApart && time.Since(st.began) < time.Duration(n)*hurryTime
}

// work packs until every job is taken.
func (st *stage) work(gs *generations, scratch *[]byte) {
	for {
		i := st.taken.Load()
		if i >= st.put.Load() {
			return
		}
		if st.taken.CompareAndSwap(i, i+1) {
			st.jobs[i].pack(gs, scratch, st.hurry)
		}
	}
}

func (j *job) pack(gs *generations, scratch *[]byte, hurry bool) {
	packed, gen := gs.pack((*scratch)[:0], j.raw, hurry)
	packed = append(packed, j.odd...)
	j.object.packed, j.object.gen = string(packed), gen
	if *scratch = packed; cap(packed) > maxScratch {
		*scratch = nil
	}
}

// pack packs what is left, and waits for what the second goroutine still packs.
func (b *batch) pack(gs *generations) {
	st := &b.stage
	st.work(gs, &st.scratch[0])
	st.apart.Wait()
	jobs := st.jobs[:st.put.Load()]
	for i := range jobs {
		j := &jobs[i]
		if gs.observe(j.object.gen, j.raw, len(j.object.packed)-len(j.odd), st.hurry) {
			b.repack(gs)
		}
	}
	clear(jobs)
	st.put.Store(0)
	st.taken.Store(0)
	if st.raws = st.raws[:0]; cap(st.raws) > 2*batchBytes {
		st.raws = nil
	}
}

// repack packs what is held as it came, because there was no dictionary yet.
func (b *batch) repack(gs *generations) {
	for i := range b.list {
		o := b.list[i].object
		if o == nil || o.size == 0 || o.gen.packer != nil {
			continue
		}
		body, uid, rv := o.tail()
		var packed []byte
		packed, o.gen = gs.pack(nil, unsafe.Slice(unsafe.StringData(body), len(body)), false)
		o.packed = string(packed) + uid + rv
	}
}
