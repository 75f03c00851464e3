package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weirproject/weir/internal/testing/sim/api"
)

// Draw creates the world for a seed. The same seed always gives the same world.
func Draw(seed uint64) *World {
	d := &drawer{Rand: rand.New(rand.NewPCG(seed, 1)), w: &World{Seed: seed}}
	d.world()
	return d.w
}

// maxKeys is the maximum number of keys in a world, except in the worlds of drawer.many.
const maxKeys = 8

// drawer draws one world at random. For most features, it decides once whether the whole world has
// the feature, so that worlds differ from each other.
type drawer struct {
	*rand.Rand
	w    *World
	span time.Duration // the time in which the steps are
}

func (d *drawer) chance(percent int) bool { return d.IntN(100) < percent }

func pick[T any](d *drawer, of ...T) T { return of[d.IntN(len(of))] }

// between draws a duration on a logarithmic scale, so that short and long durations are both
// likely. The result is at least low and less than twice high.
func (d *drawer) between(low, high time.Duration) time.Duration {
	t := float64(low)
	for t*2 <= float64(high) && d.chance(70) {
		t *= 2
	}
	return time.Duration(t * (1 + d.Float64())).Truncate(time.Microsecond)
}

func (d *drawer) world() {
	w := d.w
	w.Builtin = d.chance(40)
	if d.chance(4) {
		w.Scheme = api.Opaque
	}
	w.Base = pick[int64](d, 1, 7, 96, 990)
	d.span = d.between(2*time.Second, 4*time.Minute)
	d.keys()
	d.servers()
	d.clients()
	d.writes()
	if d.chance(5) {
		d.load()
	}
	d.events()
	d.faults()
	if d.chance(1) {
		d.many()
	}
	if d.chance(8) {
		d.calm()
	} else if w.Clients[0].Runner != Chain && d.chance(4) {
		d.replica()
	}
	if w.Clients[0].Runner == Native && d.chance(3) {
		d.staggered()
	} else if w.Clients[0].Runner == Native && d.chance(3) {
		d.contended()
	}
	if w.Clients[0].Runner == Chain && d.chance(30) {
		d.relisted()
	} else if d.chance(5) {
		d.besieged()
	}
	if r := w.Clients[0].Runner; (r == Native || r == DropIn) && len(w.Keys) <= maxKeys && w.Scheme == api.Integers && d.chance(8) {
		d.frontEnd()
	}
	if w.Clients[0].Runner == Chain && d.chance(40) {
		for i := range w.Clients {
			w.Clients[i].Tiers = true
		}
	}
	slices.SortStableFunc(w.Steps, func(a, b Step) int { return int(a.At - b.At) })
}

func (d *drawer) keys() {
	namespaces := []string{"n1", "n2", "n3"}[:1+d.IntN(3)]
	for i := range 1 + d.IntN(maxKeys) {
		d.w.Keys = append(d.w.Keys, api.Key{Namespace: pick(d, namespaces...), Name: string(rune('a' + i))})
	}
}

func (d *drawer) servers() {
	order := 0
	if d.chance(50) {
		order = d.IntN(24)
	}
	d.w.Servers = append(d.w.Servers, d.server(order))
	for d.chance(30) && len(d.w.Servers) < 3 {
		if d.chance(30) {
			order = d.IntN(24)
		}
		d.w.Servers = append(d.w.Servers, d.server(order))
	}
}

func (d *drawer) server(order int) api.Spec {
	s := api.Spec{Order: order}
	if d.chance(20) {
		s.Lag = d.between(time.Millisecond, 20*time.Second)
		s.Stale = d.chance(40)
	}
	if d.chance(15) {
		s.Old = true
	}
	s.Gzip = d.chance(10)
	if d.w.Builtin && d.chance(5) {
		s.Plain = true
	}
	if d.chance(20) {
		s.Window = 1 + d.Int64N(10)
	}
	if d.chance(10) {
		s.Bookmarks = -1
	} else if d.chance(20) {
		s.Bookmarks = d.between(2*time.Second, 30*time.Second)
	}
	return s
}

func (d *drawer) clients() {
	runner := Native
	switch n := d.IntN(100); {
	case n < 30:
		runner = DropIn
	case n < 35:
		runner = ClientGo
	case n < 50 && !d.exotic():
		runner = Chain
	}
	d.w.Clients = append(d.w.Clients, d.client(runner))
	if d.chance(20) {
		d.w.Clients = append(d.w.Clients, d.client(runner))
	}
}

// exotic reports whether the world has resourceVersions or a server that watch caches do not
// support.
func (d *drawer) exotic() bool {
	return d.w.Scheme != api.Integers || slices.ContainsFunc(d.w.Servers, func(s api.Spec) bool { return s.Plain })
}

