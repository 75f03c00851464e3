package sim

import (
	"slices"
	"time"

	"github.com/weirproject/weir/internal/testing/sim/api"
)

// expectation is what may be asked of a client at rest, given the faults that never end.
type expectation struct {
	heals    bool // some LIST works, so the store must be right
	current  bool // nothing stands in the way: Err must be nil
	blocked  bool // something stands in the way for good: Err must not be nil
	unlisted bool // the same, as long as nothing has been listed
	progress bool // the servers' bookmarks bring the store's resourceVersion to theirs
}

// expect works out what may be asked of a client: what may be asked of it and of what stands
// between it and the servers.
func (r *run) expect(c *client) expectation {
	e := r.expectOf(c.api, c.spec)
	if c.spec.returned() && r.world.hangs() {
		return expectation{} // client-go reads the answers, and waits for ever
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
	// stops returns whether one of the rules may stop such requests, and whether it stops them all.
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
	// A LIST that breaks off is asked for in pages, and what fails in pages is asked for as one.
	// That one form of LIST is answered with an error for ever while another works is beyond what
	// may be asked.
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
		// It may come in place of another one that would come at once, or the watch looks like one
		// of a quiet resource before it is cut.
		mixed = mixed || f.Effect == api.ErrorEvent && f.M > 0 || f.Effect == api.Stall && f.Ask&api.AskWatch != 0
	}
	e.heals = e.heals && !tooMany
	// Initial events go on as a watch.
	e.current = e.heals && !watches && !(initials && spec.Mode == "watchlist")
	e.blocked = noWatch && !mixed && (noInitial || spec.Mode != "watchlist")
	e.unlisted = noList && noListAny && noPage && noInitial
	// A server sends none where it is asked to end the watch within two seconds.
	e.progress = e.current && r.cluster.Bookmarks(cl) && (spec.Watch == 0 || spec.Watch > 2*time.Second)
	return e
}

// hangs reports whether some answer never comes, or never ends.
func (w *World) hangs() bool {
	return slices.ContainsFunc(w.Steps, func(s Step) bool {
		return s.Op == Fault && (s.Rule.Effect == api.Hang || s.Rule.Effect == api.Stall && s.Rule.Blocks())
	})
}
