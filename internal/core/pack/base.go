package pack

import (
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// maxLoaded limits the bytes of bases that are kept unpacked, with their indexes, until two garbage
// collections find them unused.
const maxLoaded = 192 << 10

// base is the object against which the others of a group are packed.
type base struct {
	cache  *baseCache
	dict   *Dictionary
	packed string
	size   int
	id     uint64
	misses atomic.Int32             // consecutive objects that were not similar to it
	raw    atomic.Pointer[unpacked] // nil: it is not kept unpacked
	used   atomic.Bool              // raw, since the last garbage collection
	// pinned is the number of bytes that only siblings keep. The lock of the groups guards it. It is
	// separate because it is read after the base's end.
	pinned *int
}

// unpacked is a base's bytes, with their index after an object was packed against them.
type unpacked struct {
	bytes []byte
	once  sync.Once
	index *index
}

// loadedBytes returns the bytes that the base uses while it is kept unpacked, including its index.
func (b *base) loadedBytes() int {
	return b.size + int(reflect.TypeFor[unpacked]().Size()+reflect.TypeFor[index]().Size())
}

// unpackSibling appends to dst the object, of size bytes, that was packed against the base.
func (b *base) unpackSibling(dst, packed []byte, size int) ([]byte, error) {
	if len(packed) == 0 || packed[0] != methodSibling {
		return dst, ErrCorrupt
	}
	buf := bases.Get().(*unpacked)
	defer bases.Put(buf)
	of, err := b.unpack(buf, false)
	if err != nil {
		return dst, err
	}
	out, ok := decodeBlock(dst, of.bytes, packed[1:], size)
	if !ok {
		return dst, ErrCorrupt
	}
	return out, nil
}

// bases has memory for bases that are not kept unpacked: each up to maxSibling and an index.
var bases = sync.Pool{New: func() any { return new(unpacked) }}

// unpack returns the base's bytes. They are in buf unless the base is kept unpacked. A base that is
// soon used again, as in key order, is kept until others displace it; hold requests that.
func (b *base) unpack(buf *unpacked, hold bool) (*unpacked, error) {
	if u := b.raw.Load(); u != nil {
		if !b.used.Load() {
			b.used.Store(true)
		}
		return u, nil
	}
	u := buf
	if hold = hold || b.cache.lastUnpacked.has(b.id); hold {
		u = &unpacked{bytes: make([]byte, 0, b.size)}
	} else {
		b.cache.lastUnpacked.add(b.id)
		u.once = sync.Once{}
	}
	raw, err := b.dict.Unpack(u.bytes[:0], b.packed, b.size)
	if err != nil {
		return nil, err
	}
	if u.bytes = raw; hold {
		b.cache.hold(b, u)
	}
	return u, nil
}

// baseCache has the bases that are kept unpacked.
type baseCache struct {
	lastUnpacked recentIDs // bases that were unpacked without being kept

	mu     sync.Mutex
	loaded []*base // oldest first
	bytes  int     // of those
	ages   bool    // a call of age is scheduled
}

// hold keeps a base unpacked, and drops the oldest ones to make room.
func (s *baseCache) hold(b *base, u *unpacked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !b.raw.CompareAndSwap(nil, u) {
		return
	}
	s.lastUnpacked.remove(b.id)
	b.used.Store(true)
	s.loaded = append(s.loaded, b)
	if !s.ages {
		s.ages = true
		s.awaitCollection()
	}
	for s.bytes += b.loadedBytes(); s.bytes > maxLoaded && len(s.loaded) > 1; {
		oldest := s.loaded[0]
		s.loaded = slices.Delete(s.loaded, 0, 1)
		oldest.raw.Store(nil)
		s.bytes -= oldest.loadedBytes()
	}
}

// awaitCollection schedules a call of age after the next garbage collection.
func (s *baseCache) awaitCollection() {
	sentinel := new(struct{ _ *byte }) // with a pointer, so that it shares no memory block
	runtime.AddCleanup(sentinel, (*baseCache).age, s)
}

// age drops the bases that were not used since its last call. It schedules its next call while
// others are kept. So an idle store keeps none unpacked.
func (s *baseCache) age() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loaded = slices.DeleteFunc(s.loaded, func(b *base) bool {
		if b.used.Swap(false) {
			return false
		}
		b.raw.Store(nil)
		s.bytes -= b.loadedBytes()
		return true
	})
	if s.ages = len(s.loaded) > 0; s.ages {
		s.awaitCollection()
	} else {
		s.loaded = nil
	}
}

func (s *baseCache) footprint() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(s.bytes)
}

// recentIDs has the last few numbers that were added, so that the same number of goroutines, each
// at its own place, find what they used before. It is safe for concurrent use. 0 is none.
type recentIDs struct {
	next  atomic.Uint32
	slots [8]atomic.Uint64
}

func (r *recentIDs) has(x uint64) bool { return r.slot(x) != nil }

func (r *recentIDs) slot(x uint64) *atomic.Uint64 {
	for i := range r.slots {
		if r.slots[i].Load() == x {
			return &r.slots[i]
		}
	}
	return nil
}

func (r *recentIDs) add(x uint64) { r.slots[r.next.Add(1)%uint32(len(r.slots))].Store(x) }

func (r *recentIDs) remove(x uint64) {
	if slot := r.slot(x); slot != nil {
		slot.CompareAndSwap(x, 0)
	}
}
