package doctor

import (
	"cmp"
	"maps"
	"slices"

	"github.com/weirproject/weir/measure/doctor/cost"
)

// Restart is the cost of a start of all clients at the same time: each LISTs, in its usual way,
// once on each machine, what it LISTs or WATCHes.
type Restart struct {
	Starts   float64 `json:"starts"` // of informers, and of clients that LIST
	Clients  int     `json:"clients"`
	Priced   float64 `json:"priced"` // how many of the starts are predicted
	Killer   Client  `json:"killer"` // it needs most CPU; empty if nothing is predicted
	Resource string  `json:"resource"`
	Killers  float64 `json:"killerStarts"`
	// Unpriced are the starts of resources with an unknown number of objects, most starts first.
	Unpriced []Unpriced `json:"unpriced,omitempty"`
	// Predictions has first the cost without a remedy. In the next ones the killer applies a remedy,
	// and in that of the proxy all clients use it. It is empty if nothing is predicted, and never
	// null.
	Predictions []Prediction `json:"predictions"`
	// PeakBytes are the server's predicted memory if Whole, or else only what the starts add.
	PeakBytes []float64 `json:"peakBytes"`
	Whole     bool      `json:"whole"`
}

// Unpriced is starts of a resource that are not predicted.
type Unpriced struct {
	Resource string  `json:"resource"`
	Starts   float64 `json:"starts"`
}

// start is the requests for one resource when a client starts.
type start struct {
	c     *client
	u     *usage
	batch batch
}

// restart predicts a Restart. It returns nil without a model, or if nothing starts.
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

// count counts all starts, and returns those that can be predicted.
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

// starts returns all starts, the one that needs most CPU first.
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

// startsOf returns the starts of a client with a resource: a WATCH of each selection that it
// WATCHes, with the most common one on each machine. A client that LISTs everything and does not
// WATCH LISTs when it starts, too.
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

// startOf returns n starts of a client with a selection of a resource, in its most common way.
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
	switch {
	case u.watchTallies[of].initial > lists:
		b = b.initial()
	case 2*u.listTallies[of].paged > lists:
		if !watches { // a client that WATCHes has LISTed everything
			b = b.atMost(u.listTallies[of].objectsEach())
		}
		b = b.paged()
	}
	b.work.Connections = n
	return start{c, u, b}
}

// named is a batch with a remedy.
type named struct {
	name  string
	batch batch
}

// otherwise returns the start with each remedy.
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
// the CPU that the proxy needs. The proxy sends at most one request for each LIST that must be as
// new as the storage.
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

// underWay returns the bytes, as they are stored, of the answers that run at the same time when all
// clients start: no more than priority and fairness has seats for.
func underWay(all []start) float64 {
	held, seats := 0.0, 0.0
	for _, s := range all {
		n := s.batch.work.Requests
		held += n * s.batch.held
		seats += n * cost.Seats(s.batch.held/s.batch.size.Bytes)
	}
	return held * cost.LetIn(seats)
}
