package watchcache

import (
	"cmp"
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
	selective bool // the watcher joins the hub when it has caught up
	source    changeSource
	scratch   *scratch // nil while the watcher waits
	turn      flushTurn

	initial       bool   // the watch starts with the state, as ADDED events
	future        bool   // the watch starts after a resourceVersion that the cache had not reached
	sentUpTo      uint64 // the client has received every change up to it
	clientVersion uint64 // the newest resourceVersion that the client requested or received
	// coalesced is the version up to which changes are coalesced, according to a bookmark that the
	// client received. It is 0 after a later bookmark has said that the client has received all of
	// them.
	coalesced uint64
	coalesces bool   // the watcher is sending coalesced changes
	events    uint64 // sent since the last releaseScratch
	buffer    uint64 // number of changes that may wait, see Config.WatchBuffer; 0: no limit
	bookmarks *bookmarkTimer
	drained   drainTimer
	over      bool // the watcher sends nothing more
}

// openWatch starts a WATCH: it sends the initial state and the changes after it. It does not wait
// for a resourceVersion that the cache has not reached; serve does that. It returns nil if the
// watch has ended. An error becomes an ERROR event.
func (c *Cache) openWatch(w http.ResponseWriter, r *http.Request, o *request.Options, s *selector, rep representation) *watcher {
	timeout := cmp.Or(o.Timeout, c.cfg.MinWatch+rand.N(c.cfg.MinWatch))
	wt := &watcher{cache: c, options: o, matcher: matcher{selector: s, cache: c}, rep: rep, initial: o.StartsWithState()}
	wt.ctx, wt.cancel = context.WithTimeout(r.Context(), timeout)
	wt.interest, wt.selective = s.interest(c)
	if c.cfg.WatchBuffer != nil {
		wt.buffer = uint64(max(0, c.cfg.WatchBuffer()))
	}
	c.counters.watches.Add(1)
	c.counters.watchers.Add(1)
	// Like kube-apiserver, compress only initial events, and only for clients that use them as a list.
	zip := o.WantsInitialEvents() && o.AllowBookmarks && request.AcceptsGzip(r.Header)
	wt.out = c.newStream(w, payerOf(r.Context()), rep.WatchContentType(), zip, wt.selective)
	open := false
	defer func() {
		if !open {
			wt.end()
		}
	}()
	wt.future = !wt.initial && o.RV > 0 && c.currentState().rv < o.RV
	// If the watch does not start at a future resourceVersion, start it before its client receives the
	// headers. A client that has received the headers must receive every later change, and later
	// changes must not expire the resourceVersion of the request.
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

// begin sends the changes that arrived after start was called, or finishes a watch whose start
// returned an error.
func (wt *watcher) begin(err error) {
	if err != nil {
		wt.finish(err)
		return
	}
	wt.bookmarks, wt.drained = wt.newBookmarkTimer(), wt.cache.drain.newTimer()
	if wt.initial && !(wt.bookmarks.enabled && wt.bookmarks.initialEvents) { // no bookmark will follow
		wt.clientVersion = max(wt.clientVersion, wt.sentUpTo)
	}
	wt.send()
}

// finish ends the response. It writes an ERROR event if the cache has expired, or if err is neither
// errEnd nor store.ErrClosed. After store.ErrClosed, the watch ends like an older watch of a closed
// store, without an ERROR event. If finish cannot send the buffered bytes in time, it closes the
// connection, so that the client notices the missing bytes.
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
	if errors.Is(wt.ctx.Err(), context.Canceled) { // disconnected, or permission lost
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

// end releases the resources of the watch.
func (wt *watcher) end() {
	wt.cancel()
	wt.releaseScratch()
	wt.setSource(nil)
	wt.out.end()
	if wt.cache.counters.watchers.Add(-1) == 0 {
		wt.cache.encoded.clear()
	}
}

// setSource closes the current source of changes and sets the next one; nil means none.
func (wt *watcher) setSource(from changeSource) {
	if wt.source != nil {
		wt.source.Close()
	}
	wt.source = from
	wt.out.deadline.source.Store(&from)
}

// overflows reports whether more changes wait than fit into the watcher's buffer. A watcher that
// has joined the hub has no such buffer, because the hub coalesces its waiting changes.
func (wt *watcher) overflows() bool {
	l, ok := wt.source.(*cursorSource)
	return ok && wt.buffer > 0 && l.Lag() > wt.buffer
}

// acquireScratch acquires the buffers for sending; releaseScratch returns them.
func (wt *watcher) acquireScratch() {
	if wt.scratch == nil {
		wt.scratch = newScratch(&wt.matcher, &wt.rep)
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

// start opens the source of changes. If the client requested the initial state, start sends that
// state, and the changes start after it. Otherwise the changes start after the resourceVersion of
// the request, which the cache must have reached. If the request has no resourceVersion, they start
// with the next change.
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
	case wt.future && errors.Is(err, errGap): // the client retries, perhaps at another server
		return errEnd
	}
	return err
}

// waitForStart blocks until the cache has reached the resourceVersion of the request. If the watch
// ends first, it returns errEnd.
func (wt *watcher) waitForStart() error {
	ctx, cancel := context.WithCancel(wt.ctx)
	defer cancel()
	defer context.AfterFunc(wt.cache.drain.ended, cancel)()
	if wt.cache.clock.Wait(ctx, wt.options.RV) != nil {
		return errEnd
	}
	return nil
}

// openSource returns the current snapshot and sets the source to the changes after it. A selective
// watcher joins the hub immediately.
func (wt *watcher) openSource() (*store.Snapshot, error) {
	rv, sn, cursor, err := wt.cache.now()
	if err != nil {
		return nil, wt.cache.storeError(err)
	}
	wt.sentUpTo = rv
	wt.setSource(&cursorSource{Cursor: cursor})
	wt.joinHub()
	return sn, nil
}

// now returns the current resourceVersion and snapshot, and a cursor over the changes after the
// snapshot.
func (c *Cache) now() (rv uint64, sn *store.Snapshot, cursor *store.Cursor, err error) {
	for {
		c.clock.Observe(func(current uint64) {
			rv, sn = current, c.store.Snapshot()
			cursor, err = c.store.CursorAt(sn.Revision())
		})
		if !errors.Is(err, store.ErrTrimmed) { // ErrTrimmed: changes have arrived meanwhile; try again
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

// serve sends changes and bookmarks until the watch ends. If the watch starts at a future
// resourceVersion, serve first waits until the cache has reached it.
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

// wait blocks until the watcher has something to send, or the watch ends.
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

// waitForFlush waits as long as the pacer requires, so that changes shortly after each other share
// one write.
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

// send sends pending changes and bookmarks, and calls finish if the watch ends.
func (wt *watcher) send() {
	if err := wt.sendPending(); err != nil {
		wt.finish(err)
	}
}

// sendPending sends pending changes, and a bookmark if one is due. An error ends the watch. If the
// cache ends the watch, sendPending first sends a last bookmark.
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

// mustEnd reports whether the watch must end before the next event, even if changes are pending.
func (wt *watcher) mustEnd() bool {
	return wt.out.err != nil || wt.ctx.Err() != nil || wt.cache.expired.Load() || wt.out.deadline.shed.Load() ||
		wt.drained.overdue(time.Duration(wt.cache.watchWrites.grace.Load()))
}

// maxSettling bounds the attempts of one call of sendChangesAndBookmark to reach the end of the
// coalesced changes. There is no wait between two attempts.
const maxSettling = 4

// settleAfter is the time after which the watcher tries again to reach the end of the coalesced
// changes, if no change wakes it earlier.
const settleAfter = time.Second

// sendChangesAndBookmark sends pending changes. It then sends a bookmark if one is due, if last is
// set, or if the client has received all coalesced changes of a group. It sends no bookmark if the
// client may lack changes, because the store was closed or the watch fails. It also sends none that
// would be older than the announced end of the coalesced changes. ends is true if last is set, or
// if the cache ends the watch meanwhile.
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
	if !all { // the bookmark must not exceed what was sent
		upTo, last = wt.sentUpTo, last || wt.drained.due() || wt.out.deadline.shed.Load()
	}
	if upTo < wt.coalesced && wt.bookmarks.enabled {
		wt.bookmarks.timer.Reset(settleAfter) // the last coalesced change may not wake this watcher
	}
	due := completes || wt.bookmarks.due(wt, last)
	if !due || !settled || upTo < wt.coalesced || wt.cache.expired.Load() || wt.overflows() || wt.source.Closed() || wt.out.err != nil || wt.ctx.Err() != nil {
		return last, nil
	}
	return last, wt.bookmarkUpTo(upTo)
}

// sendChanges sends all pending changes, or at least the pending changes up to the resourceVersion
// in until. If the cache ends the watch meanwhile, sendChanges sends the remaining changes only if
// they fit into one batch: a client that reads more slowly than changes arrive may never reach the
// end. all is false if sendChanges stopped early. Between two batches, sendChanges sends a bookmark
// if one is due.
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
			if wt.source.lag() > uint64(len(batch)) {
				return false, nil
			}
			wt.cache.clock.Observe(func(rv uint64) { until = rv })
		case sent > 0: // most calls send one batch, and the caller sends the bookmark after it
			if err := wt.bookmarkBetween(); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

// joinHub moves a selective watcher that has caught up from its cursor to the hub. It reports
// whether it moved the watcher, which may then have more pending changes.
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
			return nil // the send loop calls mustEnd again and ends the watch
		}
		if err := wt.sendChange(&changes[i]); err != nil {
			return err
		}
	}
	return nil
}

// relisted reports whether a relist added the change.
func (wt *watcher) relisted(ch store.Change) bool {
	_, ok := wt.cache.history.relisted(ch.Revision)
	return ok
}

// catchUp sends changes that may each replace several earlier changes. Such changes have two
// causes: the watcher is so slow that its changes were coalesced, or a relist found the changes.
// catchUp first sends the deletions of objects that no longer match, with the resourceVersion that
// the client already has. Otherwise the client could miss such a deletion if it disconnects between
// these events and resumes from its last resourceVersion. The change that ended the match may be
// older than this resourceVersion, and later changes of the object do not match.
//
// That order is not enough if the client resumes at a server that has the intermediate states. At
// such a server, the object may already not match at this resourceVersion, so the client receives
// no deletion. Therefore catchUp sends two bookmarks to a client that requested bookmarks. The
// first precedes the changes and announces that they are coalesced. The second follows when the
// client has received all of them. If more such changes arrive meanwhile, the watcher is caught up
// again before the second bookmark.
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

// shedError returns a 410 for a watch that is being shed. The caller is sending an initial state or
// coalesced changes, so its client does not have the state of any version. If the watch is not
// being shed, shedError returns nil.
func (wt *watcher) shedError() error {
	if wt.out.deadline.shed.Load() {
		return errExpired(wt.sentUpTo)
	}
	return nil
}

// coalesce combines changes with the pending changes, and returns one change per key. It includes
// the whole backlog of the log and the whole of a relist. The order of the changes up to upTo is
// unknown. complete says that no other changes up to upTo exist; it is false while a relist may add
// more. coalesce clears changes and releases the source's changes, so that only g retains them.
func (wt *watcher) coalesce(changes []store.Change, relisted bool) (g *changeQueue, upTo uint64, complete bool) {
	g = &changeQueue{held: &wt.cache.held}
	g.coalesce()
	now := uint64(0) // the source has all changes up to it; 0: not determined yet
	observe := func() {
		wt.cache.clock.Observe(func(rv uint64) { now = rv }) // most relists are complete at this time
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
	for complete = true; wt.source.Pending() > 0 || relisted; { // ends: writers are slower
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

// endsMatching reports whether a coalesced change ends the match of an object that matched before.
// An object with the same key and another uid is a different object.
func (wt *watcher) endsMatching(ch *store.Change) (bool, error) {
	if !ch.Coalesced {
		return false, nil
	}
	before, after, err := wt.matches(ch)
	return before && !(after && ch.Old.SameUID(ch.New)), err
}
