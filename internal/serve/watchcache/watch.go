package watchcache

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// watcher serves one WATCH. The goroutine of its request waits; what is to be sent is sent by a
// worker. Only one of the two uses it at a time.
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
	coalesced   uint64
	coalesces   bool   // what is sent now is coalesced
	share       bool   // what is sent now is also sent to others
	events      uint64 // sent since the last addEventCount
	buffer      uint64 // changes that may wait, see Config.WatchBuffer; 0: any number
	bookmarks   *bookmarkTimer
	noBookmarks bool // see Config.Bookmarks
	drained     drainTimer
	over        bool // nothing more is sent

	bookmarkDelay time.Duration // see Config.Bookmarks
}

// openWatch begins a WATCH: it sends the initial state, and what has changed meanwhile. It waits
// for nothing that has yet to come: serve does. It returns nil if the watch has ended. An error
// becomes an ERROR event.
func (c *Cache) openWatch(w http.ResponseWriter, r *http.Request, o *request.Options, s *selector, rep representation) *watcher {
	timeout := o.Timeout
	if timeout == 0 {
		timeout = c.cfg.MinWatch + rand.N(c.cfg.MinWatch)
	}
	wt := &watcher{
		cache:   c,
		options: o,
		matcher: matcher{selector: s, cache: c},
		rep:     rep,
		initial: o.StartsWithState(),
	}
	wt.ctx, wt.cancel = context.WithTimeout(r.Context(), timeout)
	wt.interest, wt.selective = s.interest(c)
	wt.bookmarkDelay, wt.noBookmarks = c.cfg.Bookmarks()
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
	var stopped bool
	var err error
	early := !wt.initial && !wt.future
	if early {
		stopped, err = wt.start()
	}
	if wt.out.flush() != nil { // the headers
		return nil
	}
	if wt.future {
		open = true
		return wt
	}
	if !early {
		stopped, err = wt.start()
	}
	wt.begin(stopped, err)
	if open = !wt.over; !open {
		return nil
	}
	return wt
}

// begin sends what has changed since the start, or finishes a watch that has stopped or failed.
func (wt *watcher) begin(stopped bool, err error) {
	if stopped || err != nil {
		wt.finish(err)
		return
	}
	wt.bookmarks, wt.drained = wt.newBookmarkTimer(wt.bookmarkDelay), wt.cache.drain.newTimer()
	if wt.initial && !(wt.bookmarks.enabled && wt.bookmarks.initialEvents) { // no bookmark will say so
		wt.clientVersion = max(wt.clientVersion, wt.sentUpTo)
	}
	wt.send()
}

