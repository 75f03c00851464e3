package doctor

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/weirproject/weir/measure/doctor/cost"
)

// Report is the result of a Doctor.
type Report struct {
	From    time.Time      `json:"from"` // when the first request ended; zero if none has
	To      time.Time      `json:"to"`
	Totals  Totals         `json:"totals"`
	Clients []ClientReport `json:"clients"` // by the time of their LISTs, then by requests
	// Others are the clients that were evicted.
	Others        Totals    `json:"others"`
	OthersClients int64     `json:"othersClients"` // how often a client was evicted
	Rate          Rate      `json:"rate"`
	Findings      []Finding `json:"findings"` // the costliest first; never null
	Sizes         []Size    `json:"sizes"`    // of the resources that were LISTed; never null
	Restart       *Restart  `json:"restart,omitempty"`
}

// Rate has what happened in each bucket of time.
type Rate struct {
	Seconds  float64  `json:"seconds"` // the width of a bucket
	Requests []uint32 `json:"requests"`
	Lists    []uint32 `json:"lists"`
	Refused  []uint32 `json:"refused"`
	// Busiest are the clients whose LISTs took longest, with the average number of running LISTs;
	// never null.
	Busiest []Busy `json:"busiest"`
}

// Busy is the number of running LISTs of a client in each bucket of time.
type Busy struct {
	Client
	UnderWay []float64 `json:"underWay"`
}

// maxBusy bounds the clients in Busiest, because a chart with more is hard to read.
const maxBusy = 4

// ClientReport is what one client did.
type ClientReport struct {
	Client
	Totals
	Machines  int        `json:"machines"` // an estimate, right to 7 %
	Cost      cost.Cost  `json:"cost"`     // predicted, of its LISTs; 0 if sizes are unknown
	HeldBytes float64    `json:"heldBytes"`
	Resources []Resource `json:"resources"`
}

// Resource is what one client did with one resource.
type Resource struct {
	Name    string          `json:"name"`
	Verbs   map[string]Verb `json:"verbs"`
	Refused int64           `json:"refused"`
	Failed  int64           `json:"failed"`
	Lists   *ListCounts     `json:"lists,omitempty"`
	Watches *WatchCounts    `json:"watches,omitempty"`
}

// Verb counts the requests of one verb.
type Verb struct {
	Requests int64   `json:"requests"`
	Seconds  float64 `json:"seconds"` // from arrival to the end, of all together
}

// Report returns the result so far.
func (d *Doctor) Report() *Report {
	d.countOpen()
	r := &Report{
		Totals: d.total, Others: d.clients.gone, OthersClients: d.clients.pushed,
		Rate: Rate{
			Seconds:  float64(d.clock.width()) / 1e6,
			Requests: copied(d.requests.fold(&d.clock)),
			Lists:    copied(d.lists.fold(&d.clock)), Refused: copied(d.refused.fold(&d.clock)),
		},
		Findings: d.findings(),
		Clients:  []ClientReport{}, Sizes: d.sizes(), Restart: d.restart(),
	}
	for _, c := range d.clients.least {
		if c.total.Requests > 0 {
			report := c.report()
			report.Cost, report.HeldBytes = d.clientCost(c)
			r.Clients = append(r.Clients, report)
		}
	}
	slices.SortFunc(r.Clients, func(a, b ClientReport) int {
		return cmp.Or(cmp.Compare(b.ListSeconds, a.ListSeconds), cmp.Compare(b.Requests, a.Requests),
			cmp.Compare(a.User, b.User), cmp.Compare(a.Agent, b.Agent))
	})
	r.Rate.Busiest = d.busiest()
	if d.first != 0 {
		r.From, r.To = time.UnixMicro(d.first).UTC(), time.UnixMicro(d.last).UTC()
	}
	return r
}

// Empty reports whether no request is complete, so that there is nothing to report. WATCHes that
// have started do not count.
func (r *Report) Empty() bool { return r.From.IsZero() }

// busiest returns the clients whose LISTs had seats for the longest time.
func (d *Doctor) busiest() []Busy {
	type taker struct {
		c      *client
		millis int64
	}
	var all []taker
	for _, c := range d.clients.least {
		t := taker{c: c}
		for _, millis := range c.listTime.fold(&d.clock) {
			t.millis += int64(millis)
		}
		if t.millis > 0 {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b taker) int {
		return cmp.Or(cmp.Compare(b.millis, a.millis), cmp.Compare(a.c.name.User, b.c.name.User),
			cmp.Compare(a.c.name.Agent, b.c.name.Agent))
	})
	out := []Busy{}
	for _, t := range all[:min(len(all), maxBusy)] {
		b := Busy{Client: t.c.name, UnderWay: make([]float64, len(d.requests.fold(&d.clock)))}
		for i, millis := range t.c.listTime.fold(&d.clock) {
			if i < len(b.UnderWay) {
				b.UnderWay[i] = math.Round(1e6*float64(millis)/float64(d.clock.width())) / 1000
			}
		}
		out = append(out, b)
	}
	return out
}

// report returns what the client did, with its resources ordered by name.
func (c *client) report() ClientReport {
	out := ClientReport{Client: c.name, Totals: c.total, Machines: c.places.count(), Resources: []Resource{}}
	for _, name := range slices.Sorted(maps.Keys(c.usages)) {
		u := c.usages[name]
		r := Resource{Name: name, Verbs: map[string]Verb{}, Refused: u.refused, Failed: u.failed}
		for v, t := range u.tally {
			if t.requests > 0 {
				r.Verbs[verbNames[v]] = Verb{t.requests, t.latency.Seconds()}
			}
		}
		if u.tally[verbList].requests > 0 {
			r.Lists = &u.lists
		}
		if u.tally[verbWatch].requests > 0 || u.watches.Open > 0 {
			r.Watches = &u.watches
		}
		out.Resources = append(out.Resources, r)
	}
	return out
}

// copied returns a copy, which is never nil.
func copied(n []uint32) []uint32 { return append([]uint32{}, n...) }
