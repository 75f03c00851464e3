package watchcache

import (
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// sendEvent writes one object as an event. rv is the resourceVersion of a deletion. An error of the
// connection stays in out.err and ends the watch silently.
func (wt *watcher) sendEvent(t wire.EventType, o *store.Object, rv uint64) error {
	var event []byte
	var err error
	if wt.share {
		event, err = wt.cache.encoded.get(encodeKey{o, t, rv, wt.rep.representationKey}, func() ([]byte, error) {
			event, err := wt.encodeEvent(t, o, rv)
			return slices.Clone(event), err
		})
	} else {
		event, err = wt.encodeEvent(t, o, rv)
	}
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if own, ok := o.ResourceVersionNumber(); ok && t != wire.Deleted {
		rv = own
	}
	wt.clientVersion = max(wt.clientVersion, rv)
	wt.events++
	wt.out.write(event)
	return nil
}

// encodeEvent encodes an event; the result is valid until the next call. A deletion carries the
// last version that matched, with the resourceVersion of the deletion.
func (wt *watcher) encodeEvent(t wire.EventType, o *store.Object, rv uint64) ([]byte, error) {
	raw, err := wt.matcher.bytes(o)
	if err != nil {
		return nil, err
	}
	sc := wt.scratch
	if t == wire.Deleted {
		if sc.stamped, err = wire.AppendWithResourceVersion(sc.stamped[:0], wt.cache.encoding, raw, resourceversion.Format(rv)); err != nil {
			return nil, err
		}
		raw = sc.stamped
	}
	object, err := wt.rep.object(raw)
	if err != nil {
		return nil, err
	}
	sc.event = wire.AppendEvent(sc.event[:0], wt.rep.Encoding, t, wt.rep.typeMeta(), object)
	return sc.event, nil
}

// sendChange sends the events that a change means for this client. It may not be known when an
// object ended, because only a relist found the end, or because more came of the object since. Such
// an end has the resourceVersion that the client has already. So a client that resumes there gets
// the end again rather than not at all. And one that merges several watches does not take the end
// for as new as changes that it has not got.
func (wt *watcher) sendChange(ch *store.Change) error {
	before, after := false, false
	var err error
	if ch.Old != nil {
		if before, err = wt.matcher.match(ch.Old); err != nil {
			return apierrors.NewInternalError(err)
		}
	}
	if ch.New != nil {
		if after, err = wt.matcher.match(ch.New); err != nil {
			return apierrors.NewInternalError(err)
		}
	}
	switch {
	case before && after && !ch.Old.SameUID(ch.New):
		// Deleted and created again: a client that resumes in between gets the new object.
		if err = wt.sendEvent(wire.Deleted, ch.Old, wt.clientVersion); err == nil {
			err = wt.sendEvent(wire.Added, ch.New, 0)
		}
	case before && after:
		err = wt.sendEvent(wire.Modified, ch.New, 0)
	case before && ch.Missed:
		err = wt.sendEvent(wire.Deleted, ch.Old, wt.clientVersion)
	case before:
		err = wt.sendEvent(wire.Deleted, ch.Old, max(ch.ResourceVersion, wt.clientVersion))
	case after:
		err = wt.sendEvent(wire.Added, ch.New, 0)
	}
	if !ch.Missed && !wt.coalesces {
		wt.sentUpTo = max(ch.ResourceVersion, wt.sentUpTo)
	}
	return err
}

// batch is how many changes a watcher takes from its source at once.
const batch = 64

// scratch holds the buffers for sending. A watcher has one only while it sends, because most
// watchers wait most of the time.
type scratch struct {
	raw, stamped, object, event []byte
	changes                     [batch]store.Change
}

// maxScratch bounds the bytes that each buffer keeps when a scratch returns to the pool.
const maxScratch = 64 << 10

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func newScratch() *scratch { return scratches.Get().(*scratch) }

// lend passes the buffers to the matcher and the representation, until release takes them back.
func (s *scratch) lend(m *matcher, rep *representation) { m.own, rep.scratch = s.raw, s.object }

// release takes the buffers back and returns the scratch to the pool. The caller must have cleared
// the changes.
func (s *scratch) release(m *matcher, rep *representation) {
	s.raw, s.object = m.own, rep.scratch
	m.own, rep.scratch = nil, nil
	for _, b := range []*[]byte{&s.raw, &s.stamped, &s.object, &s.event} {
		if cap(*b) > maxScratch {
			*b = nil
		}
	}
	scratches.Put(s)
}
