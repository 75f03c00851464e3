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
	RemedyUnsynced = "a resync period of 0"

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

	RemedyEachMinute = "one write a minute of each object"
	RemedyOneWriter  = "one writer"
	RemedyWatchOne   = "a WATCH of each of the objects"
)

// whatIfCase is what a client does with one resource, and how it could do otherwise.
type whatIfCase struct {
	d           *Doctor
	kind        *kind // of the finding
	c           *client
	u           *usage
	size        Size
	all         []batch
	machines    float64
	concurrency float64
}

// whatIf predicts what the requests that a finding is about would have cost with each of its
// remedies. The first prediction is for no remedy. It returns nil if there is no model, or if
// nobody knows how many objects there are.
func (d *Doctor) whatIf(c *client, u *usage, k *kind) []Prediction {
	w := &whatIfCase{d: d, kind: k, c: c, u: u, size: d.size(u.resource), concurrency: c.concurrency()}
	if w.all = d.batches(c.name, u); k.asks != nil {
		w.all = k.asks(w)
	}
	if d.options.Model == nil || len(w.all) == 0 {
		return nil
	}
	w.machines = float64(max(u.watchMachines(), u.whole.machines(), u.part.machines()))
	if k.beside {
		w.machines = float64(max(1, c.places.count()))
	}
	out := []Prediction{w.predict(RemedyNone, w.all)}
	for _, r := range k.remedies {
		if p, ok := r(w); ok {
			out = append(out, p)
		}
	}
	return out
}

// remedy predicts one remedy. It returns false if that changes nothing here.
type remedy func(w *whatIfCase) (Prediction, bool)

func (w *whatIfCase) predict(name string, all []batch) Prediction {
	p := Prediction{Remedy: name, Cost: costOf(&w.d.options.Model.Server, all)}
	for _, b := range all {
		p.HeldBytes = max(p.HeldBytes, b.held)
	}
	p.HeldBytes *= w.d.options.Model.Memory.Held * w.concurrency
	return p
}

// change predicts the cost after a function has changed each batch.
func (w *whatIfCase) change(name string, to func(batch) batch) Prediction {
	var all []batch
	for _, b := range w.all {
		all = append(all, to(b))
	}
	return w.predict(name, all)
}

// cached predicts LISTs that the watch cache answers as it is. The watch cache does not heed
// limits.
func cached(w *whatIfCase) (Prediction, bool) {
	quorum := false
	p := w.change(RemedyCache, func(b batch) batch {
		quorum = quorum || b.work.Quorum > 0 && b.work.Encoding != cost.Initial
		if b.work.Encoding == cost.Initial {
			return b
		}
		return w.d.list(w.c.name, b.size, b.selection, b.work.Requests, 0)
	})
	return p, quorum
}

// inPages predicts that LISTs of more than a page come in pages.
func inPages(w *whatIfCase) (Prediction, bool) {
	changed := false
	p := w.change(RemedyPages, func(b batch) batch {
		if b.selection != selectAll || b.work.PageCount > 0 || b.size.Objects <= pageObjects {
			return b
		}
		changed = true
		return b.paged()
	})
	return p, changed
}

// byNode predicts that each machine asks for the pods of its node.
func byNode(w *whatIfCase) (Prediction, bool) {
	return w.change(RemedyNode, func(b batch) batch {
		return w.d.list(w.c.name, b.size, selectNode, b.work.Requests, b.work.Quorum)
	}), true
}

// informed predicts an informer on each machine. It gets the objects once, and then what is
// written. If a client has one already, that costs nothing more, unless the requests are those that
// this one begins with: LISTs that fail, or WATCHes that begin with all objects. Where most are of
// the latter, it predicts that they are resumed.
func informed(w *whatIfCase) (Prediction, bool) {
	if p := w.u.whole; w.kind.name == FindingPolling && 2*p.initial > p.count {
		return resumed(w)
	}
	if t := w.u.watchTallies[selectAll]; w.kind.name != FindingFailing && t.ended+t.open > t.initial {
		return w.predict(RemedyHeld, nil), true
	}
	name := RemedyInformer
	if w.kind.name != FindingFailing && w.u.whole.total() == 0 {
		name = RemedyIndex
	}
	return w.predict(name, []batch{w.informer(w.machines)}), true
}

// informer returns what informers of all objects ask for.
func (w *whatIfCase) informer(of float64) batch {
	b := w.d.list(w.c.name, w.size, selectAll, of, of).initial()
	b.work.Connections = of
	b.work.Events, b.work.EventBytes = of*w.d.census.writes(w.size.Resource), w.size.Bytes
	return b
}

// shardedByMachine predicts that each replica asks for its part of the objects, by a shardSelector.
func shardedByMachine(w *whatIfCase) (Prediction, bool) {
	return w.change(RemedyShards, func(b batch) batch {
		if b.selection == selectAll {
			b = b.shard(w.machines)
		}
		return b
	}), w.machines > 1
}

// watches returns WATCHes that begin with nothing: each costs what a request does.
func (w *whatIfCase) watches(n float64) batch {
	return batch{c: w.c.name, size: w.size, work: cost.Work{Requests: n}}
}

// lastingWatch is how long a WATCH of client-go's lasts on average.
const lastingWatch = 450 // seconds

// lasted predicts WATCHes that last as long as an informer's.
func lasted(w *whatIfCase) (Prediction, bool) {
	n := math.Ceil(w.u.watchesButProofs().Seconds / lastingWatch)
	return w.predict(RemedyLasting, []batch{w.watches(max(w.machines, n))}), true
}

// resumed predicts that each machine LISTs once, and begins its WATCHes where the last one ended.
func resumed(w *whatIfCase) (Prediction, bool) {
	var all []batch
	for _, b := range w.all {
		n := min(b.work.Requests, w.machines)
		b.work.Quorum *= n / b.work.Requests
		b.work.Requests = n
		all = append(all, b)
	}
	return w.predict(RemedyResume, append(all, w.watches(float64(w.u.watchesButProofs().Ended)))), true
}

// proxied predicts that the proxy answers. The API server then sees one informer. For each LIST
// that must be as new as the storage it also gets at most one question how current the informer is.
func proxied(w *whatIfCase) (Prediction, bool) {
	quorum := 0.0
	for _, b := range w.all {
		quorum += b.work.Quorum
	}
	asked := batch{size: w.size, work: cost.Work{Requests: quorum, Quorum: quorum}}
	p := w.predict(RemedyProxy, []batch{w.informer(1), asked})
	p.ProxyCPUSeconds = costOf(&w.d.options.Model.Proxy, w.all).CPUSeconds
	p.HeldBytes = 0
	return p, true
}
