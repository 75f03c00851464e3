package watchcache

import (
	"context"
	"slices"
	"time"

	"github.com/weirproject/weir/internal/store"
	"github.com/weirproject/weir/internal/wire"
)

// beforeDeadline is how long before its end a watch sends its last bookmark.
const beforeDeadline = 2 * time.Second

// follow sends changes and bookmarks until the watch ends. Where the cache ends it, that is with what was done before, and a bookmark.
func (wt *watcher) follow(ctx context.Context, deadline time.Time) error {
	marks := wt.newMarks(deadline)
	defer marks.timer.Stop()
	turn := wt.cache.drain.turn()
	defer turn.stop()
	for {
		if err := wt.endState(marks); err != nil {
			return err
		}
		last := turn.came()
		if err := wt.sendAllMarked(ctx, marks, last); err != nil {
			return err
		}
		if wt.out.err != nil || ctx.Err() != nil || wt.out.flush() != nil || wt.from.Closed() || last {
			return nil
		}
		wt.idle()
		flushed := time.Now()
		select {
		case <-wt.from.Ready():
			wt.gather(ctx, flushed)
		case <-marks.timer.C:
			marks.rang = true
		case <-ctx.Done():
			return nil
		case <-turn.begun:
			turn.draw()
		case <-turn.C():
		case <-wt.cache.drain.over.Done():
		}
	}
}

// sendAllMarked sends all changes that there are, and a bookmark behind them if one is due, or this is the last that the watch sends. None
// is sent if the store was closed meanwhile: then nobody knows whether those were all.
func (wt *watcher) sendAllMarked(ctx context.Context, marks *marks, last bool) error {
	upTo, due := marks.due(wt, last)
	settled := true
	if (due || last) && wt.routed {
		settled = wt.cache.hub.settle()
	}
	wt.wake()
	if err := wt.sendAll(ctx); err != nil {
		return err
	}
	if !due || !settled || wt.from.Closed() || wt.out.err != nil || ctx.Err() != nil {
		return nil
	}
	wt.sent = max(wt.sent, upTo)
	if err := wt.sendBookmark(wt.sent, false); err != nil {
		return err
	}
	marks.sent()
	return nil
}

// endState sends the bookmark that ends the initial events, if it is due. It does not wait for what has changed since: a client that is
// slower than changes come never has all of that.
func (wt *watcher) endState(marks *marks) error {
	if !marks.initial || !marks.rang || !marks.allowed {
		return nil
	}
	wt.wake()
	marks.sent()
	return wt.sendBookmark(wt.sent, true)
}

// gather lets changes come together that follow closely on what was flushed: to write to a client costs more than what is written.
func (wt *watcher) gather(ctx context.Context, flushed time.Time) {
	left := wt.cache.flush - time.Since(flushed)
	if left <= 0 {
		return
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-wt.cache.drain.over.Done():
	}
}

// sendAll sends all changes that there are. Then the watcher has caught up: it goes over to the hub if it can be routed.
func (wt *watcher) sendAll(ctx context.Context) error {
	for {
		batch := wt.scratch.changes[:]
		for n := wt.from.Next(batch); n > 0; n = wt.from.Next(batch) {
			wt.share = wt.shares()
			wt.m.share = wt.share && wt.m.looksInside() // else only whoever encodes looks into the object
			err := wt.sendBatch(batch[:n])
			clear(batch[:n])
			if err != nil || wt.out.err != nil || ctx.Err() != nil {
				return err
			}
		}
		l, ok := wt.from.(logged)
		if !ok || !wt.routed {
			return nil
		}
		sub, err := wt.cache.hub.join(wt.route, l.Cursor)
		if err != nil { // the store's end
			return nil
		}
		wt.follows(sub)
	}
}

// shares says whether what the watcher gets now is sent to others too.
func (wt *watcher) shares() bool {
	others := int(wt.cache.wide.n.Load())
	if sub, ok := wt.from.(*subscription); ok {
		others += sub.company()
	} else {
		others += int(wt.cache.hub.n.Load())
	}
	return others > 1
}

