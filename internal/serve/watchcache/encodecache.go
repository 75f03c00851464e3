package watchcache

import (
	"sync"
	"sync/atomic"

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// maxEncodeCache bounds the bytes in an encodeCache, and those of the versions of objects that it
// keeps alive. Hundreds of events suffice, because watchers that keep up send an event at the same
// time.
const maxEncodeCache = 2 << 20

// encodeEntryOverhead is the size of an entry without its bytes.
const encodeEntryOverhead = 256

// encodeCache holds the newest events as they are sent to several watchers, and the bytes of
// objects that several watchers read. It evicts the oldest entry when it exceeds maxEncodeCache.
// The zero value is empty. It is safe for concurrent use.
type encodeCache struct {
	hits, misses atomic.Uint64

	mu       sync.Mutex
	entries  map[encodeKey]*encodeEntry
	order    []encodeKey // keys, oldest first
	bytes    int64
	versions int64 // bytes of the versions, once for each entry
}

// encodeKey identifies one version of an object in one representation.
type encodeKey struct {
	object         *store.Object
	event          wire.EventType // 0: the stored bytes of the object
	rv             uint64         // of a deletion
	representation representationKey
}

// encodeEntry is filled by the first caller that asks for it, while others wait.
type encodeEntry struct {
	once  sync.Once
	bytes []byte
	err   error
}

// get returns the bytes of k, and calls encode if they are not cached. The result is shared; do not
// modify it.
func (ec *encodeCache) get(k encodeKey, encode func() ([]byte, error)) ([]byte, error) {
	e, made := ec.entry(k), false
	e.once.Do(func() {
		made = true
		e.bytes, e.err = encode()
	})
	if !made {
		ec.hits.Add(1)
		return e.bytes, e.err
	}
	ec.misses.Add(1)
	ec.mu.Lock()
	defer ec.mu.Unlock()
	ec.count(k, e, 1)
	ec.order = append(ec.order, k)
	for ec.bytes > maxEncodeCache || ec.versions > maxEncodeCache {
		ec.evictOldest()
	}
	return e.bytes, e.err
}

func (ec *encodeCache) entry(k encodeKey) *encodeEntry {
	ec.mu.Lock()
	defer ec.mu.Unlock()
	e := ec.entries[k]
	if e == nil {
		if ec.entries == nil {
			ec.entries = map[encodeKey]*encodeEntry{}
		}
		e = &encodeEntry{}
		ec.entries[k] = e
	}
	return e
}

func (ec *encodeCache) evictOldest() {
	k := ec.order[0]
	ec.order[0] = encodeKey{}
	ec.order = ec.order[1:]
	ec.count(k, ec.entries[k], -1)
	delete(ec.entries, k)
}

// count counts an entry in, or out if n is -1. The caller holds the lock.
func (ec *encodeCache) count(k encodeKey, e *encodeEntry, n int64) {
	ec.bytes += n * (int64(len(e.bytes)) + encodeEntryOverhead)
	if k.object != nil {
		ec.versions += n * k.object.Footprint()
	}
}

// clear removes all entries.
func (ec *encodeCache) clear() {
	ec.mu.Lock()
	defer ec.mu.Unlock()
	for len(ec.order) > 0 {
		ec.evictOldest()
	}
	ec.order = nil
}

func (ec *encodeCache) size() int64 {
	ec.mu.Lock()
	defer ec.mu.Unlock()
	return ec.bytes + ec.versions
}
