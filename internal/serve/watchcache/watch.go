package watchcache

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// watcher serves one WATCH. Only the goroutine of its request uses it.
type watcher struct {
	cache     *Cache
	ctx       context.Context // ends the watch, at its timeout at the latest
	cancel    context.CancelFunc
	options   *request.Options
	matcher   matcher
	rep       representation
	out       *stream
	interest  interest
	selective bool // joins the hub once it has caught up
	source    changeSource
	scratch   *scratch // nil while it waits
	turn      flushTurn

	initial       bool   // begins with the state, as ADDED events
	future        bool   // begins after a resourceVersion that the cache did not have at first
	sentUpTo      uint64 // the client has seen every change up to it
	clientVersion uint64 // the newest resourceVersion that the client has: it asked for it, or got it
	// coalesced is the version up to which changes are coalesced, as a bookmark has said, while none
	// has said that the client has them all. 0: nothing is.
	coalesced uint64
	coalesces bool   // what is sent now is coalesced
	events    uint64 // sent since the last releaseScratch
	buffer    uint64 // changes that may wait, see Config.WatchBuffer; 0: any number
	bookmarks *bookmarkTimer
	drained   drainTimer
	over      bool // nothing more is sent
}

// openWatch begins a WATCH: it sends the initial state, and what has changed meanwhile. It waits
// for nothing that has yet to come: serve does. It returns nil if the watch has ended. An error
// becomes an ERROR event.
func (c *Cache) openWatch(w http.ResponseWriter, r *http.Request, o *request.Options, s *selector, rep representation) *watcher {
	timeout := o.Timeout
	if timeout == 0 {
		timeout = c.cfg.MinWatch + rand.N(c.cfg.MinWatch)
	}
	wt := &watcher{cache: c, options: o, matcher: matcher{selector: s, cache: c}, rep: rep, initial: o.StartsWithState()}
	wt.ctx, wt.cancel = context.WithTimeout(r.Context(), timeout)
	wt.interest, wt.selective = s.interest(c)
	if c.cfg.WatchBuffer != nil {
		wt.buffer = uint64(max(0, c.cfg.WatchBuffer()))
	}
	c.counters.watches.Add(1)
	c.counters.watchers.Add(1)
	// As in kube-apiserver, only initial events are compressed, and only for clients that stream a
	// list.
	zip := o.WantsInitialEvents() && o.AllowBookmarks && request.AcceptsGzip(r.Header)
	wt.out = c.newStream(w, payerOf(r.Context()), rep.WatchContentType(), zip, wt.selective)
	open := false
	defer func() {
		if !open {
			wt.end()
		}
	}()
	wt.future = !wt.initial && o.RV > 0 && c.currentState().rv < o.RV
	// Before the client knows that the watch is open, if that need not wait: what it does then must
	// be seen, and what it wants to see must not expire by what happens meanwhile.
	var err error
	if !wt.initial && !wt.future {
		err = wt.start()
	}
	if wt.out.flush() != nil { // the headers
		return nil
	}
	if wt.initial {
		err = wt.start()
	}
	if !wt.future {
		wt.begin(err)
	}
	if open = !wt.over; open {
		return wt
	}
	return nil
}

// errEnd ends a watch without an ERROR event.
var errEnd = errors.New("watchcache: the watch ends")

// begin sends what has changed since the start, or finishes a watch whose start returned an error.
func (wt *watcher) begin(err error) {
	if err != nil {
		wt.finish(err)
		return
	}
	wt.bookmarks, wt.drained = wt.newBookmarkTimer(), wt.cache.drain.newTimer()
	if wt.initial && !(wt.bookmarks.enabled && wt.bookmarks.initialEvents) { // no bookmark will say so
		wt.clientVersion = max(wt.clientVersion, wt.sentUpTo)
	}
	wt.send()
}

// finish ends what is sent, with an ERROR event if the cache has expired, or for an error other
// than errEnd. That the store was closed is no error here, as it is none for a watch that began
// earlier. A stream that has not sent what it has cannot end as if it had: finish then breaks the
// connection off.
func (wt *watcher) finish(err error) {
	wt.over = true
	wt.releaseScratch()
	wt.setSource(nil)
	silent := errors.Is(err, errEnd) || errors.Is(err, store.ErrClosed)
	if silent && wt.cache.expired.Load() {
		silent, err = false, errExpired(max(wt.sentUpTo, wt.options.RV))
	}
	if !silent {
		wt.fail(err)
	}
	grace := drainGrace
	if errors.Is(wt.ctx.Err(), context.Canceled) { // the client has gone, or may not watch any more
		grace = closeGrace
	}
	if wt.out.finish(grace); errors.Is(wt.out.err, errTooSlow) {
		panic(http.ErrAbortHandler)
	}
}

