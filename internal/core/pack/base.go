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

const (
	// fastPackAfter is how often a base is unpacked without being kept before it receives a fast pack.
	fastPackAfter = 8
	// maxFastPackBytes limits the bytes of all fast packs of bases.
	maxFastPackBytes = 4 << 20
)

// base is the object against which the others of a group are packed.
type base struct {
	cache  *baseCache
	codes  *codes // of objects packed against it
	dict   *Dictionary
	packed string
	size   int
	id     uint64
	misses atomic.Int32             // consecutive objects that were not similar to it
	raw    atomic.Pointer[unpacked] // nil: it is not kept unpacked
	used   atomic.Bool              // raw, since the last garbage collection
	alone  atomic.Int32             // how often it was unpacked without being kept
	counts *counts
}

// counts are the counters of a base. They are separate from it because they are read after its end.
type counts struct {
	// fastPack is a fast pack of a base that is often unpacked without being kept, for example when
	// its siblings change in random key order. It unpacks in a third of the time. nil: there is none.
	fastPack atomic.Pointer[string]
	pinned   int // bytes that only siblings keep; guarded by the lock of the groups
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
	sc := b.codes.scratch()
	defer b.codes.put(sc)
	if len(packed) == 0 || packed[0] != methodSibling && (packed[0] != methodEntropy || sc.coder == nil) {
		return dst, ErrCorrupt
	}
	of, err := b.unpack(sc, false)
	if err != nil {
		return dst, err
	}
	if packed[0] == methodSibling {
		out, ok := decodeBlock(dst, of.bytes, packed[1:], size)
		if !ok {
			return dst, ErrCorrupt
		}
		return out, nil
	}
	out, err := sc.coder.DecodeAgainst(of.bytes, dst, packed[1:], size)
	if err != nil {
		return dst, ErrCorrupt
	}
	return out, nil
}

// unpack returns the base's bytes, which are valid while the caller has the scratch. A base that is
// soon used again, as in key order, is kept until others displace it; hold requests that.
func (b *base) unpack(sc *siblingScratch, hold bool) (*unpacked, error) {
	if u := b.raw.Load(); u != nil {
		if !b.used.Load() {
			b.used.Store(true)
		}
		return u, nil
	}
	u := &sc.base
	if hold = hold || b.cache.lastUnpacked.has(b.id); hold {
		u = &unpacked{bytes: make([]byte, 0, b.size)}
	} else {
		b.cache.lastUnpacked.add(b.id)
	}
	packed := b.packed
	if fast := b.counts.fastPack.Load(); fast != nil {
		packed = *fast
	}
	raw, err := b.dict.Unpack(u.bytes[:0], packed, b.size)
	if err != nil {
		return nil, err
	}
	if u.bytes = raw; !hold {
		u.once = sync.Once{}
		if b.alone.Add(1) == fastPackAfter {
			b.cache.addFastPack(b, raw)
		}
		return u, nil
	}
	b.cache.hold(b, u)
	return u, nil
}

// baseCache has the bases that are kept unpacked.
type baseCache struct {
	lastUnpacked recentIDs // bases that were unpacked without being kept

	mu            sync.Mutex
	loaded        []*base // oldest first
	bytes         int     // of those
	fastPackBytes int     // bytes of all fast packs
	ages          bool    // a call of age is scheduled
}

// addFastPack creates a fast pack of a base if there is room for it, and if the base does not
// unpack fast already.
func (s *baseCache) addFastPack(b *base, raw []byte) {
	if b.packed[0] != methodEntropy {
		return
	}
	packed := string(b.dict.pack(nil, raw, true))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fastPackBytes+len(packed) <= maxFastPackBytes && b.counts.fastPack.CompareAndSwap(nil, &packed) {
		s.fastPackBytes += len(packed)
	}
}

// dropFastPack frees the room of the fast pack, if any, of a base that has ended.
func (s *baseCache) dropFastPack(c *counts) {
	if packed := c.fastPack.Load(); packed != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.fastPackBytes -= len(*packed)
	}
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
	return int64(s.bytes + s.fastPackBytes)
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
