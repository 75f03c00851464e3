package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// The kinds of findings.
const (
	FindingRelist  = "relist"  // LISTs again after each WATCH, which is over soon
	FindingNodes   = "nodes"   // each node LISTs all pods
	FindingResync  = "resync"  // bursts of LISTs with a period
	FindingPolling = "polling" // LISTs all objects again and again
	FindingPart    = "part"    // LISTs some objects many times a minute
	FindingWatches = "watches" // WATCHes that are over soon
	FindingFailing = "failing" // LISTs that take long, fail and are tried again
	FindingRefused = "refused" // requests that were refused, and who had the seats
)

// Finding is something that a client does, what it costs and what to do about it.
type Finding struct {
	Kind     string   `json:"kind"`
	Client   Client   `json:"client"`   // empty if no client stands out
	Resource string   `json:"resource"` // empty if it is none in particular
	Also     []string `json:"also,omitempty"`
	Text     string   `json:"text"`   // what the client does, with the numbers that prove it
	Remedy   string   `json:"remedy"` // what to change
	Count    int64    `json:"count"`  // of the requests that it is about
	Seconds  float64  `json:"seconds"`
	Objects  int64    `json:"objects,omitempty"` // that were read, where sizes are known
	// Change is the line to write in place of the one there is, in client-go's words.
	Change   string `json:"change,omitempty"`
	Incident string `json:"incident,omitempty"`
	// WhatIf is what the requests cost, and what they would have cost with each remedy; the first is
	// how it is. Null where nobody knows how many objects there are.
	WhatIf []Prediction `json:"whatIf"`

	whole int64 // of the requests, those that read all objects
}

// finder looks at what a client does with a resource. It returns a Finding without names, and false
// if there is nothing to be found.
type finder func(u *usage, explained explain) (Finding, bool)

// server is who API servers are to themselves. They LIST Services every three minutes to mend their
// allocations, which nobody can change.
const server = "system:apiserver"

// findings returns what all clients do that costs more than it has to, the costliest first.
func (d *Doctor) findings() []Finding {
	var all []Finding
	for _, c := range d.clients.least {
		if c.name.User == server {
			continue
		}
		all = append(all, d.ofClient(c)...)
	}
	if f, ok := d.refusals(); ok {
		all = append(all, f)
	}
	slices.SortStableFunc(all, byCost)
	for i := range all {
		all[i].Incident = IncidentOf(all[i].Kind)
	}
	return all
}

// ofClient returns the findings of one client, one of each kind: the resources that cost less are
// named in it.
func (d *Doctor) ofClient(c *client) []Finding {
	byKind := map[string][]Finding{}
	for _, u := range c.usages {
		for _, f := range d.ofUsage(c, u) {
			f.Client, f.Resource, f.Change = c.name, u.resource, changeOf(f.Kind, c.name, u)
			f.WhatIf = d.whatIf(c, u, f.Kind)
			byKind[f.Kind] = append(byKind[f.Kind], f)
		}
	}
	var all []Finding
	for _, same := range byKind {
		slices.SortFunc(same, byCost)
		f := same[0]
		for _, o := range same[1:] {
			f.Also = append(f.Also, o.Resource)
		}
		if n := len(f.Also); n > 0 {
			f.Text += fmt.Sprintf(". It does the same with %s", strings.Join(f.Also[:min(n, 3)], ", "))
			if n > 3 {
				f.Text += fmt.Sprintf(" and %d more", n-3)
			}
		}
		all = append(all, f)
	}
	return all
}

// ofUsage returns the findings about one resource: of all LISTs the one that says most, because a
// client that lists after each WATCH also polls, and one about WATCHes. Who uses kubectl, by hand
// or in many jobs, has no informer to hold, and no replicas.
func (d *Doctor) ofUsage(c *client, u *usage) []Finding {
	if u.resource == other {
		return nil
	}
	finders := []finder{findRelist, findNodes, findResync, findPolling, findPart, findWatches, findFailing}
	if strings.HasPrefix(c.name.Agent, "kubectl/") {
		finders = []finder{findRelist, findPolling, findWatches, findFailing}
	}
	explained := d.explains(c)
	for _, find := range finders {
		if f, ok := find(u, explained); ok {
			f.Objects = u.objectsRead(f.whole, d.options.Objects[u.resource])
			return []Finding{f}
		}
	}
	return nil
}

// byCost orders findings: objects that were read, where sizes are known, then the time that the
// requests took, then their number. What is equal is ordered by name, so that reports are the same.
func byCost(a, b Finding) int {
	return cmp.Or(
		cmp.Compare(b.Objects, a.Objects), cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(b.Count, a.Count),
		cmp.Compare(a.Client.User, b.Client.User), cmp.Compare(a.Client.Agent, b.Client.Agent),
		cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Resource, b.Resource),
	)
}

// incidents are the pages of docs/incidents that explain what is of each kind.
var incidents = map[string]string{
	FindingPolling: "concurrent-lists",
	FindingResync:  "resync-storm",
	FindingNodes:   "node-agents",
	FindingPart:    "resync-storm",
	FindingRelist:  "relist",
	FindingWatches: "initial-events",
	FindingFailing: "concurrent-lists",
	FindingRefused: "thundering-restart",
}

// IncidentOf returns the name of the incident that a kind of finding is explained by; empty: there
// is none.
func IncidentOf(kind string) string { return incidents[kind] }
