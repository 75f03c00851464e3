package sim

import (
	"slices"
	"time"

	"github.com/weirproject/weir/internal/testing/sim/api"
)

// expectation says what the checks require of a client at rest, given the faults that never end.
type expectation struct {
	heals    bool // a LIST works, so the store must be equal to the servers' state
	current  bool // no fault affects the client, so Err must be nil
	blocked  bool // a fault blocks the client forever, so Err must not be nil
	unlisted bool // faults block every form of LIST, so Err must not be nil before the first LIST
	progress bool // the client receives bookmarks, so it must have the servers' resourceVersion
}

// expect returns what the checks require of a client. For a chain, it also takes faults between the
// replicas and the servers into account.
func (r *run) expect(c *client) expectation {
	e := r.expectOf(c.api, c.spec)
	if c.spec.returned() && r.world.hangs() {
		return expectation{} // client-go reads the response, and waits forever
	}
	ch, ok := c.informer.(*chain)
	if !ok {
		return e
	}
	for _, cl := range ch.upstreams() {
		up := r.expectOf(cl, ClientSpec{})
		e.heals, e.current, e.progress = e.heals && up.heals, e.current && up.current, e.progress && up.progress
	}
	e.blocked, e.unlisted = false, false
	return e
}

func (r *run) expectOf(cl *api.Client, spec ClientSpec) expectation {
	rules := r.cluster.Lasting(cl)
	// stops returns whether one of the faults may block requests of these kinds, and whether one
	// blocks all of them.
	stops := func(ask api.Ask) (any, all bool) {
		for _, f := range rules {
			if f.Ask&ask == 0 || !f.Blocks() {
				continue
			}
			any = true
			all = all || !f.Bound && f.BlocksAlways() && (f.Server < 0 || len(r.world.Servers) == 1)
		}
		return any, all
	}
	// If a whole LIST fails in the middle, an informer lists in pages. If pages fail, it sends a whole
	// LIST. But if a server refuses one form of LIST with an error forever, the checks do not require
	// that the informer tries the other form.
	broken := func(f api.Rule) bool { return f.Effect == api.Cut || f.Effect == api.Stall }
	lists, refused := false, false
	for _, f := range rules {
		if f.Ask&api.AskList != 0 && f.Blocks() {
			lists, refused = true, refused || !broken(f)
		}
	}
	pages, _ := stops(api.AskPage | api.AskMore)
	_, noList := stops(api.AskList)
	_, noListAny := stops(api.AskListAny)
	_, noPage := stops(api.AskPage)
	initials, noInitial := stops(api.AskInitial)
	watches, noWatch := stops(api.AskWatch)
	e := expectation{heals: !lists || !pages && !refused}
	tooMany, mixed := false, false
	for _, f := range rules {
		tooMany = tooMany || f.AsksForLess()
		// Err may be nil in spite of two kinds of faults. A WATCH may send M events before its ERROR
		// event, and then be open for long before the ERROR event is due. A stalled WATCH looks like the
		// WATCH of a resource that does not change, until the connection breaks.
		mixed = mixed || f.Effect == api.ErrorEvent && f.M > 0 || f.Effect == api.Stall && f.Ask&api.AskWatch != 0
	}
	e.heals = e.heals && !tooMany
	// A WATCH with initial events continues as an ordinary WATCH, so faults of both kinds of WATCH
	// affect it.
	e.current = e.heals && !watches && !(initials && spec.Mode == "watchlist")
	e.blocked = noWatch && !mixed && (noInitial || spec.Mode != "watchlist")
	e.unlisted = noList && noListAny && noPage && noInitial
	// A server sends no bookmarks on a WATCH whose timeout is two seconds or less.
	e.progress = e.current && r.cluster.Bookmarks(cl) && (spec.Watch == 0 || spec.Watch > 2*time.Second)
	return e
}

// hangs reports whether a fault withholds a response, or its end, forever.
func (w *World) hangs() bool {
	return slices.ContainsFunc(w.Steps, func(s Step) bool {
		return s.Op == Fault && (s.Rule.Effect == api.Hang || s.Rule.Effect == api.Stall && s.Rule.Blocks())
	})
}
