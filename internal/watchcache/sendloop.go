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

// maxSettling is how often a watcher whose changes are coalesced looks for the end of them at once.
const maxSettling = 4

// settleAfter is how soon it looks again if nothing wakes it.
const settleAfter = time.Second

// sendChangesAndBookmark sends all pending changes, and a bookmark if one is due or last is set, or
// if changes were coalesced: it tells the client that it has them all. It sends no bookmark if the
// store was closed meanwhile, because changes may be missing then, and none that says less than the
// changes before it.
func (wt *watcher) sendChangesAndBookmark(last bool) error {
	upTo, due := wt.bookmarks.due(wt, last)
	settled := true
	for range maxSettling {
		if (due || last) && wt.selective {
			settled = wt.cache.hub.flush()
		}
		wt.acquireScratch()
		if err := wt.sendChanges(); err != nil {
			return err
		}
		if upTo >= wt.coalesced || wt.source.Closed() || wt.out.err != nil || wt.ctx.Err() != nil {
			break
		}
		due = true
		before := upTo
		wt.cache.clock.Observe(func(rv uint64) { upTo = rv })
		if upTo == before {
			break
		}
	}
	if upTo < wt.coalesced && wt.bookmarks.enabled {
		wt.bookmarks.timer.Reset(settleAfter) // what completes them need not wake this watcher
	}
	if !due || !settled || upTo < wt.coalesced || wt.overflows() || wt.source.Closed() || wt.out.err != nil || wt.ctx.Err() != nil {
		return nil
	}
	wt.coalesced = 0
	wt.sentUpTo = max(wt.sentUpTo, upTo)
	if err := wt.sendBookmark(wt.sentUpTo, false); err != nil {
		return err
	}
	wt.bookmarks.sent()
	return nil
}

// sendChanges sends all pending changes. A selective watcher that has caught up moves from its
// cursor to the hub.
func (wt *watcher) sendChanges() error {
	for {
		batch := wt.scratch.changes[:]
		for n := wt.source.Next(batch); n > 0; n = wt.source.Next(batch) {
			wt.share = wt.hasPeers()
			// Otherwise only the encoder reads the object.
			wt.matcher.share = wt.share && wt.matcher.looksInside()
			err := wt.sendBatch(batch[:n])
			clear(batch[:n])
			if err != nil || wt.out.err != nil || wt.ctx.Err() != nil || wt.overflows() {
				return err
			}
		}
		l, ok := wt.source.(*cursorSource)
		if !ok || !wt.selective {
			return nil
		}
		sub, err := wt.cache.hub.join(wt.interest, l.Cursor)
		if err != nil { // the store was closed
			return nil
		}
		wt.setSource(sub)
	}
}

// hasPeers reports whether other watchers are sent the same events.
func (wt *watcher) hasPeers() bool {
	others := int(wt.cache.ownCursors.n.Load())
	if sub, ok := wt.source.(*subscription); ok {
		others += sub.peerCount()
	} else {
		others += int(wt.cache.hub.n.Load())
	}
	return others > 1
}

// sendBatch sends changes in order.
func (wt *watcher) sendBatch(changes []store.Change) error {
	coalesced := func(ch store.Change) bool { return ch.Coalesced }
	behind := wt.source.Pending() > 0 || slices.ContainsFunc(changes, coalesced)
	relisted := slices.ContainsFunc(changes, wt.relisted)
	if (behind || relisted) && wt.cache.expireLate {
		return errExpired(wt.sentUpTo)
	}
	if behind {
		wt.cache.counters.caughtUp.Add(1)
	}
	if behind || relisted {
		return wt.catchUp(changes, relisted)
	}
	for i := range changes {
		if err := wt.sendChange(&changes[i]); err != nil {
			return err
		}
	}
	return nil
}

// relisted reports whether a relist has brought a change.
func (wt *watcher) relisted(ch store.Change) bool {
	_, ok := wt.cache.history.relisted(ch.Revision)
	return ok
}

// catchUp sends changes each of which may stand for several: those of a watcher that has fallen
// behind the log, or those that a relist has brought. Objects that no longer match go first, with
// the resourceVersion that the client already has. Otherwise a client that breaks off half-way and
// resumes from its last resourceVersion could miss one: the change that ended the match may be
// older than that, and later changes of the object match neither before nor after.
//
// That is not enough where the client resumes at a server that knows the states in between: there
// the object may match no more, and none of its later changes do. So a client that wants bookmarks
// gets one which says that the changes are coalesced, and another when it has them all.
func (wt *watcher) catchUp(changes []store.Change, relisted bool) error {
	g, upTo := wt.coalesce(changes, relisted)
	wt.out.deadline.beginCatchUp(g)
	defer wt.out.deadline.endCatchUp()
	if err := wt.sendCoalesced(upTo); err != nil {
		return err
	}
	wt.coalesces = true
	defer func() { wt.coalesces = false }()
	for i, held := range g.changes {
		if wt.out.err != nil || wt.ctx.Err() != nil {
			return nil // whoever asked sees it
		}
		ended, err := wt.endsMatching(&held.Change)
		if err == nil && ended {
			err = wt.sendEvent(wire.Deleted, held.Old, wt.clientVersion)
			g.dropOld(i)
		}
		if err != nil {
			return err
		}
	}
	for i, held := range g.changes {
		if wt.out.err != nil || wt.ctx.Err() != nil {
			return nil
		}
		if held == nil {
			continue
		}
		if err := wt.sendChange(&held.Change); err != nil {
			return err
		}
		g.drop(i)
	}
	return nil
}

// coalesce gathers changes, one for each key, with those that wait: all of what the log has
// dropped, and all of a relist. Up to the resourceVersion that it returns nothing is known of
// their order. It clears changes, so that nothing is kept but what it returns, and the source.
func (wt *watcher) coalesce(changes []store.Change, relisted bool) (g *coalescedChanges, upTo uint64) {
	g = newCoalescedChanges(&wt.cache.held)
	if relisted {
		wt.cache.clock.Observe(func(uint64) {}) // until the relist is complete
		if wt.selective {
			wt.cache.hub.flush()
		}
	}
	add := func(changes []store.Change) {
		for i := range changes {
			rv, ok := wt.cache.history.relisted(changes[i].Revision)
			if relisted = ok; ok {
				upTo = max(upTo, rv)
				changes[i].Coalesced = true
			}
			g.addChange(changes[i])
		}
		clear(changes)
	}
	add(changes)
	more := make([]store.Change, batch)
	for wt.source.Pending() > 0 || relisted { // much faster than any writer
		n := wt.source.Next(more)
		add(more[:n])
		if n == 0 {
			break
		}
	}
	wt.source.release()
	g.compact()
	wt.cache.clock.Observe(func(rv uint64) { upTo = max(upTo, rv) })
	return g, upTo
}

// endsMatching reports whether a coalesced change leaves nothing that matches of an object that
// matched. Another object under the same key is another one.
func (wt *watcher) endsMatching(ch *store.Change) (bool, error) {
	if !ch.Coalesced || ch.Old == nil {
		return false, nil
	}
	before, err := wt.matcher.match(ch.Old)
	if !before || err != nil || ch.New == nil || !ch.Old.SameUID(ch.New) {
		return before, err
	}
	after, err := wt.matcher.match(ch.New)
	return !after, err
}
