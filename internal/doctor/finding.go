package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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
	// WhatIf is what the requests cost, and what they would have cost with each remedy; the first
	// is how it is. Null where nobody knows how many objects there are.
	WhatIf []Prediction `json:"whatIf"`

	whole int64    // of the requests, those that read all objects
	with  []Client // who else has a part in it
}

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
	for _, k := range kinds {
		if k.findAll == nil {
			continue
		}
		for _, f := range k.findAll(d) {
			f.Kind, f.Incident = k.name, k.incident
			all = append(all, f)
		}
	}
	fights := slices.DeleteFunc(slices.Clone(all), func(f Finding) bool { return f.Kind != FindingFight })
	all = slices.DeleteFunc(all, func(f Finding) bool { return f.Kind == FindingWrites && inFight(fights, f) })
	slices.SortStableFunc(all, byCost)
	return all
}

// ofClient returns the findings of one client, one of each kind: the resources that cost less are
// named in it.
func (d *Doctor) ofClient(c *client) []Finding {
	byKind := map[string][]Finding{}
	for _, u := range c.usages {
		for _, f := range d.ofUsage(c, u) {
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

// ofUsage returns the findings about one resource: of all LISTs and WATCHes the one that says most,
// because a client that lists after each WATCH also polls.
func (d *Doctor) ofUsage(c *client, u *usage) (all []Finding) {
	if u.resource == other {
		return nil
	}
	listed := false
	for _, k := range kinds {
		if k.find == nil || c.name.isKubectl() && k.kubectl == nil || listed && !k.beside {
			continue
		}
		if f, ok := k.find(subject{u, c, d}); ok {
			f.Kind, f.Incident, f.Client, f.Resource = k.name, k.incident, c.name, u.resource
			f.Objects = u.objectsRead(f.whole, d.options.Objects[u.resource])
			f.Change, f.WhatIf = k.changeOf(c.name, u), d.whatIf(c, u, k)
			all = append(all, f)
			listed = listed || !k.beside
		}
	}
	return all
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
