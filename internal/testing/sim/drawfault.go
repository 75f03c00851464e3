package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/weirproject/weir/internal/testing/sim/api"
)

// events draws restores, restarts and other steps that affect servers or etcd. It also draws reads,
// waits, and changes of a client's server.
func (d *drawer) events() {
	if d.chance(15) {
		return
	}
	some := func(percent, most int, step func() Step) {
		if !d.chance(percent) {
			return
		}
		for range 1 + d.IntN(most) {
			s := step()
			s.At = d.moment()
			d.w.Steps = append(d.w.Steps, s)
		}
	}
	server := func() int { return d.IntN(len(d.w.Servers)) }
	some(50, 4, func() Step { return Step{Op: CutAll, Server: server()} })
	some(25, 3, func() Step { return Step{Op: Compact} })
	some(20, 2, func() Step { return Step{Op: Restart, Server: server()} })
	if d.w.Clients[0].Runner != Chain { // the replicas of a chain cannot be forced to list again
		some(10, 1, func() Step { return Step{Op: Restore, N: d.Int64N(12)} })
		some(4, 1, func() Step {
			return Step{Op: Replace, N: d.Int64N(60), Scheme: pick(d, api.Integers, api.Integers, api.Opaque)}
		})
		some(12, 2, func() Step { return Step{Op: Schema} })
	}
	some(50, 6, func() Step { return Step{Op: Look, Client: d.IntN(len(d.w.Clients))} })
	some(30, 3, func() Step { return Step{Op: Await, Client: d.IntN(len(d.w.Clients))} })
	if len(d.w.Servers) > 1 || d.w.Clients[0].Runner == Chain {
		some(80, 5, func() Step { return Step{Op: Route, Server: d.IntN(3), Client: d.IntN(len(d.w.Clients))} })
	}
	if d.chance(10) { // one server starts to lag, and recovers
		n, at := server(), d.moment()
		back := d.w.Servers[n].Lag
		d.w.Steps = append(d.w.Steps, Step{At: at, Op: Lag, Server: n, D: time.Hour},
			Step{At: at + d.between(time.Second, 2*time.Minute), Op: Lag, Server: n, D: back})
	}
}

// calm removes everything that prevents clients from receiving every change, so that stricter
// checks apply.
func (d *drawer) calm() {
	d.w.Servers = d.w.Servers[:1]
	s := &d.w.Servers[0]
	s.Lag, s.Stale, s.Old, s.Window = 0, false, false, 0
	d.w.Steps = slices.DeleteFunc(d.w.Steps, func(s Step) bool { return !s.calm() })
}

// replica draws a second server, whose cache lags. Several times, all clients change to that server
// soon after a write, and back later.
func (d *drawer) replica() {
	lag := d.between(500*time.Millisecond, 2*time.Second)
	d.w.Servers = []api.Spec{{Order: d.w.Servers[0].Order}, {Order: d.w.Servers[0].Order, Lag: lag, Stale: d.chance(70)}}
	d.w.Steps = slices.DeleteFunc(d.w.Steps, func(s Step) bool { return !s.calm() })
	for range 2 + d.IntN(4) {
		at := d.moment()
		for range 1 + d.IntN(4) {
			s := d.write()
			s.At = at
			d.w.Steps = append(d.w.Steps, s)
		}
		at += d.between(time.Millisecond, lag/2)
		if d.chance(50) {
			d.w.Steps = append(d.w.Steps, Step{At: at, Op: Compact})
		}
		d.move(at, 1)
		d.move(at+d.between(time.Second, 20*time.Second), 0)
	}
}

// contended draws changes of many keys that the watches of three selectors all send at the same
// time. So the informer may receive a change of an object from one watch while it stores an update
// of the same object from another watch.
func (d *drawer) contended() {
	w := d.w
	w.Servers = []api.Spec{{Order: w.Servers[0].Order}}
	c := &w.Clients[0]
	c.Slow, c.Scope.Namespaces, c.Scope.Selectors = false, nil, []string{"app in (x,y)", "!app", "app!=z"}
	for i := range w.Clients {
		clear(w.Clients[i].Handlers)
	}
	first := len(w.Keys)
	for i := range 40 {
		w.Before = append(w.Before, Step{Op: Put, Key: first + i, Label: d.label(), Node: d.node()})
		w.Keys = append(w.Keys, api.Key{Namespace: "n1", Name: fmt.Sprintf("k%03d", i)})
	}
	w.Steps = slices.DeleteFunc(w.Steps, func(s Step) bool { return !s.calm() })
	for range 3 + d.IntN(4) {
		at := d.moment()
		for i := range 40 {
			w.Steps = append(w.Steps, Step{At: at, Op: Put, Key: first + i, Label: d.label(), Node: d.node()})
		}
	}
}