// fail writes an ERROR event.
func (wt *watcher) fail(err error) {
	wt.cache.counters.failed(err)
	object, marshalErr := codec.Marshal(wt.rep.Encoding, StatusOf(err))
	if marshalErr != nil {
		return
	}
	wt.out.write(wire.AppendEvent(nil, wt.rep.Encoding, wire.Error, statusTypeMeta, object))
}

// end releases what the watch has.
func (wt *watcher) end() {
	wt.cancel()
	wt.releaseScratch()
	wt.setSource(nil)
	wt.out.end()
	if wt.cache.counters.watchers.Add(-1) == 0 {
		wt.cache.encoded.clear()
	}
}

// setSource closes the current source and sets the next; nil means none.
func (wt *watcher) setSource(from changeSource) {
	if wt.source != nil {
		wt.source.Close()
	}
	wt.source = from
	wt.out.deadline.source.Store(&from)
}

// overflows reports whether more changes wait than the watcher's buffer would hold. A watcher that
// has joined the hub has no such buffer: the hub merges what waits for it.
func (wt *watcher) overflows() bool {
	l, ok := wt.source.(*cursorSource)
	return ok && wt.buffer > 0 && l.Lag() > wt.buffer
}

// acquireScratch takes the buffers for sending; releaseScratch returns them.
func (wt *watcher) acquireScratch() {
	if wt.scratch == nil {
		wt.scratch = newScratch()
		wt.scratch.lend(&wt.matcher, &wt.rep)
	}
}

func (wt *watcher) releaseScratch() {
	wt.cache.counters.events.Add(wt.events)
	wt.events = 0
	if wt.scratch != nil {
		wt.scratch.release(&wt.matcher, &wt.rep)
		wt.scratch = nil
	}
	wt.matcher.forget()
}

// start sends the initial state if it is wanted, and opens the source of changes after it, or after
// the resourceVersion of the request, which the cache has, or from now on.
func (wt *watcher) start() error {
	c := wt.cache
	if wt.initial {
		if _, err := c.stateNotOlderThan(wt.ctx, wt.options.RV); err != nil {
			return err
		}
		return wt.sendInitialEvents()
	}
	if wt.options.RV == 0 {
		_, err := wt.openSource()
		wt.clientVersion = wt.sentUpTo
		return err
	}
	wt.sentUpTo, wt.clientVersion = wt.options.RV, wt.options.RV
	cursor, err := c.cursorAfter(wt.options.RV)
	switch {
	case err == nil:
		wt.setSource(&cursorSource{Cursor: cursor})
	case wt.future && errors.Is(err, errGap): // the client retries, perhaps with another server
		return errEnd
	}
	return err
}

// waitForStart blocks until the cache has the resourceVersion of the request. The error is errEnd.
func (wt *watcher) waitForStart() error {
	ctx, cancel := context.WithCancel(wt.ctx)
	defer cancel()
	defer context.AfterFunc(wt.cache.drain.ended, cancel)()
	if wt.cache.clock.Wait(ctx, wt.options.RV) != nil {
		return errEnd
	}
	return nil
}

// openSource returns the current snapshot and sets the source to the changes after it.
func (wt *watcher) openSource() (sn *store.Snapshot, err error) {
	var rv uint64
	var from changeSource
	if wt.selective {
		from, sn, rv, err = wt.cache.hub.subscribe(wt.interest)
	} else {
		var cursor *store.Cursor
		rv, sn, cursor, err = wt.cache.now()
		from = &cursorSource{Cursor: cursor}
	}
	if err != nil {
		return nil, wt.cache.storeError(err)
	}
	wt.sentUpTo = rv
	wt.setSource(from)
	return sn, nil
}

// now returns the current resourceVersion and snapshot, and a cursor over the changes after it.
func (c *Cache) now() (rv uint64, sn *store.Snapshot, cursor *store.Cursor, err error) {
	for {
		c.clock.Observe(func(current uint64) {
			rv, sn = current, c.store.Snapshot()
			cursor, err = c.store.CursorAt(sn.Revision())
		})
		if !errors.Is(err, store.ErrTrimmed) { // else a clock without a lock has moved meanwhile
			return rv, sn, cursor, err
		}
	}
}

