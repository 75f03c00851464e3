package pack

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// maxLoaded bounds the bytes of bases that are held unpacked, with their indexes, until two garbage
// collections find them unused.
const maxLoaded = 192 << 10

const (
	// fastPackAfter is how often a base is unpacked alone before it gets a fast pack.
	fastPackAfter = 8
	// maxFastPackBytes bounds the bytes of all fast packs of bases.
	maxFastPackBytes = 4 << 20
)

// base is the object that a group's others are packed against.
type base struct {
	cache  *baseCache
	codes  *codes // of what is packed against it
	dict   *Dictionary
	packed string
	size   int
	id     uint64
	misses atomic.Int32             // objects in turn that are not like it
	raw    atomic.Pointer[unpacked] // nil: it is not held unpacked
	used   atomic.Bool              // raw, since the last collection
	alone  atomic.Int32             // how often it was unpacked without being held
	counts *counts
}

// counts is what is counted of a base until it ends, apart from the base.
type counts struct {
	// fastPack is a fast pack of a base that is unpacked again and again without being held, as
	// when its siblings change all over the keys. That takes a third of the time. nil: there is
	// none.
	fastPack atomic.Pointer[string]
	pinned   int // bytes that siblings alone hold; the lock of the groups guards it
}

// unpacked is a base's bytes, with what finds places in them once something was packed.
type unpacked struct {
	bytes []byte
	once  sync.Once
	index *index
}

// loadedBytes returns the bytes that the base takes while it is held unpacked, once something is
// packed against it.
func (b *base) loadedBytes() int {
	return b.size + int(unsafe.Sizeof(unpacked{})+unsafe.Sizeof(index{}))
}

// unpackSibling appends to dst the object, of size bytes, that pack has packed against the base.
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

// unpack returns the base's bytes, which are valid as long as the scratch is the caller's. A base
// that is used again soon, as in the order of the keys, is held until others are; hold says that it
// will be.
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

// baseCache has the bases that are held unpacked.
type baseCache struct {
	lastUnpacked recentIDs // bases that were unpacked without being held

	mu            sync.Mutex
	loaded        []*base // oldest first
	bytes         int     // of those
	fastPackBytes int     // bytes of all fast packs
	ages          bool    // age will be called
}

// addFastPack makes a fast pack of a base, if there is room for it. It makes none if the base
// unpacks fast already.
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

// dropFastPack frees the room of a base's fast pack, if it had one, once the base is gone.
func (s *baseCache) dropFastPack(c *counts) {
	if packed := c.fastPack.Load(); packed != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.fastPackBytes -= len(*packed)
	}
}

// hold holds a base unpacked, and lets go of the oldest for it.
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
	sentinel := new(struct{ _ *byte }) // with a pointer, so that it shares its memory with nothing
	runtime.AddCleanup(sentinel, (*baseCache).age, s)
}

// age lets go of the bases that were not used since its last call. It schedules its next call as
// long as others are held. So an idle store holds none unpacked.
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

// recentIDs has the last few numbers that were added, so that as many goroutines, each at a place
// of its own, find what they used before. It is safe for concurrent use. 0 is none.
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