// sendBatch sends changes in their order.
func (wt *watcher) sendBatch(changes []store.Change) error {
	merged := func(ch store.Change) bool { return ch.Coalesced }
	switch late := wt.from.Pending() > 0 || slices.ContainsFunc(changes, merged); {
	case late && wt.cache.expireLate:
		return errExpired(wt.sent)
	case late && !wt.m.keyOnly():
		return wt.catchUp(changes)
	case late:
		wt.cache.counters.caughtUp.Add(1)
	}
	for i := range changes {
		if err := wt.change(&changes[i]); err != nil {
			return err
		}
	}
	return nil
}

// catchUp sends the changes of a watcher that has fallen behind the log, each of which may stand for several. Those that end an
// object's matching go first, with the resourceVersion that the client has already. Otherwise a client that loses its connection
// half-way, and resumes from the last resourceVersion that it got, could miss one: the change that ended the matching may lie before
// that resourceVersion, and what comes after it then concerns an object that does not match either before or after.
func (wt *watcher) catchUp(changes []store.Change) error {
	wt.cache.counters.caughtUp.Add(1)
	var g gathered
	for i := range changes {
		g.add(&changes[i])
	}
	more := make([]store.Change, batch)
	for wt.from.Pending() > 0 { // this is much faster than anybody writes
		for i := range wt.from.Next(more) {
			g.add(&more[i])
		}
	}
	g.compact()
	rest := g.changes[:0]
	for _, ch := range g.changes {
		ended, err := wt.endsMatching(&ch)
		if err == nil && ended {
			err = wt.send(wire.Deleted, ch.Old, wt.sent)
		} else {
			rest = append(rest, ch)
		}
		if err != nil {
			return err
		}
	}
	for i := range rest {
		if err := wt.change(&rest[i]); err != nil {
			return err
		}
	}
	return nil
}

// endsMatching says whether a change that stands for several leaves nothing that matches of something that did.
func (wt *watcher) endsMatching(ch *store.Change) (bool, error) {
	if !ch.Coalesced || ch.Old == nil {
		return false, nil
	}
	before, err := wt.m.match(ch.Old)
	if !before || err != nil || ch.New == nil {
		return before, err
	}
	after, err := wt.m.match(ch.New)
	return !after, err
}

// marks knows when the next bookmark is due.
type marks struct {
	timer    *time.Timer
	rang     bool
	allowed  bool
	initial  bool // the next one ends the initial events
	interval time.Duration
	last     time.Time // when the last one of the watch is to be sent; zero: it was
}

// newMarks begins with the bookmark that ends the initial events, if there is to be one: it is due at once, before anything that has
// changed since.
func (wt *watcher) newMarks(deadline time.Time) *marks {
	left := time.Until(deadline)
	mk := &marks{
		allowed:  wt.p.allowBookmarks && !wt.never,
		initial:  wt.p.sendInitial != nil && *wt.p.sendInitial,
		interval: wt.cache.bookmark,
		last:     deadline.Add(-min(beforeDeadline, left/2)),
	}
	switch {
	case mk.initial && wt.late == 0:
		mk.rang = true
		mk.timer = time.NewTimer(mk.next())
	case mk.initial:
		mk.timer = time.NewTimer(wt.late)
	default:
		mk.timer = time.NewTimer(mk.next())
	}
	return mk
}

// next is the time until the next bookmark.
func (mk *marks) next() time.Duration {
	if mk.last.IsZero() {
		return mk.interval
	}
	left := time.Until(mk.last)
	if left <= 0 { // this was the last
		mk.last = time.Time{}
		return mk.interval
	}
	return min(mk.interval, left)
}

// due says whether a bookmark is to be sent once everything that there is now was sent, and up to where that goes. last: the watch ends
// after that. It sends none while it owes the bookmark that ends the initial events, or if it ends with 410.
func (mk *marks) due(wt *watcher, last bool) (upTo uint64, due bool) {
	if !mk.allowed || mk.initial || !mk.rang && (!last || wt.cache.expired.Load()) {
		return 0, false
	}
	wt.cache.clock.Observe(func(rv uint64) { upTo = rv })
	return upTo, true
}

func (mk *marks) sent() {
	mk.rang, mk.initial = false, false
	mk.timer.Reset(mk.next())
}
