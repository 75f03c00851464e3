package watchcache

import (
	"errors"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/serve/budget"
)

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
