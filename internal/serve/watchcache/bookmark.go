package watchcache

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/wire"
)

// lastBookmarkBefore is how long before its deadline a watch sends its last bookmark.
const lastBookmarkBefore = 2 * time.Second

// sendInitialEventsEnd sends the bookmark that ends the initial events, if it is due. It does not
// wait for later changes: a client that is slower than the changes would never get it.
func (wt *watcher) sendInitialEventsEnd() error {
	bookmarks := wt.bookmarks
	if !bookmarks.initialEvents || !bookmarks.fired || !bookmarks.enabled {
		return nil
	}
	wt.acquireScratch()
	bookmarks.sent()
	return wt.sendBookmark(wt.sentUpTo, true)
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

// newBookmarkTimer returns the timer of a watch. The bookmark that ends the initial events comes
// first, and is due after delay.
func (wt *watcher) newBookmarkTimer(delay time.Duration) *bookmarkTimer {
	deadline, _ := wt.ctx.Deadline()
	left := time.Until(deadline)
	b := &bookmarkTimer{
		enabled:       wt.options.AllowBookmarks && !wt.noBookmarks,
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
	if left <= 0 { // the last one is due now
		b.lastDue = time.Time{}
		return b.interval
	}
	return min(b.interval, left)
}

// due reports whether a bookmark follows the changes that are sent now. last means that the watch
// ends after it. No bookmark is due before the one that ends the initial events, or because the
// watch ends with 410.
func (b *bookmarkTimer) due(wt *watcher, last bool) bool {
	return b.enabled && !b.initialEvents && (b.fired || last && !wt.cache.expired.Load())
}

// look notes whether the timer has fired, and does not wait for it.
func (b *bookmarkTimer) look() {
	select {
	case <-b.timer.C:
		b.fired = true
	default:
	}
}

func (b *bookmarkTimer) sent() {
	b.fired, b.initialEvents = false, false
	b.timer.Reset(b.next())
}

// sendBookmarkUpTo sends a bookmark of rv, or of what the client has seen beyond that.
func (wt *watcher) sendBookmarkUpTo(rv uint64) error {
	wt.coalesced = 0
	wt.sentUpTo = max(wt.sentUpTo, rv)
	if err := wt.sendBookmark(wt.sentUpTo, false); err != nil {
		return err
	}
	wt.bookmarks.sent()
	return nil
}

// sendBookmarkBetween sends a bookmark that is due although changes keep coming.
func (wt *watcher) sendBookmarkBetween() error {
	b := wt.bookmarks
	b.look()
	switch {
	case b.initialEvents:
		return wt.sendInitialEventsEnd()
	case b.due(wt, false) && wt.coalesced <= wt.sentUpTo:
		return wt.sendBookmarkUpTo(wt.sentUpTo)
	}
	return nil
}

// sendBookmark tells the client that it has seen every change up to rv.
func (wt *watcher) sendBookmark(rv uint64, initialEnd bool) error {
	p := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: resourceversion.Format(rv)}}
	if initialEnd {
		p.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	wt.clientVersion = max(wt.clientVersion, rv)
	return wt.writeBookmark(&p)
}

// sendCoalesced tells the client that the changes that follow, up to rv, are coalesced. The
// bookmark for that has the resourceVersion that the client is at anyway.
func (wt *watcher) sendCoalesced(rv uint64) error {
	if b := wt.bookmarks; !b.enabled || b.initialEvents || rv <= max(wt.clientVersion, wt.coalesced) {
		return nil
	}
	wt.coalesced = rv
	return wt.writeBookmark(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: resourceversion.Format(wt.clientVersion),
		Annotations:     map[string]string{wire.CoalescedAnnotation: resourceversion.Format(rv)},
	}})
}

func (wt *watcher) writeBookmark(p *metav1.PartialObjectMetadata) error {
	object, err := wt.rep.bookmark(p)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	wt.cache.counters.bookmarks.Add(1)
	wt.out.write(wire.AppendEvent(nil, wt.rep.Encoding, wire.Bookmark, wt.rep.typeMeta(), object))
	return nil
}
