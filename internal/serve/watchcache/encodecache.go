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

// maxEncodeCache bounds two sums separately: the encoded bytes in an encodeCache, and the bytes of
// the object versions that its keys keep alive. The limit has room for hundreds of events. That
// suffices, because watchers that keep up send the same event at about the same time.
const maxEncodeCache = 2 << 20

// encodeEntryOverhead is the size of an entry without its bytes.
const encodeEntryOverhead = 256

// encodeCache caches the newest events in representations that differ from the stored one, such as
// JSON from protobuf. It does not cache events in the stored representation, because encoding such
// an event is as cheap as a lookup. The cache evicts the oldest entry when it exceeds
// maxEncodeCache. The zero value is empty. It is safe for concurrent use.
type encodeCache struct {
	hits, misses atomic.Uint64

	mu       sync.Mutex
	entries  map[encodeKey]*encodeEntry
	order    []encodeKey // keys, oldest first
	bytes    int64
	versions int64 // bytes of the retained versions, counted once per entry
}

// encodeKey identifies one version of an object in one representation, as an event or alone.
type encodeKey struct {
	object         *store.Object
	event          wire.EventType // 0: only the object
	rv             uint64         // of a deletion
	representation representationKey
}

// encodeEntry contains an encoded event. The first caller that requests it encodes the event, while
// other callers wait.
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

// count adds an entry to the totals if n is 1, and subtracts it if n is -1. The caller holds ec.mu.
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

// shareAbove is the least size of an object whose encoded bytes concurrent GETs share. Each GET
// encodes a smaller object itself, because that is cheaper than a lookup.
const shareAbove = 8 << 10

// sharedBodies contains the bodies of large objects that GETs are sending now. It keeps one copy of
// a body in memory, even if many clients are slow to read it. It drops a body when the last GET of
// the body ends. The Payer of one of these GETs pays for the body. The zero value is empty. It is
// safe for concurrent use.
type sharedBodies struct {
	mu   sync.Mutex
	open map[encodeKey]*sharedBody // the keys have no event
}

// errEncoding is the error of the GETs that share a body if the GET that encodes it panics.
var errEncoding = apierrors.NewInternalError(errors.New("the object cannot be encoded"))

// sharedBody is the body of one object. The first GET encodes it, while the other GETs wait.
type sharedBody struct {
	once  sync.Once
	bytes []byte
	err   error

	// readers contains the Payer of each GET, in the order of the GETs. readers[0] pays for the body.
	// The lock of sharedBodies guards readers.
	readers []*Payer
	charge  *budget.Charge // nil: the first GET had no Payer
}

// get returns the body of an object in a representation. It calls encode unless another GET has
// encoded the body. The result is shared; do not modify it. The caller must call release. The error
// is ErrUnread, the error of encode, or, if encode panicked in another GET, errEncoding.
func (sb *sharedBodies) get(k encodeKey, p *Payer, encode func() ([]byte, error)) (body []byte, release func(), err error) {
	size := int64(k.object.Size())
	e, err := sb.join(k, p, size)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if release == nil { // an error was returned, or encode panicked
			sb.leave(k, e, p)
		}
	}()
	e.once.Do(func() {
		e.err = errEncoding // for the other GETs, if encode panics
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

// join adds a GET to the readers of a body. A body smaller than shareAbove is not shared.
func (sb *sharedBodies) join(k encodeKey, p *Payer, size int64) (*sharedBody, error) {
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
				sb.open = map[encodeKey]*sharedBody{}
			}
			sb.open[k] = e
		}
	}
	e.readers = append(e.readers, p)
	return e, nil
}

// leave removes a GET from the readers. If that GET paid for the body, the next GET pays.
func (sb *sharedBodies) leave(k encodeKey, e *sharedBody, p *Payer) {
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