func (d *drawer) client(runner string) ClientSpec {
	c := ClientSpec{Runner: runner, Mode: pick(d, "auto", "auto", "list", "pages", "watchlist"), Any: d.chance(20), Watch: d.between(15*time.Second, 5*time.Minute)}
	if d.chance(30) {
		c.LogBytes = 1 << d.IntN(12)
	}
	if d.chance(25) {
		c.Scope.Namespaces = []string{"n1", "n2", "n3"}[:1+d.IntN(3)]
	}
	if d.chance(35) {
		c.Scope.Selectors = []string{"app=x", "app in (x,y)", "app!=z", "!app", "tier=t"}
		d.Shuffle(5, func(i, j int) {
			c.Scope.Selectors[i], c.Scope.Selectors[j] = c.Scope.Selectors[j], c.Scope.Selectors[i]
		})
		c.Scope.Selectors = c.Scope.Selectors[:1+d.IntN(3)]
	}
	if runner == DropIn || runner == ClientGo { // these informers send only one LIST and one WATCH
		c.Typed, c.Factory = d.chance(30), d.chance(20)
		c.Options = pick(d, "", "", "", "", "", "", "pinned", "pinned", "private", "private", "mutation", "uncaptured", "uncaptured", "resync", "resync")
		c.Scope.Namespaces, c.Scope.Selectors = c.Scope.Namespaces[:min(len(c.Scope.Namespaces), 1)], c.Scope.Selectors[:min(len(c.Scope.Selectors), 1)]
	}
	c.Partial = runner == Native && d.chance(8)
	c.Slow, c.Page = d.chance(50), 2
	if d.chance(30) {
		c.Lists = 1
	}
	for range 1 + d.IntN(3) {
		h := d.handler()
		if runner == Native && d.chance(15) {
			h.Filter = pick(d, "x", "y", "z")
		}
		c.Handlers = append(c.Handlers, h)
	}
	return c
}

func (d *drawer) handler() HandlerSpec {
	h := HandlerSpec{}
	if d.chance(40) {
		h.Delay = d.between(time.Microsecond, time.Second)
	}
	if d.chance(20) {
		h.Add = d.moment()
	}
	if d.chance(10) {
		h.Remove = h.Add + d.moment()
	}
	if d.chance(20) {
		h.Block = d.moment()
		h.Free = h.Block + d.between(time.Second, time.Minute)
	}
	if d.chance(10) {
		h.Resync = d.between(time.Second, time.Minute)
	}
	return h
}

// moment draws a time in the span of the world. It is never 0.
func (d *drawer) moment() time.Duration { return 1 + time.Duration(d.Int64N(int64(d.span))) }

// writes draws the writes that are made before the clients start, and the writes in the span of the
// world. Some writes in the span are in bursts.
func (d *drawer) writes() {
	w := d.w
	for i := range w.Keys {
		if d.chance(60) {
			w.Before = append(w.Before, Step{Op: Put, Key: i, Label: d.label(), Node: d.node()})
		}
	}
	var at time.Duration
	burst := 0
	for range d.IntN(40) {
		if burst--; burst <= 0 {
			burst = d.IntN(8)
			at = time.Duration(d.Int64N(int64(d.span)))
			if d.chance(10) {
				at = d.between(time.Microsecond, 100*time.Microsecond) // at this time, all clients list
			}
		}
		s := d.write()
		s.At = at
		w.Steps = append(w.Steps, s)
	}
}

// load draws writes that arrive faster than a handler can process them.
func (d *drawer) load() {
	at := d.moment()
	for range 50 + d.IntN(150) {
		s := d.write()
		s.At = at
		d.w.Steps = append(d.w.Steps, s)
		at += time.Duration(1+d.IntN(10)) * time.Millisecond
	}
	for i := range d.w.Clients {
		for j := range d.w.Clients[i].Handlers {
			if h := &d.w.Clients[i].Handlers[j]; d.chance(50) {
				h.Delay = time.Duration(1+d.IntN(20)) * time.Millisecond
			}
		}
	}
}

// many draws more objects than an informer processes or delivers in one step. It removes all
// faults: with faults, an informer might receive the objects one by one, and one such world would
// take as long as all other worlds together.
func (d *drawer) many() {
	w := d.w
	for i := range 120 + d.IntN(60) {
		w.Before = append(w.Before, Step{Op: Put, Key: len(w.Keys), Label: d.label(), Node: d.node()})
		w.Keys = append(w.Keys, api.Key{Namespace: pick(d, "n1", "n2", "n3"), Name: fmt.Sprintf("k%03d", i)})
	}
	w.Steps = slices.DeleteFunc(w.Steps, func(s Step) bool { return s.Op == Fault })
	for i := range w.Clients {
		w.Clients[i].Page = 50
		for j := range w.Clients[i].Handlers {
			h := &w.Clients[i].Handlers[j]
			h.Delay, h.Resync = min(h.Delay, 5*time.Millisecond), 0
		}
	}
}

func (d *drawer) write() Step {
	s := Step{Op: Put, Key: d.IntN(len(d.w.Keys)), Label: d.label(), Node: d.node()}
	switch n := d.IntN(100); {
	case n < 20:
		s.Op = Delete
	case n < 30:
		s.Op = Recreate
	case n < 37:
		s.Op, s.N = Bump, 1+d.Int64N(5)
	}
	return s
}

func (d *drawer) label() string { return pick(d, "x", "y", "z", "") }

func (d *drawer) node() string { return pick(d, "node-1", "node-2") }
