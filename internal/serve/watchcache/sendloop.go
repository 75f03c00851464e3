package watchcache

import (
	"math"
	"slices"
	"time"

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// serve sends changes and bookmarks until the watch ends. Its goroutine only waits, and so keeps a
// small stack: also for what has yet to come where the watch begins.
func (wt *watcher) serve() {
	defer wt.end()
	if wt.future {
		stopped := wt.cache.waitFor(wt.ctx, wt.options.RV)
		wt.cache.cfg.Workers.Run(func() { wt.beginLate(stopped) })
	}
	send := wt.send
	for !wt.over {
		wt.wait()
		wt.cache.cfg.Workers.Run(send)
	}
}

// beginLate begins a watch that has waited.
func (wt *watcher) beginLate(stopped bool) {
	var err error
	if !stopped {
		stopped, err = wt.start()
	}
	wt.begin(stopped, err)
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
	case <-wt.drained.timer:
	case <-wt.cache.drain.ended.Done():
	}
}

// waitForFlush waits as long as the pacer wants, so that close changes share one write.
func (wt *watcher) waitForFlush() {
	left := wt.cache.cfg.Flush.wait(&wt.turn)
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

// sendPending sends pending changes, and a bookmark if one is due. over says that the watch ends:
// if the cache ends it, a bookmark comes last.
func (wt *watcher) sendPending() (over bool, err error) {
	if wt.ctx.Err() != nil {
		return true, nil
	}
	wt.out.deadline.beginSending()
	if err := wt.sendInitialEventsEnd(); err != nil {
		return false, err
	}
	last, err := wt.sendChangesAndBookmark(wt.drained.due())
	if err != nil {
		return false, err
	}
	if last || wt.mustEnd() || wt.out.flush() != nil || wt.source.Closed() || wt.overflows() {
		return true, nil
	}
	wt.out.deadline.endSending()
	wt.releaseScratch()
	wt.cache.cfg.Flush.flushed(&wt.turn)
	return false, nil
}

// mustEnd reports whether the watch ends before the next event, whatever is left to send.
func (wt *watcher) mustEnd() bool {
	return wt.out.err != nil || wt.ctx.Err() != nil || wt.cache.expired.Load() || wt.out.deadline.shed.Load() ||
		wt.drained.overdue(time.Duration(wt.cache.watchWrites.grace.Load()))
}

// maxSettling is how often a watcher whose changes are coalesced looks for the end of them at once.
const maxSettling = 4

// settleAfter is how soon it looks again if nothing wakes it.
const settleAfter = time.Second

// sendChangesAndBookmark sends pending changes, and a bookmark if one is due or last is set, or if
// changes were coalesced: it tells the client that it has them all. It sends no bookmark if the
// store was closed meanwhile, because changes may be missing then, and none that says less than the
// changes before it. ends is last, or that the cache ends the watch meanwhile.
func (wt *watcher) sendChangesAndBookmark(last bool) (ends bool, err error) {
	upTo, until := uint64(0), uint64(math.MaxUint64)
	asked, completes := last || wt.bookmarks.due(wt, false), false
	if asked {
		wt.cache.clock.Observe(func(rv uint64) { upTo = rv })
	}
	settled, all := true, true
	for range maxSettling {
		if last {
			until = upTo
		}
		if (asked || completes) && wt.selective {
			settled = wt.cache.hub.flush()
		}
		wt.acquireScratch()
		if all, err = wt.sendChanges(until); err != nil {
			return false, err
		}
		if !all || upTo >= wt.coalesced || wt.source.Closed() {
			break
		}
		completes = true
		before := upTo
		wt.cache.clock.Observe(func(rv uint64) { upTo = rv })
		if upTo == before {
			break
		}
	}
	if !all { // a bookmark tells of what was sent
		upTo, last = wt.sentUpTo, last || wt.drained.due() || wt.out.deadline.shed.Load()
	}
	if upTo < wt.coalesced && wt.bookmarks.enabled {
		wt.bookmarks.timer.Reset(settleAfter) // what completes them need not wake this watcher
	}
	due := completes || wt.bookmarks.due(wt, last)
	if !due || !settled || upTo < wt.coalesced || wt.cache.expired.Load() || wt.overflows() || wt.source.Closed() || wt.out.err != nil || wt.ctx.Err() != nil {
		return last, nil
	}
	return last, wt.sendBookmarkUpTo(upTo)
}

// sendChanges sends pending changes: all of them, or those up to a resourceVersion at least. It
// stops before that if the watch must end, or a drain ends it: there may be no end of changes for a
// client that takes less than comes. all says that it was not stopped. A selective watcher that has
// caught up moves from its cursor to the hub.
func (wt *watcher) sendChanges(until uint64) (all bool, err error) {
	for {
		if all, err = wt.sendBatches(until); !all || err != nil {
			return false, err
		}
		l, ok := wt.source.(*cursorSource)
		if !ok || !wt.selective || wt.sentUpTo >= until {
			return true, nil
		}
		sub, err := wt.cache.hub.join(wt.interest, l.Cursor)
		if err != nil { // the store was closed
			return true, nil
		}
		wt.setSource(sub)
	}
}

// sendBatches is sendChanges for the changes of one source. Between two batches it sends what else
// is due.
func (wt *watcher) sendBatches(until uint64) (all bool, err error) {
	batch := wt.scratch.changes[:]
	for sent := 0; !wt.mustEnd(); sent++ {
		n := wt.source.Next(batch)
		if n == 0 {
			return true, nil
		}
		wt.share = wt.hasPeers()
		// Otherwise only the encoder reads the object.
		wt.matcher.share = wt.share && wt.matcher.looksInside()
		err := wt.sendBatch(batch[:n])
		clear(batch[:n])
		switch {
		case err != nil || wt.overflows():
			return false, err
		case wt.sentUpTo >= until:
			return true, nil
		case until == math.MaxUint64 && wt.drained.due():
			return false, nil
		case sent > 0: // most often there is only one, and the bookmark that follows tells of more
			if err := wt.sendBookmarkBetween(); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

// hasPeers reports whether other watchers are sent the same events.
func (wt *watcher) hasPeers() bool {
	others := int(wt.cache.ownCursors.Load())
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
	if (behind || relisted) && wt.cache.cfg.ExpireLate {
		return errExpired(wt.sentUpTo)
	}
	if behind {
		wt.cache.counters.caughtUp.Add(1)
	}
	if behind || relisted {
		return wt.catchUp(changes, relisted)
	}
	for i := range changes {
		if wt.mustEnd() {
			return nil // the send loop asks mustEnd again and ends the watch
		}
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
// the object may no longer match, and no later change tells that. So a client that wants bookmarks
// gets one which says that the changes are coalesced, and another when it has them all. By then
// more may have come, so that it is caught up once more.
func (wt *watcher) catchUp(changes []store.Change, relisted bool) error {
	g, upTo, complete := wt.coalesce(changes, relisted)
	wt.out.deadline.catchUp.Store(g)
	defer func() {
		wt.out.deadline.catchUp.Store(nil)
		g.close()
	}()
	if err := wt.sendCoalesced(upTo); err != nil {
		return err
	}
	wt.coalesces = true
	defer func() { wt.coalesces = false }()
	for i, ch := range g.changes {
		if wt.mustEnd() {
			return wt.shedError()
		}
		ended, err := wt.endsMatching(&ch)
		if err == nil && ended {
			err = wt.sendEvent(wire.Deleted, ch.Old, wt.clientVersion)
			g.dropOld(i)
		}
		if err != nil {
			return err
		}
	}
	for i, ch := range g.changes {
		if wt.mustEnd() {
			return wt.shedError()
		}
		if isZero(ch) {
			continue
		}
		if err := wt.sendChange(&ch); err != nil {
			return err
		}
		g.drop(i)
	}
	if complete {
		wt.sentUpTo = max(wt.sentUpTo, upTo)
	}
	if wt.coalesced == 0 || wt.coalesced > wt.sentUpTo {
		return nil
	}
	return wt.sendBookmarkUpTo(wt.sentUpTo)
}

// shedError is the error with which a watch ends that is shed while its client has neither the
// state of one version nor that of another. nil: it is not shed.
func (wt *watcher) shedError() error {
	if wt.out.deadline.shed.Load() {
		return errExpired(wt.sentUpTo)
	}
	return nil
}

// coalesce gathers changes, one for each key, with those that wait: all of what the log has
// dropped, and all of a relist. Up to the resourceVersion that it returns nothing is known of
// their order. complete says that there are no others up to it: a relist that goes on may bring
// more. It clears changes, so that nothing is kept but what it returns, and the source.
func (wt *watcher) coalesce(changes []store.Change, relisted bool) (g *coalescer, upTo uint64, complete bool) {
	g = newCoalescer(&wt.cache.held)
	now := uint64(0) // up to it, the source has what the store has; 0: that was not asked
	observe := func() {
		wt.cache.clock.Observe(func(rv uint64) { now = rv }) // most relists are complete then
		if wt.selective {
			wt.cache.hub.flush()
		}
	}
	if relisted {
		observe()
	}
	add := func(changes []store.Change) {
		for i := range changes {
			ch := &changes[i]
			rv, ok := wt.cache.history.relisted(ch.Revision)
			if relisted = ok; ok {
				ch.Coalesced = true
			}
			if upTo = max(upTo, rv); !ch.Missed {
				upTo = max(upTo, ch.ResourceVersion)
			}
			g.add(*ch)
		}
		clear(changes)
	}
	add(changes)
	more := make([]store.Change, batch)
	for complete = true; wt.source.Pending() > 0 || relisted; { // much faster than any writer
		if relisted && now == 0 {
			observe()
		}
		n := wt.source.Next(more)
		if n == 0 {
			complete = upTo <= now && !wt.source.Closed()
			break
		}
		add(more[:n])
	}
	wt.source.release()
	g.compact()
	return g, upTo, complete
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
