package watchcache

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir/internal/store"
	"github.com/weirproject/weir/internal/wire"
)

// watcher serves one WATCH, in the goroutine of its request.
type watcher struct {
	cache   *Cache
	p       *params
	m       matcher
	f       form
	out     *stream
	route   route
	routed  bool // by the hub, as soon as the watcher has caught up
	from    changes
	scratch *scratch // nil while it waits

	initial bool   // the state first, as ADDED events
	sent    uint64 // the client has seen everything up to here
	share   bool   // what is sent now is sent to others too
	events  uint64 // sent since they were last counted
	late    time.Duration
	never   bool // no bookmarks: see Config.Bookmarks
}

// watch answers a WATCH. An error is returned only as long as nothing was answered; later ones become ERROR events.
func (c *Cache) watch(w http.ResponseWriter, r *http.Request, p *params, s *selector, f form) error {
	timeout := p.timeout
	if timeout == 0 {
		timeout = c.minWatch + rand.N(c.minWatch)
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	deadline, _ := ctx.Deadline()

	wt := &watcher{
		cache:   c,
		p:       p,
		m:       matcher{selector: s, cache: c},
		f:       f,
		initial: p.sendInitial == nil && p.rv == 0 || p.sendInitial != nil && *p.sendInitial,
	}
	wt.route, wt.routed = s.route(c)
	wt.late, wt.never = c.bookmarks()
	c.counters.watches.Add(1)
	c.counters.watchers.Add(1)
	defer func() {
		if c.counters.watchers.Add(-1) == 0 {
			c.shared.clear()
		}
	}()
	// Like kube-apiserver: only the initial state is worth compressing, and only a client that streams a list is known to cope.
	zip := p.sendInitial != nil && *p.sendInitial && p.allowBookmarks && acceptsGzip(r.Header)
	wt.out = c.newStream(w, f.watchContentType(), zip, wt.routed)
	defer wt.out.end()
	if wt.out.flush() != nil { // the headers
		return nil
	}
	err := wt.serve(ctx, deadline)
	if err == nil && c.expired.Load() {
		err = errExpired(max(wt.sent, p.rv))
	}
	if err != nil {
		wt.fail(err)
	}
	return nil
}

// fail ends the watch with an ERROR event. If that cannot be sent either, the client has gone.
func (wt *watcher) fail(err error) {
	wt.cache.counters.failed(err)
	object, marshalErr := marshalStatus(wt.f.enc, StatusOf(err))
	if marshalErr != nil {
		return
	}
	wt.out.write(wire.AppendEvent(nil, wt.f.enc, wire.Error, statusTypeMeta, object))
	_ = wt.out.flush()
}

// serve returns nil when the watch has come to its end or the client has gone.
func (wt *watcher) serve(ctx context.Context, deadline time.Time) error {
	defer wt.idle()
	defer func() { wt.follows(nil) }()
	if stopped, err := wt.begin(ctx); stopped || err != nil {
		return err
	}
	return wt.follow(ctx, deadline)
}

// follows changes where the changes come from, nil: nowhere.
func (wt *watcher) follows(from changes) {
	if l, ok := wt.from.(logged); ok {
		wt.cache.wide.remove(l.Cursor)
	}
	if wt.from != nil {
		wt.from.Close()
	}
	wt.from = from
	wt.out.pace.from.Store(nil)
	if from != nil {
		wt.out.pace.from.Store(&from)
	}
	if l, ok := from.(logged); ok {
		wt.cache.wide.add(l.Cursor)
	}
}

// wake gets what sending needs, idle lets go of it.
func (wt *watcher) wake() {
	if wt.scratch == nil {
		wt.scratch = newScratch()
		wt.scratch.lend(&wt.m, &wt.f)
	}
}

func (wt *watcher) idle() {
	wt.count()
	if wt.scratch != nil {
		wt.scratch.release(&wt.m, &wt.f)
		wt.scratch = nil
	}
	wt.m.forget()
}

func (wt *watcher) count() {
	if wt.events > 0 {
		wt.cache.counters.events.Add(wt.events)
		wt.events = 0
	}
}

// begin sends the initial state, if it is wanted, and finds where what comes after it is told. stopped: there is nobody to send it to.
func (wt *watcher) begin(ctx context.Context) (stopped bool, err error) {
	c := wt.cache
	if wt.initial {
		if _, err := c.notOlderThan(ctx, wt.p.rv); err != nil {
			return false, err
		}
		return wt.sendState(ctx)
	}
	if wt.p.rv == 0 { // whatever comes from now on
		_, err := wt.now()
		return false, err
	}
	future := c.current().rv < wt.p.rv
	if future && c.waitFor(ctx, wt.p.rv) {
		return true, nil
	}
	wt.sent = wt.p.rv
	cursor, err := c.since(wt.p.rv)
	switch {
	case err == nil:
		wt.follows(logged{cursor})
	case future && errors.Is(err, errTorn): // the client asks again, and somebody else
		return true, nil
	}
	return false, err
}

// waitFor waits until rv has come to be. It returns true when the watch ends before.
func (c *Cache) waitFor(ctx context.Context, rv uint64) (stopped bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.drain.over, cancel)()
	return c.clock.Wait(ctx, rv) != nil
}

// now is the current snapshot; the watcher follows from there.
func (wt *watcher) now() (sn *store.Snapshot, err error) {
	c := wt.cache
	if wt.routed {
		sub, sn, rv, err := c.hub.subscribe(wt.route)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		wt.sent = rv
		wt.follows(sub)
		return sn, nil
	}
	for {
		var cursor *store.Cursor
		c.clock.Observe(func(rv uint64) {
			wt.sent, sn = rv, c.store.Snapshot()
			cursor, err = c.store.CursorAt(sn.Revision())
		})
		switch {
		case err == nil:
			wt.follows(logged{cursor})
			return sn, nil
		case !errors.Is(err, store.ErrTrimmed): // else a clock without a lock, and a short log: again
			return nil, apierrors.NewInternalError(err)
		}
	}
}

// sendState sends the state of now.
func (wt *watcher) sendState(ctx context.Context) (stopped bool, err error) {
	c := wt.cache
	sn, err := wt.now()
	if err != nil {
		return false, err
	}
	pl := c.plan(&state{rv: wt.sent, sn: sn}, wt.m.selector)
	m := wt.m.selector
	wt.m.selector = pl.rest
	defer func() { wt.m.selector = m }()
	wt.wake()
	fetched := 0
	for o := range pl.walk("") {
		fetched++
		ok, err := wt.m.match(o)
		if err == nil && ok {
			err = wt.send(wire.Added, o, 0)
		}
		if err != nil {
			return false, err
		}
		if wt.out.err != nil || ctx.Err() != nil || c.drain.over.Err() != nil {
			return true, nil
		}
	}
	c.indexes.used(&pl, m, true, fetched, int(wt.events))
	c.counters.initialEvents.Add(wt.events)
	return false, nil
}
