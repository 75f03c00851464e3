package doctor

import (
	"math"

	"github.com/weirproject/weir/measure/doctor/cost"
)

// batch is a number of equal requests of one client for one resource. They are LISTs, or WATCHes
// that start with all objects.
type batch struct {
	c         Client
	work      cost.Work
	size      Size
	selection selection
	// held is the memory that one of the requests uses in the server until it ends, in bytes of stored
	// objects.
	held float64
}

// compressedFrom is the least size of an answer that kube-apiserver compresses for clients that
// accept compression. Clients in Go accept it.
const compressedFrom = 128 << 10

// list returns a batch of LISTs of the objects that sel selects. quorum is the number of LISTs
// without resourceVersion.
func (d *Doctor) list(c Client, s Size, sel selection, lists, quorum float64) batch {
	sent, looked := d.share(s, sel)
	b := batch{c: c, size: s, selection: sel, work: cost.Work{
		Requests: lists, Quorum: quorum,
		Looked: looked * float64(s.Objects), Sent: sent * float64(s.Objects) * s.Bytes,
	}}
	b.work.Encoding = encoding(c, s.Resource, b.work.Sent)
	b.held = b.work.Sent
	return b
}

// encoding returns the encoding of an answer to a client. sent is the answer's size in stored
// bytes.
func encoding(c Client, resource string, sent float64) cost.Encoding {
	switch large := sent >= compressedFrom; {
	case getsProtobuf(c, resource) && large:
		return cost.ProtobufGzip
	case getsProtobuf(c, resource):
		return cost.Protobuf
	case large:
		return cost.JSONGzip
	}
	return cost.JSON
}

// paged returns the same LISTs, but in pages. The server answers a LIST in pages from etcd, with
// the newest state.
func (b batch) paged() batch {
	objects := math.Round(b.work.Sent / b.size.Bytes)
	b.work.PageCount = math.Max(1, math.Ceil(objects/pageObjects))
	b.work.Quorum, b.held = b.work.Requests, b.work.Sent/b.work.PageCount
	b.work.Encoding = encoding(b.c, b.size.Resource, b.held)
	return b
}

// atMost returns the same LISTs with at most this number of objects each, because their parameter
// limit allows no more. If the LISTs have a selector, the server may still look at all objects.
func (b batch) atMost(objects float64) batch {
	b.work.Sent = min(b.work.Sent, objects*b.size.Bytes)
	if b.selection == selectAll {
		b.work.Looked = min(b.work.Looked, objects)
	}
	return b
}

// pageObjects is the page size of client-go's pager and of kubectl.
const pageObjects = 500

// initial returns WATCHes instead of the LISTs. Each starts with all objects, which the server
// sends uncompressed.
func (b batch) initial() batch {
	b.work.Encoding, b.work.Quorum = cost.Initial, b.work.Requests
	return b
}

// batches returns a client's requests for one resource: its LISTs, and its WATCHes that start with
// all objects. It returns nil if the number of objects is unknown.
func (d *Doctor) batches(c Client, u *usage) (all []batch) {
	s := d.size(u.resource)
	if s.Objects == 0 {
		return nil
	}
	for sel := range selections {
		n, w := u.listTallies[sel], u.watchTallies[sel]
		if whole := n.lists - n.paged; whole > 0 {
			all = append(all, d.list(c, s, sel, float64(whole), float64(n.quorum-n.paged)))
		}
		if n.paged > 0 {
			all = append(all, d.list(c, s, sel, float64(n.paged), 0).atMost(n.objectsEach()).paged())
		}
		if w.initial > 0 {
			all = append(all, d.list(c, s, sel, float64(w.initial), 0).initial())
		}
	}
	return all
}

// shard returns the same number of LISTs, each of one shard of the objects. Its parameter is the
// number of shards. The server looks at all objects to find the objects of a shard.
func (b batch) shard(of float64) batch {
	b.work.Looked = float64(b.size.Objects)
	b.work.Sent /= of
	b.held /= of
	if b.work.PageCount > 0 {
		return b.paged()
	}
	return b
}

// costOf returns the sum of the costs of batches for a server with the coefficients k.
func costOf(k *cost.Coefficients, all []batch) (sum cost.Cost) {
	for _, b := range all {
		sum = sum.Add(k.Of(b.work))
	}
	return sum
}

// clientCost returns the cost of a client's LISTs, and the memory of the LISTs that ran at the same
// time.
func (d *Doctor) clientCost(c *client) (sum cost.Cost, held float64) {
	m := d.options.Model
	if m == nil {
		return sum, 0
	}
	for _, u := range c.usages {
		all := d.batches(c.name, u)
		sum = sum.Add(costOf(&m.Server, all))
		for _, b := range all {
			held = max(held, b.held)
		}
	}
	return sum, held * m.Memory.Held * c.concurrency()
}

// concurrency estimates the largest number of the client's LISTs that ran at the same time. It
// returns at least 1.
func (c *client) concurrency() float64 {
	if c.listPeak == nil {
		return 1
	}
	return math.Ceil(max(1, float64(c.listPeak.most)/1000))
}

