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
	From    time.Time      `json:"from"` // when the first request ended; zero if none ended
	To      time.Time      `json:"to"`
	Totals  Totals         `json:"totals"`
	Clients []ClientReport `json:"clients"` // ordered by ListSeconds, then by Requests
	// Others are the totals of evicted clients.
	Others        Totals    `json:"others"`
	OthersClients int64     `json:"othersClients"` // how often a client was evicted
	Headline      *Headline `json:"headline,omitempty"`
	Rate          Rate      `json:"rate"`
	Findings      []Finding `json:"findings"` // the costliest first; never null
	Sizes         []Size    `json:"sizes"`    // of the resources that were LISTed; never null
	Restart       *Restart  `json:"restart,omitempty"`
}

// Rate contains the numbers of requests per bucket of time.
type Rate struct {
	Seconds  float64  `json:"seconds"` // the width of a bucket
	Requests []uint32 `json:"requests"`
	Lists    []uint32 `json:"lists"`
	Refused  []uint32 `json:"refused"`
	// Busiest are the clients whose LISTs together had seats of priority and fairness for the longest
	// time. It is never null.
	Busiest []Busy `json:"busiest"`
}

// Busy is a client with the average number of its running LISTs, for each bucket of time.
type Busy struct {
	Client
	UnderWay []float64 `json:"underWay"`
}

// maxBusy limits the number of clients in Busiest, because a chart of more clients is hard to read.
const maxBusy = 4

// ClientReport contains the counts of one client.
type ClientReport struct {
	Client
	Totals
	Machines  int        `json:"machines"` // an estimate, with an error of up to 7 %
	Cost      cost.Cost  `json:"cost"`     // predicted, of the client's LISTs; 0 if sizes are unknown
	HeldBytes float64    `json:"heldBytes"`
	Resources []Resource `json:"resources"`
}

// Resource contains a client's counts for one resource.
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
	Seconds  float64 `json:"seconds"` // the time from arrival to end, of all requests together
}

// Report returns a report on the events so far.
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
	r.Headline = d.headline(r)
	r.Rate.Busiest = d.busiest()
	if d.first != 0 {
		r.From, r.To = time.UnixMicro(d.first).UTC(), time.UnixMicro(d.last).UTC()
	}
	return r
}

// Empty reports whether the log contains no complete request. WATCHes that have only started do not
// count.
func (r *Report) Empty() bool { return r.From.IsZero() }

// busiest returns the clients whose LISTs together had seats for the longest time.
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

// report returns the client's counts, with resources ordered by name.
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

// copied returns a copy of n. The copy is never nil.
func copied(n []uint32) []uint32 { return append([]uint32{}, n...) }
