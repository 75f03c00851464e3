package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/weirproject/weir/internal/core/humanize"
)

// Headline describes the client that caused the most work of the API server.
type Headline struct {
	Client Client  `json:"client"`
	Share  float64 `json:"share"` // of the work of all clients, from 0 to 1
	Work   string  `json:"work"`  // how the work is measured: WorkCPU, WorkTime or WorkRequests
	Totals Totals  `json:"totals"`
	// Objects is the number of objects that the client's LISTs of all objects read, or 0 if the
	// numbers of objects are unknown.
	Objects int64  `json:"objects,omitempty"`
	Finding int    `json:"finding"`       // the index of the client's first finding; -1: none
	Why     string `json:"why,omitempty"` // the reason why the client has no finding
}

// The values of Headline.Work.
const (
	// WorkCPU is the predicted CPU of LISTs, and of the writes and GETs that a finding is about. It
	// requires a model, and the numbers of objects for LISTs that took most of the time.
	WorkCPU      = "CPU"
	WorkTime     = "LIST time"
	WorkRequests = "requests" // if there were no LISTs
)

// headline returns the headline of a report that has all clients and findings. It returns nil if
// there is no client.
func (d *Doctor) headline(r *Report) *Headline {
	spent := map[Client]float64{} // CPU that findings name and that is not that of LISTs
	for _, f := range r.Findings {
		at := slices.IndexFunc(kinds, func(k *kind) bool { return k.name == f.Kind })
		if kinds[at].apart && len(f.WhatIf) > 0 {
			spent[f.Client] += f.WhatIf[0].CPUSeconds
		}
	}
	for _, w := range []struct {
		name string
		rest float64 // the work of the clients that are not counted separately
		of   func(c *ClientReport) float64
	}{
		{WorkCPU, 0, func(c *ClientReport) float64 { return c.Cost.CPUSeconds + spent[c.Client] }},
		{WorkTime, r.Others.ListSeconds, func(c *ClientReport) float64 { return c.ListSeconds }},
		{WorkRequests, float64(r.Others.Requests), func(c *ClientReport) float64 { return float64(c.Requests) }},
	} {
		var top *ClientReport
		most, sum := 0.0, w.rest
		for i := range r.Clients {
			n := w.of(&r.Clients[i])
			if sum += n; n > most {
				most, top = n, &r.Clients[i]
			}
		}
		if top != nil && (w.name != WorkCPU || d.pricesMost(r.Others)) {
			return d.headlineOf(r, top, &Headline{Client: top.Client, Totals: top.Totals, Share: most / sum, Work: w.name})
		}
	}
	return nil
}

// unpriced is the largest share of the time of LISTs for which doctor may lack a prediction if it
// compares the work of clients by their CPU.
const unpriced = 0.1

// pricesMost reports whether doctor predicts the CPU of most LISTs. It predicts none of those of
// the clients that are not counted separately.
func (d *Doctor) pricesMost(others Totals) bool {
	without := time.Duration(others.ListSeconds * float64(time.Second))
	all := without
	for _, c := range d.clients.least {
		for _, u := range c.usages {
			all += u.tally[verbList].latency
			if d.size(u.resource).Objects == 0 {
				without += u.tally[verbList].latency
			}
		}
	}
	return float64(without) <= unpriced*float64(all)
}

// headlineOf completes the headline about a client.
func (d *Doctor) headlineOf(r *Report, top *ClientReport, h *Headline) *Headline {
	h.Finding = slices.IndexFunc(r.Findings, func(f Finding) bool {
		return f.Client == top.Client || slices.Contains(f.with, top.Client)
	})
	c := d.clients.least[slices.IndexFunc(d.clients.least, func(c *client) bool { return c.name == top.Client })]
	for _, u := range c.usages {
		if n := d.options.Objects[u.resource]; n > 0 {
			t := &u.listTallies[selectAll]
			h.Objects += u.objectsRead(t.lists+u.watchTallies[selectAll].initial, n)
		}
	}
	if h.Finding < 0 {
		h.Why = c.noFinding()
	}
	return h
}

// noFinding returns the reason why a client has no finding, however much work it caused.
func (c *client) noFinding() string {
	var u *usage // the one with the most time of LISTs
	for _, one := range c.usages {
		if u == nil || cmp.Or(cmp.Compare(one.tally[verbList].latency, u.tally[verbList].latency), cmp.Compare(u.resource, one.resource)) > 0 {
			u = one
		}
	}
	lists, machines := u.whole.total()+u.part.total(), max(1, u.whole.machines(), u.part.machines())
	switch {
	case c.name.User == server:
		return "API servers send these requests to themselves, and users cannot change them"
	case c.total.Lists+u.watches.Initial == 0:
		return "it sends no LISTs, and its other requests are below the limits of a finding"
	case u.resource == other:
		return "it requests too many resources to count them separately"
	case lists == 0:
		return fmt.Sprintf("an informer cannot replace its LISTs of %s: they failed, are of one object, or have no WATCH", u.resource)
	case c.name.isKubectl():
		return "people and jobs run kubectl, and its LISTs do not repeat at an interval"
	case lists <= 2*machines:
		return fmt.Sprintf("each of its %s machines LISTed %s about once, as an informer does when it starts", humanize.Count(machines), u.resource)
	}
	return fmt.Sprintf("its LISTs of %s (%s) are below the limits of a finding: they have neither a short interval nor periodic bursts",
		u.resource, humanize.Count(lists))
}