// Prediction is the cost that a client's requests would have had with a remedy. Except for
// ProxyCPUSeconds, it is the cost for the API server.
type Prediction struct {
	Remedy string `json:"remedy"` // RemedyNone: without a remedy
	cost.Cost
	HeldBytes       float64 `json:"heldBytes"`                 // of memory, while the requests run
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
	RemedyHeld     = "its existing informer"
	RemedyShards   = "a shard for each replica"
	RemedyResume   = "WATCHes that are resumed"
	RemedyLasting  = "WATCHes of 5 to 10 minutes"
	RemedyProxy    = "through weir-proxy"

	RemedyEachMinute = "one write per minute of each object"
	RemedyOneWriter  = "one writer"
	RemedyWatchOne   = "a WATCH of each of the objects"
)

// whatIfCase contains a client's requests for one resource. A remedy changes the requests.
type whatIfCase struct {
	d           *Doctor
	c           *client
	u           *usage
	size        Size
	all         []batch
	machines    float64
	concurrency float64
}

// whatIf predicts the cost of the requests that a finding is about, first without a remedy and then
// with each remedy. It returns nil if there is no model or the number of objects is unknown.
func (d *Doctor) whatIf(c *client, u *usage, k *kind) []Prediction {
	w := &whatIfCase{d: d, c: c, u: u, size: d.size(u.resource), concurrency: c.concurrency()}
	if w.all = d.batches(c.name, u); k.asks != nil {
		w.all = k.asks(w)
	}
	if d.options.Model == nil || len(w.all) == 0 {
		return nil
	}
	w.machines = float64(max(u.watchMachines(), u.whole.machines(), u.part.machines()))
	if k.apart {
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

// remedy predicts the cost of the requests of w with a remedy. It returns false if the remedy would
// not change the requests.
type remedy func(w *whatIfCase) (Prediction, bool)

func (w *whatIfCase) predict(name string, all []batch) Prediction {
	p := Prediction{Remedy: name, Cost: costOf(&w.d.options.Model.Server, all)}
	for _, b := range all {
		p.HeldBytes = max(p.HeldBytes, b.held)
	}
	p.HeldBytes *= w.d.options.Model.Memory.Held * w.concurrency
	return p
}

// change replaces each batch of w by the batch that the function to returns for it, and predicts
// the cost.
func (w *whatIfCase) change(name string, to func(batch) batch) Prediction {
	var all []batch
	for _, b := range w.all {
		all = append(all, to(b))
	}
	return w.predict(name, all)
}

// cached predicts the cost if the LISTs had resourceVersion=0. Then the watch cache answers them
// without a request to etcd, and ignores their limits.
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

// inPages predicts the cost if the LISTs were sent in pages. It returns false if each fits into one
// page.
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

// byNode predicts the cost if each machine LISTed only the pods of its node.
func byNode(w *whatIfCase) (Prediction, bool) {
	return w.change(RemedyNode, func(b batch) batch {
		return w.d.list(w.c.name, b.size, selectNode, b.work.Requests, b.work.Quorum)
	}), true
}

// informed predicts the cost if each machine had an informer, which receives all objects once and
// then each write. If the client already has an informer and sends the requests in addition, the
// remedy costs nothing.
func informed(w *whatIfCase) (Prediction, bool) {
	if t := w.u.watchTallies[selectAll]; t.ended+t.open > t.initial {
		return w.predict(RemedyHeld, nil), true
	}
	if w.u.whole.total() == 0 {
		return w.predict(RemedyIndex, []batch{w.informer(w.machines)}), true
	}
	return newInformer(w)
}

// newInformer predicts the cost of a new informer on each machine, even if the client already has
// an informer there. It returns false if the number of objects is unknown.
func newInformer(w *whatIfCase) (Prediction, bool) {
	return w.predict(RemedyInformer, []batch{w.informer(w.machines)}), w.size.Objects > 0
}

// informer returns the requests of a number of informers of all objects.
func (w *whatIfCase) informer(of float64) batch {
	b := w.d.list(w.c.name, w.size, selectAll, of, of).initial()
	b.work.Connections = of
	b.work.Events, b.work.EventBytes = of*w.d.census.writes(w.size.Resource), w.size.Bytes
	return b
}

// shardedByMachine predicts the cost if each machine LISTed only its shard, with a shardSelector.
func shardedByMachine(w *whatIfCase) (Prediction, bool) {
	return w.change(RemedyShards, func(b batch) batch {
		if b.selection == selectAll {
			b = b.shard(w.machines)
		}
		return b
	}), w.machines > 1
}

// watches returns n WATCHes that start without objects. Such a WATCH costs as much as any request.
func (w *whatIfCase) watches(n float64) batch {
	return batch{c: w.c.name, size: w.size, work: cost.Work{Requests: n}}
}

// lastingWatch is the average duration of client-go's WATCHes, in seconds.
const lastingWatch = 450

// lasted predicts the cost if the WATCHes lasted as long as an informer's WATCHes.
func lasted(w *whatIfCase) (Prediction, bool) {
	n := math.Ceil(w.u.watchesButProofs().Seconds / lastingWatch)
	return w.predict(RemedyLasting, []batch{w.watches(max(w.machines, n))}), true
}

// resumed predicts the cost of one LIST from each machine, and of WATCHes that each continue where
// the previous one ended.
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

// proxied predicts the cost if the proxy answered the requests. The API server then serves only the
// proxy's informer, and the proxy's requests for the newest resourceVersion. The proxy sends at
// most one such request for each LIST that must be as new as etcd.
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
