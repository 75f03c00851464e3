package doctor

import (
	"cmp"
	"maps"
	"slices"

	"github.com/weirproject/weir/measure/doctor/cost"
)

// Restart is the predicted cost if all clients start at the same time. A start is the LIST or WATCH
// with which an informer, or a client that LISTs everything, starts on one machine.
type Restart struct {
	Starts   float64 `json:"starts"` // the number of all starts
	Clients  int     `json:"clients"`
	Priced   float64 `json:"priced"` // the number of starts whose cost is predicted
	Killer   Client  `json:"killer"` // its starts need most CPU; empty if nothing is predicted
	Resource string  `json:"resource"`
	Killers  float64 `json:"killerStarts"`
	// Unpriced lists resources whose number of objects is unknown, the resource with the most starts
	// first.
	Unpriced []Unpriced `json:"unpriced,omitempty"`
	// Predictions are the cost without a remedy, then the cost with each remedy of the killer, and
	// last the cost if all clients use the proxy. Predictions is empty, but never null, if nothing is
	// predicted.
	Predictions []Prediction `json:"predictions"`
	// PeakBytes is the server's predicted memory for each prediction. If Whole is false, it is only
	// what the starts add.
	PeakBytes []float64 `json:"peakBytes"`
	Whole     bool      `json:"whole"`
}

// Unpriced is the number of a resource's starts whose cost is not predicted.
type Unpriced struct {
	Resource string  `json:"resource"`
	Starts   float64 `json:"starts"`
}

// start is a number of LISTs or WATCHes with which informers of one client and resource start.
type start struct {
	c     *client
	u     *usage
	batch batch
}

// restart predicts a Restart. It returns nil if there is no model or no start.
func (d *Doctor) restart() *Restart {
	m := d.options.Model
	if m == nil {
		return nil
	}
	resident := float64(d.options.Resident)
	r := &Restart{Whole: resident > 0, Predictions: []Prediction{}, PeakBytes: []float64{}}
	starts := d.starts()
	if starts = r.count(starts); len(starts) == 0 {
		if r.Starts == 0 {
			return nil
		}
		return r
	}
	killer := &starts[0]
	r.Killer, r.Resource, r.Killers = killer.c.name, killer.u.resource, killer.batch.work.Requests
	add := func(name string, all []start, proxy float64) {
		p := Prediction{Remedy: name, ProxyCPUSeconds: proxy}
		for _, s := range all {
			p.Cost = p.Cost.Add(m.Server.Of(s.batch.work))
		}
		underWay := underWay(all)
		p.HeldBytes = underWay * m.Memory.Held
		r.Predictions = append(r.Predictions, p)
		r.PeakBytes = append(r.PeakBytes, resident+m.Memory.Growth(resident, underWay))
	}
	add(RemedyNone, starts, 0)
	for _, other := range killer.otherwise(d) {
		add(other.name, append([]start{{killer.c, killer.u, other.batch}}, starts[1:]...), 0)
	}
	behind, proxy := d.behindProxy(starts)
	add(RemedyProxy, behind, proxy)
	return r
}

// count adds all starts to r's totals. It returns the starts whose cost can be predicted, because
// the number of the resource's objects is known.
func (r *Restart) count(starts []start) (priced []start) {
	unpriced, clients := map[string]float64{}, map[int64]bool{}
	for _, s := range starts {
		n := s.batch.work.Requests
		r.Starts += n
		clients[s.c.serial] = true
		if s.batch.size.Objects == 0 {
			unpriced[s.u.resource] += n
			continue
		}
		r.Priced += n
		priced = append(priced, s)
	}
	for resource, n := range unpriced {
		r.Unpriced = append(r.Unpriced, Unpriced{resource, n})
	}
	slices.SortFunc(r.Unpriced, func(a, b Unpriced) int {
		return cmp.Or(cmp.Compare(b.Starts, a.Starts), cmp.Compare(a.Resource, b.Resource))
	})
	r.Clients = len(clients)
	return priced
}

// starts returns the starts of all clients, the start that needs most CPU first.
func (d *Doctor) starts() (all []start) {
	for _, c := range d.clients.least {
		if c.name.User == server {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(c.usages)) {
			all = append(all, d.startsOf(c, c.usages[name])...)
		}
	}
	server := &d.options.Model.Server
	slices.SortStableFunc(all, func(a, b start) int {
		return cmp.Or(cmp.Compare(server.Of(b.batch.work).CPUSeconds, server.Of(a.batch.work).CPUSeconds),
			cmp.Compare(a.c.name.String(), b.c.name.String()), cmp.Compare(a.u.resource, b.u.resource))
	})
	return all
}

