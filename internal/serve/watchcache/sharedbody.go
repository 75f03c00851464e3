package watchcache

import (
	"errors"
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

	readers map[Payer]int // GETs by who pays; the sharedBodies' lock guards it
	payer   Payer         // who pays, one of the readers
	charge  *budget.Charge
}

// get returns the body of an object in a representation, which encode makes unless another GET has
// done so. The result is shared; do not modify it. The caller must release it. The error is
// ErrUnread, or one of encode.
func (sb *sharedBodies) get(k bodyKey, p *Payer, encode func() ([]byte, error)) (body []byte, release func(), err error) {
	size := int64(k.object.Size())
	if size < shareAbove {
		return alone(p, size, encode)
	}
	var by Payer
	if p != nil {
		by = *p
	}
	e, err := sb.join(k, by, p, size)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if release == nil { // there is an error, or encode has panicked
			sb.leave(k, e, by)
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
	return e.bytes, func() { sb.leave(k, e, by) }, nil
}

// alone returns a body that no other GET shares.
func alone(p *Payer, size int64, encode func() ([]byte, error)) (body []byte, release func(), err error) {
	charge, err := p.charge(size)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if release == nil { // there is an error, or encode has panicked
			charge.Release()
		}
	}()
	if body, err = encode(); err != nil {
		return nil, nil, err
	}
	if charge != nil {
		charge.Add(int64(cap(body)) - size)
	}
	return body, charge.Release, nil
}

// join adds a GET to the readers of a body. The first one pays.
func (sb *sharedBodies) join(k bodyKey, by Payer, p *Payer, size int64) (*sharedBody, error) {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	e := sb.open[k]
	if e == nil {
		charge, err := p.charge(size)
		if err != nil {
			return nil, err
		}
		e = &sharedBody{readers: map[Payer]int{}, payer: by, charge: charge}
		if sb.open == nil {
			sb.open = map[bodyKey]*sharedBody{}
		}
		sb.open[k] = e
	}
	e.readers[by]++
	return e, nil
}

// leave removes a GET from the readers. When the last one of who pays has gone, another one pays.
func (sb *sharedBodies) leave(k bodyKey, e *sharedBody, by Payer) {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	if e.readers[by]--; e.readers[by] > 0 {
		return
	}
	delete(e.readers, by)
	if len(e.readers) == 0 {
		delete(sb.open, k)
		e.charge.Release()
		return
	}
	if e.payer != by || e.charge == nil {
		return
	}
	for other := range e.readers {
		if other.Budget != nil {
			e.payer = other
			e.charge.Move(other.Level, other.Share)
			return
		}
	}
}
