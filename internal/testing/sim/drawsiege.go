package sim

import (
	"slices"
	"time"

	"github.com/weirproject/weir/internal/testing/sim/api"
)

// besieged draws a fault that lasts forever for most kinds of requests. Only one form of LIST is
// never affected: either whole LISTs or pages. In the end, clients must use that form. No server
// may serve a state that is older than requested, because the requests that still work could not
// detect that.
func (d *drawer) besieged() {
	w := d.w
	if len(w.Keys) > maxKeys {
		return
	}
	for i := range w.Servers {
		w.Servers[i].Stale = false
	}
	w.Steps = slices.DeleteFunc(w.Steps, func(s Step) bool { return s.Op == Fault })
	asks := []api.Ask{api.AskVersion, api.AskListAny, api.AskProbe, api.AskWatch, api.AskInitial}
	pages := d.chance(50)
	if pages {
		asks = append(asks, api.AskList)
	} else {
		asks = append(asks, api.AskPage, api.AskMore)
	}
	for _, ask := range asks {
		if d.chance(25) {
			continue
		}
		r := api.Rule{Client: -1, Server: -1}
		for !d.lasts(&r, ask) {
			r = api.Rule{Client: -1, Server: -1}
		}
		if pages && ask == api.AskList { // a client does not replace a refused LIST by pages
			r.Effect, r.N, r.D = pick(d, api.Cut, api.Stall), d.IntN(100), 0
		}
		var at time.Duration
		if d.chance(50) {
			at = d.moment()
		}
		w.Steps = append(w.Steps, Step{At: at, Op: Fault, Rule: r})
	}
}

// lasts draws a fault for requests of one kind. It returns true if the fault may last forever.
func (d *drawer) lasts(r *api.Rule, ask api.Ask) bool {
	d.effect(r)
	events := r.Effect == api.ErrorEvent || r.Effect == api.Repeat || r.Effect == api.NoBookmarks || r.Effect == api.OftenBookmarks || r.EndsStreams()
	watch := ask&api.AskWatches != 0
	r.Ask, r.D = ask, min(r.D, 15*time.Second)
	if r.Effect == api.OftenBookmarks {
		r.D = max(r.D, time.Second)
	}
	return !r.AsksForLess() && (watch || !events)
}