// startsOf returns a client's starts for a resource: one for each selection that the client
// WATCHes. The most common selection starts once on each machine. If the client does not WATCH the
// resource but LISTs all objects, the start is that LIST.
func (d *Doctor) startsOf(c *client, u *usage) (all []start) {
	most, common := int64(0), selectAll
	for sel, w := range u.watchTallies {
		if n := w.ended + w.open; n > most {
			most, common = n, selection(sel)
		}
	}
	if most == 0 {
		if u.listTallies[selectAll].lists == 0 {
			return nil
		}
		return []start{d.startOf(c, u, selectAll, float64(u.whole.machines()), false)}
	}
	for sel, w := range u.watchTallies {
		if w.ended+w.open == 0 {
			continue
		}
		n := float64(max(1, w.open))
		if selection(sel) == common {
			n = max(n, float64(u.watchMachines()))
		}
		all = append(all, d.startOf(c, u, selection(sel), n, true))
	}
	return all
}

// startOf returns n starts with one selection of a resource. They are LISTs or WATCHes of the kind
// that the client uses most for this selection.
func (d *Doctor) startOf(c *client, u *usage, of selection, n float64, watches bool) start {
	size := d.size(u.resource)
	if size.Objects == 0 || u.resource == other {
		size.Objects = 0
		return start{c, u, batch{c: c.name, size: size, work: cost.Work{Requests: n}}}
	}
	lists, quorum := u.listTallies[of].lists, 1.0
	if lists > 0 {
		quorum = float64(u.listTallies[of].quorum) / float64(lists)
	}
	b := d.list(c.name, size, of, n, n*quorum)
	if u.watchTallies[of].initial > lists {
		b = b.initial()
	} else if 2*u.listTallies[of].paged > lists {
		if !watches { // an informer has LISTed all objects
			b = b.atMost(u.listTallies[of].objectsEach())
		}
		b = b.paged()
	}
	b.work.Connections = n
	return start{c, u, b}
}

// named is a batch with the name of a remedy.
type named struct {
	name  string
	batch batch
}

// otherwise returns the requests that the client would send instead, for each remedy that applies
// to the start.
func (s *start) otherwise(d *Doctor) (out []named) {
	b, n := s.batch, s.batch.work.Requests
	list := func(sel selection, quorum float64) batch {
		o := d.list(s.c.name, b.size, sel, n, quorum)
		o.work.Connections = b.work.Connections
		return o
	}
	if b.work.Quorum > 0 {
		out = append(out, named{RemedyCache, list(b.selection, 0)})
	}
	if b.selection == selectAll && b.work.PageCount == 0 && b.size.Objects > pageObjects {
		out = append(out, named{RemedyPages, list(selectAll, n).paged()})
	}
	if b.selection == selectAll && b.work.Encoding != cost.Initial {
		out = append(out, named{RemedyInformer, list(selectAll, n).initial()})
	}
	if b.selection == selectAll && b.size.Resource == nodeResource && n >= nodePlaces {
		out = append(out, named{RemedyNode, list(selectNode, b.work.Quorum)})
	}
	if b.selection == selectAll && n > 1 {
		out = append(out, named{RemedyShards, b.shard(n)})
	}
	return out
}

// behindProxy returns the requests that the API server receives if a proxy answers the starts, and
// the CPU time that the proxy needs. The proxy sends the server at most one request for each LIST
// that must be as new as etcd.
func (d *Doctor) behindProxy(starts []start) (seen []start, proxyCPU float64) {
	for _, s := range starts {
		proxyCPU += d.options.Model.Proxy.Of(s.batch.work).CPUSeconds
		if q := s.batch.work.Quorum; q > 0 {
			question := batch{c: s.c.name, size: s.batch.size, work: cost.Work{Requests: q, Quorum: q}}
			seen = append(seen, start{s.c, s.u, question})
		}
	}
	return seen, proxyCPU
}

// underWay returns how many stored bytes are in the answers that the server sends at the same time
// when all clients start. Priority and fairness limits these answers by seats.
func underWay(all []start) float64 {
	held, seats := 0.0, 0.0
	for _, s := range all {
		n := s.batch.work.Requests
		held += n * s.batch.held
		seats += n * cost.Seats(s.batch.held/s.batch.size.Bytes)
	}
	return held * cost.LetIn(seats)
}