// sendInitialEvents sends the current state as ADDED events.
func (wt *watcher) sendInitialEvents() error {
	c := wt.cache
	sn, err := wt.openSource()
	if err != nil {
		return err
	}
	pl := c.planQuery(&state{rv: wt.sentUpTo, sn: sn}, wt.matcher.selector)
	m := wt.matcher.selector
	wt.matcher.selector = pl.residual
	defer func() { wt.matcher.selector = m }()
	wt.acquireScratch()
	wt.out.deadline.beginSending()
	wt.out.deadline.beginState(initialRate)
	if wt.selective {
		wt.out.deadline.state.Store(sn)
	}
	defer wt.out.deadline.endState()
	fetched := 0
	for o := range pl.walk("") {
		fetched++
		ok, err := wt.matcher.match(o)
		if err == nil && ok {
			err = wt.writeEvent(wire.Added, o, 0)
		}
		if err == nil {
			err = wt.shedError()
		}
		if err == nil && (wt.out.err != nil || wt.ctx.Err() != nil || c.drain.ended.Err() != nil || wt.overflows()) {
			err = errEnd
		}
		if err != nil {
			return err
		}
	}
	c.indexes.record(&pl, m, true, fetched, int(wt.events))
	c.counters.initialEvents.Add(wt.events)
	return nil
}

// serve sends changes and bookmarks until the watch ends. First it waits for what has yet to come
// where the watch begins.
func (wt *watcher) serve() {
	defer wt.end()
	if wt.future {
		err := wt.waitForStart()
		if err == nil {
			err = wt.start()
		}
		wt.begin(err)
	}
	for !wt.over {
		wt.wait()
		wt.send()
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
	if err := wt.sendPending(); err != nil {
		wt.finish(err)
	}
}

// sendPending sends pending changes, and a bookmark if one is due. An error ends the watch: if the
// cache ends it, a bookmark comes last.
func (wt *watcher) sendPending() error {
	if wt.ctx.Err() != nil {
		return errEnd
	}
	wt.out.deadline.beginSending()
	if err := wt.endInitialEvents(); err != nil {
		return err
	}
	last, err := wt.sendChangesAndBookmark(wt.drained.due())
	if err != nil {
		return err
	}
	if last || wt.mustEnd() || wt.out.flush() != nil || wt.source.Closed() || wt.overflows() {
		return errEnd
	}
	wt.out.deadline.endSending()
	wt.releaseScratch()
	wt.cache.cfg.Flush.flushed(&wt.turn)
	return nil
}

// mustEnd reports whether the watch ends before the next event, even if events are left to send.
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
	return last, wt.bookmarkUpTo(upTo)
}

// sendChanges sends pending changes: all of them, or those up to a resourceVersion at least. It
// stops before that if the watch must end, or a drain ends it: there may be no end of changes for a
// client that takes less than comes. all says that it was not stopped. Between two batches it sends
// a bookmark that is due.
func (wt *watcher) sendChanges(until uint64) (all bool, err error) {
	batch := wt.scratch.changes[:]
	for sent := 0; !wt.mustEnd(); sent++ {
		n := wt.source.Next(batch)
		if n == 0 {
			if wt.sentUpTo < until && wt.joinHub() {
				continue
			}
			return true, nil
		}
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
			if err := wt.bookmarkBetween(); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

// joinHub moves a selective watcher that has caught up from its cursor to the hub. It reports
// whether it has moved: more changes may wait there.
func (wt *watcher) joinHub() bool {
	l, ok := wt.source.(*cursorSource)
	if !ok || !wt.selective {
		return false
	}
	sub, err := wt.cache.hub.join(wt.interest, l.Cursor)
	if err != nil { // the store was closed
		return false
	}
	wt.setSource(sub)
	return true
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
	if err := wt.announceCoalesced(upTo); err != nil {
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
			err = wt.writeEvent(wire.Deleted, ch.Old, wt.clientVersion)
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
	return wt.bookmarkUpTo(wt.sentUpTo)
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
func (wt *watcher) coalesce(changes []store.Change, relisted bool) (g *changeQueue, upTo uint64, complete bool) {
	g = &changeQueue{held: &wt.cache.held}
	g.coalesce()
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
