package watchcache

import (
	"slices"
	"time"

	"github.com/weirproject/weir/internal/store"
	"github.com/weirproject/weir/internal/wire"
)

// serve sends changes and bookmarks until the watch ends. Its goroutine only waits, and so keeps a
// small stack.
func (wt *watcher) serve() {
	defer wt.end()
	send := wt.send
	for !wt.over {
		wt.wait()
		wt.cache.workers.Run(send)
	}
}

// wait blocks until something is to be sent, or the watch ends.
func (wt *watcher) wait() {
	select {
	case <-wt.source.Ready():
		wt.waitForFlush()
	case <-wt.bookmarks.timer.C:
		wt.bookmarks.fired = true
	case <-wt.ctx.Done():
	case <-wt.drained.begun:
		wt.drained.start()
	case <-wt.drained.C():
	case <-wt.cache.drain.ended.Done():
	}
}

// waitForFlush waits as long as the pacer wants, so that close changes share one write.
func (wt *watcher) waitForFlush() {
	left := wt.cache.flush.wait(&wt.turn)
	if left <= 0 {
		return
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wt.ctx.Done():
	case <-wt.cache.drain.ended.Done():
	}
}

// send sends what is pending, and finishes if the watch ends.
func (wt *watcher) send() {
	if over, err := wt.sendPending(); over || err != nil {
		wt.finish(err)
	}
}

// sendPending sends all pending changes, and a bookmark if one is due. over says that the watch
// ends. If the cache ends it, the changes so far and a bookmark are sent first.
func (wt *watcher) sendPending() (over bool, err error) {
	if wt.ctx.Err() != nil {
		return true, nil
	}
	if err := wt.sendInitialEventsEnd(); err != nil {
		return false, err
	}
	last := wt.drained.due()
	if err := wt.sendChangesAndBookmark(last); err != nil {
		return false, err
	}
	if wt.out.err != nil || wt.ctx.Err() != nil || wt.out.flush() != nil || wt.source.Closed() || wt.overflows() || last {
		return true, nil
	}
	wt.releaseScratch()
	wt.cache.flush.flushed(&wt.turn)
	return false, nil
}

// sendChangesAndBookmark sends all pending changes, and a bookmark if one is due or last is set. It
// sends no bookmark if the store was closed meanwhile, because changes may be missing then.
func (wt *watcher) sendChangesAndBookmark(last bool) error {
	upTo, due := wt.bookmarks.due(wt, last)
	settled := true
	if (due || last) && wt.routable {
		settled = wt.cache.hub.flush()
	}
	wt.acquireScratch()
	if err := wt.sendChanges(); err != nil {
		return err
	}
	if !due || !settled || wt.source.Closed() || wt.out.err != nil || wt.ctx.Err() != nil {
		return nil
	}
	wt.sent = max(wt.sent, upTo)
	if err := wt.sendBookmark(wt.sent, false); err != nil {
		return err
	}
	wt.bookmarks.sent()
	return nil
}

// sendChanges sends all pending changes. A routable watcher that has caught up moves from its
// cursor to the hub.
func (wt *watcher) sendChanges() error {
	for {
		batch := wt.scratch.changes[:]
		for n := wt.source.Next(batch); n > 0; n = wt.source.Next(batch) {
			wt.share = wt.hasPeers()
			wt.matcher.share = wt.share && wt.matcher.looksInside() // otherwise only the encoder reads the object
			err := wt.sendBatch(batch[:n])
			clear(batch[:n])
			if err != nil || wt.out.err != nil || wt.ctx.Err() != nil || wt.overflows() {
				return err
			}
		}
		l, ok := wt.source.(cursorSource)
		if !ok || !wt.routable {
			return nil
		}
		sub, err := wt.cache.hub.join(wt.route, l.Cursor)
		if err != nil { // the store was closed
			return nil
		}
		wt.setSource(sub)
	}
}

// hasPeers reports whether other watchers are sent the same events.
func (wt *watcher) hasPeers() bool {
	others := int(wt.cache.unrouted.n.Load())
	if sub, ok := wt.source.(*subscription); ok {
		others += sub.peerCount()
	} else {
		others += int(wt.cache.hub.n.Load())
	}
	return others > 1
}

// sendBatch sends changes in order.
func (wt *watcher) sendBatch(changes []store.Change) error {
	merged := func(ch store.Change) bool { return ch.Coalesced }
	switch late := wt.source.Pending() > 0 || slices.ContainsFunc(changes, merged); {
	case late && wt.cache.expireLate:
		return errExpired(wt.sent)
	case late && !wt.matcher.keyOnly():
		return wt.catchUp(changes)
	case late:
		wt.cache.counters.caughtUp.Add(1)
	}
	for i := range changes {
		if err := wt.sendChange(&changes[i]); err != nil {
			return err
		}
	}
	return nil
}

// catchUp sends the changes of a watcher that has fallen behind the log, each of which may stand
// for several. Objects that no longer match go first, with the resourceVersion that the client
// already has. Otherwise a client that breaks off half-way and resumes from its last
// resourceVersion could miss one: the change that ended the match may be older than that, and later
// changes of the object match neither before nor after.
func (wt *watcher) catchUp(changes []store.Change) error {
	wt.cache.counters.caughtUp.Add(1)
	var g coalescedChanges
	for i := range changes {
		g.add(&changes[i])
	}
	more := make([]store.Change, batch)
	for wt.source.Pending() > 0 { // much faster than any writer
		for i := range wt.source.Next(more) {
			g.add(&more[i])
		}
	}
	g.compact()
	rest := g.changes[:0]
	for _, ch := range g.changes {
		ended, err := wt.endsMatching(&ch)
		if err == nil && ended {
			err = wt.sendEvent(wire.Deleted, ch.Old, wt.told)
		} else {
			rest = append(rest, ch)
		}
		if err != nil {
			return err
		}
	}
	for i := range rest {
		if err := wt.sendChange(&rest[i]); err != nil {
			return err
		}
	}
	return nil
}

// endsMatching reports whether a coalesced change leaves nothing that matches of an object that
// matched.
func (wt *watcher) endsMatching(ch *store.Change) (bool, error) {
	if !ch.Coalesced || ch.Old == nil {
		return false, nil
	}
	before, err := wt.matcher.match(ch.Old)
	if !before || err != nil || ch.New == nil {
		return before, err
	}
	after, err := wt.matcher.match(ch.New)
	return !after, err
}