// finish ends what is sent, with an ERROR event if err is not nil or the cache has expired. That
// the store was closed is no error here, as it is none for a watch that began earlier. A stream
// that has not sent what it has cannot end as if it had: finish then breaks the connection off.
func (wt *watcher) finish(err error) {
	wt.over = true
	wt.releaseScratch()
	wt.setSource(nil)
	if errors.Is(err, store.ErrClosed) {
		err = nil
	}
	if err == nil && wt.cache.expired.Load() {
		err = errExpired(max(wt.sentUpTo, wt.options.RV))
	}
	if err != nil {
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
	object, marshalErr := codec.MarshalAs(wt.rep.Encoding, StatusOf(err))
	if marshalErr != nil {
		return
	}
	wt.out.write(wire.AppendEvent(nil, wt.rep.Encoding, wire.Error, statusTypeMeta, object))
}

// end releases what the watch has.
func (wt *watcher) end() {
	wt.cancel()
	if wt.bookmarks != nil {
		wt.bookmarks.timer.Stop()
	}
	wt.releaseScratch()
	wt.setSource(nil)
	wt.out.end()
	if wt.cache.counters.watchers.Add(-1) == 0 {
		wt.cache.encoded.clear()
	}
}

// setSource closes the current source and sets the next; nil means none.
func (wt *watcher) setSource(from changeSource) {
	if _, ok := wt.source.(*cursorSource); ok {
		wt.cache.ownCursors.Add(-1)
	}
	if wt.source != nil {
		wt.source.Close()
	}
	wt.source = from
	wt.out.deadline.setSource(from)
	if _, ok := from.(*cursorSource); ok {
		wt.cache.ownCursors.Add(1)
	}
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
	wt.addEventCount()
	if wt.scratch != nil {
		wt.scratch.release(&wt.matcher, &wt.rep)
		wt.scratch = nil
	}
	wt.matcher.forget()
}

func (wt *watcher) addEventCount() {
	if wt.events > 0 {
		wt.cache.counters.events.Add(wt.events)
		wt.events = 0
	}
}

// start sends the initial state if it is wanted, and opens the source of changes after it, or after
// the resourceVersion of the request, which the cache has, or from now on. stopped says that the
// watch has ended.
func (wt *watcher) start() (stopped bool, err error) {
	c := wt.cache
	if wt.initial {
		if _, err := c.stateNotOlderThan(wt.ctx, wt.options.RV); err != nil {
			return false, err
		}
		return wt.sendInitialEvents()
	}
	if wt.options.RV == 0 {
		_, err = wt.openSource()
		wt.clientVersion = wt.sentUpTo
		return false, err
	}
	wt.sentUpTo, wt.clientVersion = wt.options.RV, wt.options.RV
	cursor, err := c.cursorAfter(wt.options.RV)
	switch {
	case err == nil:
		wt.setSource(&cursorSource{Cursor: cursor})
	case wt.future && errors.Is(err, errGap): // the client retries, perhaps with another server
		return true, nil
	}
	return false, err
}

// waitFor blocks until the cache has rv. It returns true if the watch ends first.
func (c *Cache) waitFor(ctx context.Context, rv uint64) (stopped bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.drain.ended, cancel)()
	return c.clock.Wait(ctx, rv) != nil
}

// openSource returns the current snapshot and sets the source to the changes after it.
func (wt *watcher) openSource() (sn *store.Snapshot, err error) {
	c := wt.cache
	if wt.selective {
		sub, sn, rv, err := c.hub.subscribe(wt.interest)
		if err != nil {
			return nil, c.storeError(err)
		}
		wt.sentUpTo = rv
		wt.setSource(sub)
		return sn, nil
	}
	rv, sn, cursor, err := c.now()
	if err != nil {
		return nil, c.storeError(err)
	}
	wt.sentUpTo = rv
	wt.setSource(&cursorSource{Cursor: cursor})
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
func (wt *watcher) sendInitialEvents() (stopped bool, err error) {
	c := wt.cache
	sn, err := wt.openSource()
	if err != nil {
		return false, err
	}
	pl := c.planQuery(&state{rv: wt.sentUpTo, sn: sn}, wt.matcher.selector)
	m := wt.matcher.selector
	wt.matcher.selector = pl.residual
	defer func() { wt.matcher.selector = m }()
	wt.acquireScratch()
	wt.out.deadline.beginSending()
	wt.out.deadline.beginState(initialRate)
	if wt.selective {
		wt.out.deadline.setState(sn)
	}
	defer wt.out.deadline.endState()
	fetched := 0
	for o := range pl.walk("") {
		fetched++
		ok, err := wt.matcher.match(o)
		if err == nil && ok {
			err = wt.sendEvent(wire.Added, o, 0)
		}
		if err != nil {
			return false, err
		}
		if err := wt.shedError(); err != nil {
			return false, err
		}
		if wt.out.err != nil || wt.ctx.Err() != nil || c.drain.ended.Err() != nil || wt.overflows() {
			return true, nil
		}
	}
	c.indexes.record(&pl, m, true, fetched, int(wt.events))
	c.counters.initialEvents.Add(wt.events)
	return false, nil
}
