package watchcache

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/serve/budget"
)

// maxEncodeCache bounds the bytes in an encodeCache, and those of the versions of objects that it
// keeps alive. Hundreds of events suffice, because watchers that keep up send an event at the same
// time.
const maxEncodeCache = 2 << 20

// encodeEntryOverhead is the size of an entry without its bytes.
const encodeEntryOverhead = 256

// encodeCache holds the newest events in representations that are not as objects are stored, such
// as JSON made of protobuf. To encode an event as it is stored costs no more than to look it up.
// The cache evicts the oldest entry when it exceeds maxEncodeCache. The zero value is empty. It is
// safe for concurrent use.
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
	event          wire.EventType
	rv             uint64 // of a deletion
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

// shareAbove is the size of an object above which concurrent GETs share its encoded bytes. A
// smaller one is encoded for each: that costs less than to look for it.
const shareAbove = 8 << 10

// sharedBodies has the bodies of the GETs in progress of large objects, so that one that many
// clients do not read is in memory once. A body is forgotten with its last GET, and charged to the
// Payer of one of them. The zero value is empty. It is safe for concurrent use.
type sharedBodies struct {
	mu   sync.Mutex
	open map[bodyKey]*sharedBody
}

// bodyKey identifies one version of an object in one representation.
type bodyKey struct {
	object         *store.Object
	representation representationKey
}

// errEncoding is what the GETs that share a body get after the one that makes it has panicked.
var errEncoding = apierrors.NewInternalError(errors.New("the object cannot be encoded"))

// sharedBody is filled by the first GET, while others wait.
type sharedBody struct {
	once  sync.Once
	bytes []byte
	err   error

	// readers has who pays for each GET, in the order of the GETs; the first one is charged. The lock
	// of sharedBodies guards it.
	readers []*Payer
	charge  *budget.Charge // nil: the first one has no Payer
}

// get returns the body of an object in a representation, which encode makes unless another GET has
// done so. The result is shared; do not modify it. The caller must release it. The error is
// ErrUnread, or one of encode.
func (sb *sharedBodies) get(k bodyKey, p *Payer, encode func() ([]byte, error)) (body []byte, release func(), err error) {
	size := int64(k.object.Size())
	e, err := sb.join(k, p, size)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if release == nil { // there is an error, or encode has panicked
			sb.leave(k, e, p)
		}
	}()
	e.once.Do(func() {
		e.err = errEncoding // for the others, if encode panics
		e.bytes, e.err = encode()
		if e.charge != nil {
			e.charge.Add(int64(cap(e.bytes)) - size)
		}
	})
	if e.err != nil {
		return nil, nil, e.err
	}
	return e.bytes, func() { sb.leave(k, e, p) }, nil
}

// join adds a GET to the readers of a body. A body that is not above shareAbove has one reader.
func (sb *sharedBodies) join(k bodyKey, p *Payer, size int64) (*sharedBody, error) {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	e := sb.open[k]
	if e == nil {
		charge, err := p.charge(size)
		if err != nil {
			return nil, err
		}
		if e = (&sharedBody{charge: charge}); size >= shareAbove {
			if sb.open == nil {
				sb.open = map[bodyKey]*sharedBody{}
			}
			sb.open[k] = e
		}
	}
	e.readers = append(e.readers, p)
	return e, nil
}

// leave removes a GET from the readers. If it has paid, the next one pays.
func (sb *sharedBodies) leave(k bodyKey, e *sharedBody, p *Payer) {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	i := slices.Index(e.readers, p)
	if e.readers = slices.Delete(e.readers, i, i+1); len(e.readers) == 0 {
		if sb.open[k] == e {
			delete(sb.open, k)
		}
		e.charge.Release()
	} else if next := e.readers[0]; i == 0 && e.charge != nil && next != nil {
		e.charge.Move(next.Level, next.Share)
	}
}