// staggered draws a delay of the first list of one of two selectors, or of the end of that list. In
// the meantime, the watch of the other selector sends the same objects. Slow handlers are still
// processing these events when the list ends. The watch after the list may also be delayed.
func (d *drawer) staggered() {
	d.w.Servers = []api.Spec{{Order: d.w.Servers[0].Order}}
	c := &d.w.Clients[0]
	c.Mode, c.Any = pick(d, "list", "pages"), false
	c.Scope.Namespaces, c.Scope.Selectors = nil, []string{"tier=t", pick(d, "app=x", "app in (x,y)", "app!=z", "!app")}
	late := d.between(100*time.Millisecond, 2*time.Second)
	for i := range c.Handlers {
		c.Handlers[i] = HandlerSpec{Delay: late/50 + time.Duration(d.Int64N(int64(late/4)))}
	}
	d.w.Steps = slices.DeleteFunc(d.w.Steps, func(s Step) bool { return !s.calm() })
	slow := api.Rule{Client: 0, Server: -1, Ask: api.AskList | api.AskPage, Effect: api.Delay, D: late, Times: 1}
	if d.chance(50) {
		slow.Effect, slow.N = api.Stall, 100+d.IntN(2000)
	}
	d.w.Steps = append(d.w.Steps, Step{Op: Fault, Rule: slow})
	if d.chance(50) {
		d.w.Steps = append(d.w.Steps, Step{At: late / 2, Op: Fault, Rule: api.Rule{Client: 0, Server: -1, Ask: api.AskWatch, Effect: api.Delay, D: late, Times: 1}})
	}
	for range 1 + d.IntN(6) {
		at := time.Duration(d.Int64N(int64(2 * late)))
		for range 2 + d.IntN(6) {
			d.w.Steps = append(d.w.Steps, Step{At: at, Op: Put, Key: d.IntN(len(d.w.Keys)), Label: d.label(), Node: d.node()})
		}
	}
}

// move draws the steps that move all clients to one of two servers: their later requests go to that
// server, and the watches of the other server break.
func (d *drawer) move(at time.Duration, server int) {
	for i := range d.w.Clients {
		d.w.Steps = append(d.w.Steps, Step{At: at, Op: Route, Client: i, Server: server})
	}
	d.w.Steps = append(d.w.Steps, Step{At: at, Op: CutAll, Server: 1 - server})
}

// faults draws the faults that affect requests.
func (d *drawer) faults() {
	if d.chance(25) {
		d.w.Steps = append(d.w.Steps, Step{Op: Fault, Rule: api.Rule{Client: -1, Server: -1, Ask: api.AskAll, Effect: api.Pieces, N: 30 + d.IntN(300)}})
	}
	if d.chance(25) {
		return
	}
	for range 1 + d.IntN(5) {
		r := api.Rule{Client: -1, Server: -1}
		d.effect(&r)
		at := d.moment()
		if d.chance(30) {
			at = 0
		}
		switch n := d.IntN(100); {
		case n < 50:
			r.Times = 1 + d.IntN(4)
			r.Until = at + d.between(10*time.Second, 2*time.Minute)
		case n < 75:
			r.Until = at + d.between(time.Second, time.Minute)
		}
		if r.Ask == api.AskWatch && d.chance(50) {
			r.Bound = true
		}
		if len(d.w.Servers) > 1 && d.chance(40) {
			r.Server = d.IntN(len(d.w.Servers))
		}
		if r.Effect == api.OftenBookmarks && r.Until == 0 {
			r.D = max(r.D, time.Second) // the fault never ends, so its bookmarks must be rare
		}
		d.w.Steps = append(d.w.Steps, Step{At: at, Op: Fault, Rule: r})
	}
	if !d.w.swallows() {
		return
	}
	for i := range d.w.Steps {
		if s := &d.w.Steps[i]; s.Op == Fault && s.Rule.EndsStreams() && s.Rule.Forever() {
			s.Rule.Until = s.At + d.between(time.Second, time.Minute)
		}
	}
}

// swallows reports whether a fault withholds the bytes of a WATCH forever. If a front end also ends
// that WATCH early, a client cannot distinguish it from the WATCH of a resource that does not
// change.
func (w *World) swallows() bool {
	return slices.ContainsFunc(w.Steps, func(s Step) bool {
		return s.Op == Fault && s.Rule.Forever() && s.Rule.Effect == api.Stall && s.Rule.Ask&api.AskWatches != 0
	})
}

// effect draws which kinds of requests a fault affects, and how.
func (d *drawer) effect(r *api.Rule) {
	r.Ask = pick(d, api.AskWatch, api.AskWatch, api.AskWatch, api.AskInitial, api.AskWatches, api.AskList, api.AskLists, api.AskPage, api.AskProbe, api.AskMore,
		api.AskListAny, api.AskVersion, api.AskAll)
	r.Effect = pick(d, api.Delay, api.Slow, api.Answer, api.Answer, api.Answer, api.ErrorEvent, api.Refuse, api.Hang, api.Cut, api.Cut, api.End, api.Stall,
		api.Repeat, api.NoBookmarks, api.OftenBookmarks, api.Page, api.EndIdle, api.EndAged)
	switch r.Effect {
	case api.Delay, api.Slow:
		r.D = d.between(time.Millisecond, 30*time.Second)
	case api.Answer:
		r.N = pick(d, 400, 401, 403, 404, 405, 410, 422, 429, 500, 503, 504)
	case api.ErrorEvent:
		r.Ask = pick(d, api.AskWatch, api.AskWatches, api.AskInitial)
		r.N, r.M = pick(d, 400, 403, 410, 410, 429, 500, 503, 504), pick(d, 0, 0, 1, 2, 5)
	case api.Cut, api.End:
		r.N = pick(d, 0, 1, d.IntN(100), d.IntN(3000))
	case api.Stall:
		r.N = pick(d, 0, 1, d.IntN(3000))
		if d.chance(50) {
			r.D = d.between(time.Second, time.Minute)
		}
	case api.Repeat:
		r.Ask, r.N = api.AskWatches, pick(d, 1, 2, 4)
	case api.NoBookmarks, api.OftenBookmarks:
		r.Ask, r.D = api.AskWatches, d.between(10*time.Millisecond, 10*time.Second)
	case api.EndIdle, api.EndAged:
		ends := d.endsStreams()
		r.Ask, r.N, r.D = ends.Ask, ends.N, ends.D
	}
}
