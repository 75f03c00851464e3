package sim

import (
	"time"

	"github.com/weirproject/weir/internal/testing/sim/api"
)

// frontEnd draws a world whose only fault is a front end (a proxy) that ends WATCHes early: when
// they have been idle for some time, or at a certain age. The world also has client-go's informer,
// and the checks compare its requests with those of the informer under test.
func (d *drawer) frontEnd() {
	w := d.w
	w.Servers = []api.Spec{{Order: w.Servers[0].Order, Bookmarks: pick(d, 0, 0, -1, d.between(2*time.Second, 30*time.Second))}}
	c := w.Clients[0]
	c.Scope.Namespaces, c.Scope.Selectors = c.Scope.Namespaces[:min(len(c.Scope.Namespaces), 1)], c.Scope.Selectors[:min(len(c.Scope.Selectors), 1)]
	c.Watch = d.between(time.Second, 5*time.Minute)
	c.Handlers = []HandlerSpec{{}}
	control := c
	control.Runner, control.Partial, control.Options, control.Factory = ClientGo, false, "", false
	w.Clients = []ClientSpec{c, control}
	front := d.endsStreams()
	if front.D >= 90*time.Second && w.Servers[0].Bookmarks < 0 {
		w.Servers[0].Bookmarks = 0 // with such a front end and no bookmarks, the informer would list
	}
	d.span = max(2*time.Minute, 4*front.D)
	w.Steps = []Step{{Op: Fault, Rule: front}, {Op: Bump, N: 1, At: d.span}}
	if d.chance(30) {
		return // nothing else is written
	}
	every := d.between(50*time.Millisecond, 5*time.Minute)
	for n := 0; n < 200; n++ {
		s := d.write()
		s.At = time.Duration(d.Float64() * 2 * float64(every) * float64(n+1))
		if s.At < d.span {
			w.Steps = append(w.Steps, s)
		}
	}
}

// endsStreams draws a front end that ends WATCHes after 0.1 s to 10 minutes.
func (d *drawer) endsStreams() api.Rule {
	return api.Rule{Client: -1, Server: -1, Ask: api.AskWatches, Effect: pick(d, api.EndIdle, api.EndAged), N: d.IntN(2), D: d.between(100*time.Millisecond, 5*time.Minute)}
}
