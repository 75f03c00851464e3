package watchcache

import (
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/store"
	"github.com/weirproject/weir/internal/wire"
)

// send writes one object as an event; rv is that of a deletion. Errors of the client's connection stay in out.err: they end the watch
// without a word.
func (wt *watcher) send(t wire.EventType, o *store.Object, rv uint64) error {
	var event []byte
	var err error
	if wt.share {
		event, err = wt.cache.shared.get(sharedKey{o, t, rv, wt.f.key()}, func() ([]byte, error) {
			event, err := wt.encode(t, o, rv)
			return slices.Clone(event), err
		})
	} else {
		event, err = wt.encode(t, o, rv)
	}
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	wt.events++
	wt.out.write(event)
	return nil
}

// encode makes an event, valid until the next call. A deletion carries the last version that matched, with its own resourceVersion.
func (wt *watcher) encode(t wire.EventType, o *store.Object, rv uint64) ([]byte, error) {
	raw, err := wt.m.bytes(o)
	if err != nil {
		return nil, err
	}
	sc := wt.scratch
	if t == wire.Deleted {
		if sc.stamped, err = wire.AppendWithResourceVersion(sc.stamped[:0], wt.cache.encoding, raw, formatVersion(rv)); err != nil {
			return nil, err
		}
		raw = sc.stamped
	}
	object, err := wt.f.object(raw)
	if err != nil {
		return nil, err
	}
	sc.event = wire.AppendEvent(sc.event[:0], wt.f.enc, t, wt.f.typeMeta(), object)
	return sc.event, nil
}

// change sends what one change means to this client.
func (wt *watcher) change(ch *store.Change) error {
	before, after := false, false
	var err error
	if ch.Old != nil {
		if before, err = wt.m.match(ch.Old); err != nil {
			return apierrors.NewInternalError(err)
		}
	}
	if ch.New != nil {
		if after, err = wt.m.match(ch.New); err != nil {
			return apierrors.NewInternalError(err)
		}
	}
	rv := versionOf(ch, wt.sent)
	switch {
	case before && after && !ch.Old.SameUID(ch.New): // deleted and created again, unseen: whoever resumes in between gets the new one
		if err = wt.send(wire.Deleted, ch.Old, wt.sent); err == nil {
			err = wt.send(wire.Added, ch.New, 0)
		}
	case before && after:
		err = wt.send(wire.Modified, ch.New, 0)
	case before:
		err = wt.send(wire.Deleted, ch.Old, rv)
	case after:
		err = wt.send(wire.Added, ch.New, 0)
	}
	wt.sent = rv
	return err
}

// sendBookmark tells the client that it has seen everything up to rv.
func (wt *watcher) sendBookmark(rv uint64, initialEnd bool) error {
	p := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: formatVersion(rv)}}
	if initialEnd {
		p.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	object, err := wt.f.bookmark(&p)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	wt.cache.counters.bookmarks.Add(1)
	wt.out.write(wire.AppendEvent(nil, wt.f.enc, wire.Bookmark, wt.f.typeMeta(), object))
	return nil
}

// versionOf is the resourceVersion of a change: that of the new object, or of the deletion. A deletion that nobody told of, which a relist
// has found, counts as no newer than what the watcher has: a client that resumes from there gets it again rather than not at all.
func versionOf(ch *store.Change, seen uint64) uint64 {
	if ch.Missed {
		return seen
	}
	return max(ch.ResourceVersion, seen)
}
