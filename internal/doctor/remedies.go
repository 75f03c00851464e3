package doctor

import (
	"math"

	"github.com/weirproject/weir/internal/cost"
)

// Prediction is what requests would have cost if clients had asked in another way. Costs are the
// API server's.
type Prediction struct {
	Remedy string `json:"remedy"` // empty: as it is
	cost.Cost
	HeldBytes       float64 `json:"heldBytes"`                 // of its memory, by what is under way
	ProxyCPUSeconds float64 `json:"proxyCPUSeconds,omitempty"` // that the proxy would have used
}

// The names of remedies.
const (
	RemedyNone     = "as it is"
	RemedyCache    = `resourceVersion="0"`
	RemedyPages    = "pages of 500"
	RemedyNode     = "fieldSelector=spec.nodeName"
	RemedyInformer = "an informer"
	RemedyIndex    = "an informer with an index"
	RemedyHeld     = "the informer that it has"
	RemedyShards   = "a shard for each replica"
	RemedyResume   = "WATCHes that are resumed"
	RemedyLasting  = "WATCHes of 5 to 10 minutes"
	RemedyProxy    = "through weir-proxy"
)

// asking is what a client does with one resource, and how it could do otherwise.
type asking struct {
	d        *Doctor
	c        *client
	u        *usage
	size     Size
	all      []batch
	machines float64
	atOnce   float64
}

// whatIf predicts what the requests that a finding is about would have cost with each of its
// remedies. The first prediction is for no remedy. It returns nil if there is no model, or if
// nobody knows how many objects there are.
func (d *Doctor) whatIf(c *client, u *usage, kind string) []Prediction {
	a := &asking{
		d: d, c: c, u: u, size: d.size(u.resource), all: d.batches(c.name, u), atOnce: d.atOnce(c),
	}
	if kind == KindWatches {
		a.all = append(a.all, a.watches(float64(u.watches.Ended)))
	}
	if d.options.Model == nil || len(a.all) == 0 {
		return nil
	}
	a.machines = float64(max(u.watchMachines(), u.whole.machines(), u.part.machines()))
	out := []Prediction{a.predict(RemedyNone, a.all)}
	for _, r := range remediesOf[kind] {
		if p, ok := r(a); ok {
			out = append(out, p)
		}
	}
	return out
}

// remedy predicts one remedy. It returns false if that changes nothing here.
type remedy func(a *asking) (Prediction, bool)

// remediesOf has the remedies of each kind of finding. Those that a client can apply by itself come
// first.
var remediesOf = map[string][]remedy{
	KindPolling: {cached, inPages, informed, shardedByMachine, proxied},
	KindResync:  {cached, inPages, informed, proxied},
	KindNodes:   {byNode, cached, inPages, shardedByMachine, proxied},
	KindPart:    {cached, informed, proxied},
	KindRelist:  {resumed, cached, proxied},
	KindWatches: {lasted},
	KindFailing: {inPages, cached, informed, proxied},
}

func (a *asking) predict(name string, all []batch) Prediction {
	p := Prediction{Remedy: name, Cost: costOf(&a.d.options.Model.Server, all)}
	for _, b := range all {
		p.HeldBytes = max(p.HeldBytes, b.held)
	}
	p.HeldBytes *= a.d.options.Model.Memory.Held * a.atOnce
	return p
}

// change predicts the cost after a function has changed each batch.
func (a *asking) change(name string, to func(batch) batch) Prediction {
	var all []batch
	for _, b := range a.all {
		all = append(all, to(b))
	}
	return a.predict(name, all)
}

// cached predicts LISTs that the watch cache answers as it is. The watch cache does not heed
// limits.
func cached(a *asking) (Prediction, bool) {
	quorum := false
	p := a.change(RemedyCache, func(b batch) batch {
		quorum = quorum || b.work.Quorum > 0 && b.work.Encoding != cost.Initial
		if b.work.Encoding == cost.Initial {
			return b
		}
		return a.d.list(a.c.name, b.size, b.ask, b.work.Requests, 0)
	})
	return p, quorum
}

// inPages predicts that LISTs of more than a page come in pages.
func inPages(a *asking) (Prediction, bool) {
	changed := false
	p := a.change(RemedyPages, func(b batch) batch {
		if b.ask != askAll || b.work.PageCount > 0 || b.size.Objects <= pageObjects {
			return b
		}
		changed = true
		return b.paged()
	})
	return p, changed
}

// byNode predicts that each machine asks for the pods of its node.
func byNode(a *asking) (Prediction, bool) {
	return a.change(RemedyNode, func(b batch) batch {
		return a.d.list(a.c.name, b.size, askNode, b.work.Requests, b.work.Quorum)
	}), true
}

// informed predicts an informer on each machine. It gets the objects once, and then what is
// written. If a client has one already, that costs nothing more.
func informed(a *asking) (Prediction, bool) {
	if a.u.watched[askAll].ended+a.u.watched[askAll].open > 0 {
		return a.predict(RemedyHeld, nil), true
	}
	name := RemedyInformer
	if a.u.whole.total() == 0 {
		name = RemedyIndex
	}
	return a.predict(name, []batch{a.informer(a.machines)}), true
}

// informer returns what informers of all objects ask for.
func (a *asking) informer(of float64) batch {
	b := a.d.list(a.c.name, a.size, askAll, of, of).initial()
	b.work.Connections = of
	b.work.Events, b.work.EventBytes = of*a.d.census.writes(a.size.Resource), a.size.Bytes
	return b
}

// shardedByMachine predicts that each replica asks for its part of the objects, by a shardSelector.
func shardedByMachine(a *asking) (Prediction, bool) {
	return a.change(RemedyShards, func(b batch) batch {
		if b.ask == askAll {
			b = b.shard(a.machines)
		}
		return b
	}), a.machines > 1
}

// watches returns WATCHes that begin with nothing: each costs what a request does.
func (a *asking) watches(n float64) batch {
	return batch{c: a.c.name, size: a.size, work: cost.Work{Requests: n}}
}

// lastingWatch is how long a WATCH of client-go's lasts on average.
const lastingWatch = 450 // seconds

// lasted predicts WATCHes that last as long as an informer's.
func lasted(a *asking) (Prediction, bool) {
	n := math.Ceil(a.u.watches.Seconds / lastingWatch)
	return a.predict(RemedyLasting, []batch{a.watches(max(a.machines, n))}), true
}

// resumed predicts that each machine LISTs once, and begins its WATCHes where the last one ended.
func resumed(a *asking) (Prediction, bool) {
	var all []batch
	for _, b := range a.all {
		n := min(b.work.Requests, a.machines)
		b.work.Quorum *= n / b.work.Requests
		b.work.Requests = n
		all = append(all, b)
	}
	return a.predict(RemedyResume, append(all, a.watches(float64(a.u.watches.Ended)))), true
}

// proxied predicts that the proxy answers. The API server then sees one informer. For each LIST
// that must be as new as the storage it also gets at most one question how current the informer is.
func proxied(a *asking) (Prediction, bool) {
	quorum := 0.0
	for _, b := range a.all {
		quorum += b.work.Quorum
	}
	asked := batch{size: a.size, work: cost.Work{Requests: quorum, Quorum: quorum}}
	p := a.predict(RemedyProxy, []batch{a.informer(1), asked})
	p.ProxyCPUSeconds = costOf(&a.d.options.Model.Proxy, a.all).CPUSeconds
	p.HeldBytes = 0
	return p, true
}
