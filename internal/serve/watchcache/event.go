package watchcache

import (
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// writeEvent writes one object as an event. rv is the resourceVersion of a deletion. A connection
// error stays in out.err and ends the watch without an error event.
func (wt *watcher) writeEvent(t wire.EventType, o *store.Object, rv uint64) error {
	var event []byte
	var err error
	// Do not use the cache if encoding the event is as fast as a lookup, or if there is one watcher.
	if wt.rep.storedAsIs() || wt.cache.counters.watchers.Load() == 1 {
		event, err = wt.encodeEvent(t, o, rv)
	} else {
		event, err = wt.cache.encoded.get(encodeKey{o, t, rv, wt.rep.representationKey}, func() ([]byte, error) {
			event, err := wt.encodeEvent(t, o, rv)
			return slices.Clone(event), err
		})
	}
	if err != nil {
		return err
	}
	if own, ok := o.ResourceVersionNumber(); ok && t != wire.Deleted {
		rv = own
	}
	wt.clientVersion = max(wt.clientVersion, rv)
	wt.events++
	wt.out.write(event)
	return nil
}

// encodeEvent encodes an event; the result is valid until the next call. The event of a deletion
// contains the last version that matched, with the resourceVersion of the deletion.
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

// sendChange sends the events that a change causes for this client. In two cases, the cache does
// not know at which resourceVersion an object was deleted or stopped matching: only a relist found
// the change, or later changes of the object were coalesced with it. The DELETED event then has the
// resourceVersion that the client already has. A client that resumes from this resourceVersion may
// receive the event twice. If the event had a higher resourceVersion, a client that resumes from it
// could miss other changes. A client that merges several watches would also conclude that it has
// received every change up to the higher resourceVersion.
func (wt *watcher) sendChange(ch *store.Change) error {
	before, after, err := wt.matches(ch)
	switch {
	case err != nil:
		return err
	case before && after && !ch.Old.SameUID(ch.New):
		// The object was deleted and created again. A client that resumes between the two events receives
		// the new object.
		if err = wt.writeEvent(wire.Deleted, ch.Old, wt.clientVersion); err == nil {
			err = wt.writeEvent(wire.Added, ch.New, 0)
		}
	case before && after:
		err = wt.writeEvent(wire.Modified, ch.New, 0)
	case before && ch.Missed:
		err = wt.writeEvent(wire.Deleted, ch.Old, wt.clientVersion)
	case before:
		err = wt.writeEvent(wire.Deleted, ch.Old, max(ch.ResourceVersion, wt.clientVersion))
	case after:
		err = wt.writeEvent(wire.Added, ch.New, 0)
	}
	if !ch.Missed && !wt.coalesces {
		wt.sentUpTo = max(ch.ResourceVersion, wt.sentUpTo)
	}
	return err
}

// matches reports whether the old version of a changed object matched, and whether the new one
// does.
func (wt *watcher) matches(ch *store.Change) (before, after bool, err error) {
	if ch.Old != nil {
		before, err = wt.matcher.match(ch.Old)
	}
	if ch.New != nil && err == nil {
		after, err = wt.matcher.match(ch.New)
	}
	return before, after, err
}

// batch is the number of changes that a watcher reads in one call.
const batch = 64

// scratch contains the buffers for sending. A watcher has a scratch only while it sends, because
// most watchers wait most of the time.
type scratch struct {
	raw, stamped, object, event []byte
	changes                     [batch]store.Change
}

// maxScratch bounds the bytes that each buffer retains when a scratch returns to the pool.
const maxScratch = 64 << 10

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// newScratch returns a scratch. Until release, the matcher uses the scratch's buffer raw, and the
// representation uses the scratch's buffer object.
func newScratch(m *matcher, rep *representation) *scratch {
	s := scratches.Get().(*scratch)
	m.own, rep.scratch = s.raw, s.object
	return s
}

// release takes the buffers back and returns the scratch to the pool. The caller must have cleared
// s.changes.
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

// lastBookmarkBefore is how long before its deadline a watch sends its last bookmark.
const lastBookmarkBefore = 2 * time.Second

// endInitialEvents sends the bookmark that ends the initial events, if the bookmark is due. The
// bookmark does not wait for later changes. Otherwise a client that reads more slowly than changes
// arrive would never receive it.
func (wt *watcher) endInitialEvents() error {
	bookmarks := wt.bookmarks
	if !bookmarks.initialEvents || !bookmarks.fired || !bookmarks.enabled {
		return nil
	}
	wt.acquireScratch()
	bookmarks.sent()
	return wt.writeBookmark(wt.sentUpTo, map[string]string{metav1.InitialEventsAnnotationKey: "true"})
}

// bookmarkTimer schedules the bookmarks of one watch.
type bookmarkTimer struct {
	timer         *time.Timer
	fired         bool
	enabled       bool
	initialEvents bool // the next bookmark ends the initial events
	interval      time.Duration
	lastDue       time.Time // when the last bookmark is due; zero: it was sent
}

// newBookmarkTimer returns the timer of a watch. If the watch sends initial events, its first
// bookmark is the one that ends them.
func (wt *watcher) newBookmarkTimer() *bookmarkTimer {
	delay, never := wt.cache.cfg.Bookmarks()
	deadline, _ := wt.ctx.Deadline()
	left := time.Until(deadline)
	b := &bookmarkTimer{
		enabled:       wt.options.AllowBookmarks && !never,
		initialEvents: wt.options.WantsInitialEvents(),
		interval:      wt.cache.cfg.BookmarkInterval,
		lastDue:       deadline.Add(-min(lastBookmarkBefore, left/2)),
	}
	if b.fired = b.initialEvents && delay == 0; b.fired || !b.initialEvents {
		delay = b.next()
	}
	b.timer = time.NewTimer(delay)
	return b
}

// next returns the time until the next bookmark.
func (b *bookmarkTimer) next() time.Duration {
	if b.lastDue.IsZero() {
		return b.interval
	}
	left := time.Until(b.lastDue)
	if left <= 0 { // the last bookmark is due now
		b.lastDue = time.Time{}
		return b.interval
	}
	return min(b.interval, left)
}

// due reports whether a bookmark must follow the changes that wt sends now. last means that the
// watch ends after these changes. Before the bookmark that ends the initial events, no other
// bookmark is due. A watch that ends with 410 sends no last bookmark.
func (b *bookmarkTimer) due(wt *watcher, last bool) bool {
	return b.enabled && !b.initialEvents && (b.fired || last && !wt.cache.expired.Load())
}

func (b *bookmarkTimer) sent() {
	b.fired, b.initialEvents = false, false
	b.timer.Reset(b.next())
}

// bookmarkUpTo sends a bookmark of rv, or of wt.sentUpTo if that is higher.
func (wt *watcher) bookmarkUpTo(rv uint64) error {
	wt.coalesced = 0
	wt.sentUpTo = max(wt.sentUpTo, rv)
	if err := wt.writeBookmark(wt.sentUpTo, nil); err != nil {
		return err
	}
	wt.bookmarks.sent()
	return nil
}

// bookmarkBetween sends a bookmark that is due while changes arrive continuously.
func (wt *watcher) bookmarkBetween() error {
	b := wt.bookmarks
	select {
	case <-b.timer.C:
		b.fired = true
	default:
	}
	switch {
	case b.initialEvents:
		return wt.endInitialEvents()
	case b.due(wt, false) && wt.coalesced <= wt.sentUpTo:
		return wt.bookmarkUpTo(wt.sentUpTo)
	}
	return nil
}

// announceCoalesced announces to the client that the following changes, up to rv, are coalesced. It
// sends a bookmark with the resourceVersion that the client has already.
func (wt *watcher) announceCoalesced(rv uint64) error {
	if b := wt.bookmarks; !b.enabled || b.initialEvents || rv <= max(wt.clientVersion, wt.coalesced) {
		return nil
	}
	wt.coalesced = rv
	return wt.writeBookmark(wt.clientVersion, map[string]string{wire.CoalescedAnnotation: resourceversion.Format(rv)})
}

// writeBookmark sends a bookmark of rv, which states that the client has received every change up
// to rv.
func (wt *watcher) writeBookmark(rv uint64, annotations map[string]string) error {
	wt.clientVersion = max(wt.clientVersion, rv)
	p := metav1.ObjectMeta{ResourceVersion: resourceversion.Format(rv), Annotations: annotations}
	object, err := wt.rep.bookmark(&metav1.PartialObjectMetadata{ObjectMeta: p})
	if err != nil {
		return err
	}
	wt.cache.counters.bookmarks.Add(1)
	wt.out.write(wire.AppendEvent(nil, wt.rep.Encoding, wire.Bookmark, wt.rep.typeMeta(), object))
	return nil
}
