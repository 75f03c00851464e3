package sim

import (
	"slices"
	"time"

	"github.com/weirproject/weir/internal/testing/sim/api"
)

// relisted draws a world whose watch caches lose their servers, one to three times. Meanwhile, a
// few objects change so that they enter or leave a selector, and etcd is compacted. So the caches
// list again. The client's watches also break, and resume at different times.
func (d *drawer) relisted() {
	w := d.w
	w.Servers = []api.Spec{{Order: w.Servers[0].Order}, {Order: w.Servers[0].Order}}
	w.Clients = w.Clients[:1]
	c := &w.Clients[0]
	c.Any, c.Scope.Namespaces = false, nil
	c.Scope.Selectors = pick(d, []string{"app=x", "app in (y,z)"}, []string{"app in (x,y)", "app!=x"}, []string{"app=x", "app=y"})
	if d.chance(50) {
		c.Scope.Namespaces = []string{"n1", "n2"}
	}
	if d.chance(60) {
		c.LogBytes = 1 << d.IntN(12)
	}
	for i := range c.Handlers {
		c.Handlers[i] = HandlerSpec{}
		if d.chance(50) {
			c.Handlers[i].Delay = d.between(time.Millisecond, time.Second)
		}
	}
	w.Keys = w.Keys[:min(len(w.Keys), 1+d.IntN(6))]
	w.Before = slices.DeleteFunc(w.Before, func(s Step) bool { return s.Key >= len(w.Keys) })
	w.Steps = nil
	at := d.between(time.Second, 10*time.Second)
	for range 1 + d.IntN(3) {
		at = d.lose(at) + d.between(100*time.Millisecond, 20*time.Second)
	}
}

// lose draws one loss of the servers. Its steps are in a period of random length, which starts at
// the given time (from). lose returns the end of this period.
func (d *drawer) lose(from time.Duration) (until time.Duration) {
	span := d.between(200*time.Millisecond, 5*time.Second)
	within := func() time.Duration { return from + time.Duration(d.Int64N(int64(span))) }
	add := func(at time.Duration, s Step) {
		s.At = at
		d.w.Steps = append(d.w.Steps, s)
	}
	for range 2 + d.IntN(pick(d, 12, 50)) {
		add(within(), d.write())
	}
	for range d.IntN(3) {
		add(within(), Step{Op: Compact})
	}
	for range d.IntN(4) {
		add(within(), Step{Op: CutAll, Server: d.IntN(2)})
	}
	for range d.IntN(3) {
		add(within(), Step{Op: Route, Server: d.IntN(2)})
	}
	for cache := 1; cache <= 2; cache++ {
		if d.chance(70) {
			at := within()
			add(at, Step{Op: Fault, Rule: api.Rule{Client: cache, Server: -1, Ask: api.AskAll, Effect: api.Refuse, Until: at + span/2}})
		}
	}
	for range 1 + d.IntN(4) {
		add(within(), Step{Op: Fault, Rule: d.hinder(from+2*span, span)})
	}
	return from + span
}

// hinder draws a fault that delays or breaks some requests, most often watches. The fault ends at
// the given time (until). No delay is much longer than the given duration (most).
func (d *drawer) hinder(until, most time.Duration) api.Rule {
	r := api.Rule{Server: -1, Ask: pick(d, api.AskWatch, api.AskWatches, api.AskAll), Times: 1 + d.IntN(3), Until: until}
	switch r.Effect = pick(d, api.Delay, api.Slow, api.Cut, api.Stall, api.Refuse); r.Effect {
	case api.Delay, api.Slow:
		r.D = d.between(time.Millisecond, most)
	case api.Stall:
		r.N, r.D = d.IntN(3000), d.between(10*time.Millisecond, most)
	case api.Cut:
		r.N = d.IntN(3000)
	}
	return r
}
