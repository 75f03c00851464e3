package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weirproject/weir/measure/doctor/evidence"
)

// Finding describes what a client does, what that costs and what to change.
type Finding struct {
	Kind     string   `json:"kind"`
	Client   Client   `json:"client"`   // empty if the finding names no client
	Resource string   `json:"resource"` // empty if the finding is about several resources
	Also     []string `json:"also,omitempty"`
	Text     string   `json:"text"`   // what the client does, with numbers that prove it
	Remedy   string   `json:"remedy"` // what to change
	Count    int64    `json:"count"`  // of the requests that the finding is about
	Seconds  float64  `json:"seconds"`
	Objects  int64    `json:"objects,omitempty"` // that the server read, if sizes are known
	// Change is a line of Go or a command that replaces the client's request.
	Change   string `json:"change,omitempty"`
	Incident string `json:"incident,omitempty"`
	// WhatIf contains the cost of the requests, first without a remedy and then with each remedy. It
	// is null if the number of objects is unknown.
	WhatIf []Prediction `json:"whatIf"`

	whole int64    // how many of the requests read all objects
	with  []Client // the other clients that are involved
}

// kind is a kind of finding: its name, how doctor finds it, and its remedies. Each kind is a
// variable in one of the files find*.go, and has an example in testdata/kinds or a case in
// TestMetricsKinds.
type kind struct {
	name       string // in the output of -o json
	does, from string // the row in docs/howto/doctor.md about audit logs, which a test writes
	incident   string // the page in docs/incidents that explains it; empty if there is none

	// find and findAll find the kind in audit logs: for one client and resource, or for all clients.
	find    func(u subject) (Finding, bool)
	findAll func(d *Doctor) []Finding

	// ofResource and ofLevel find the kind in the metrics of a period of some seconds. metricsDo and
	// metricsFrom are the kind's row in docs/howto/doctor.md.
	ofResource             func(r *evidence.ResourceMetrics, seconds float64) (Finding, bool)
	ofLevel                func(l *evidence.LevelMetrics, seconds float64) (Finding, bool)
	metricsDo, metricsFrom string

	// change returns the line of Go to write. u is nil if doctor knows only the resource.
	change func(a api, u *usage) string
	// kubectl returns the command to use instead. If it is nil, doctor does not report this kind for
	// users of kubectl.
	kubectl func(a api) string
	asks    func(w *whatIfCase) []batch // the requests that the finding is about; nil: the LISTs
	apart   bool                        // the finding is not about LISTs and WATCHes
	// explains reports whether the finding f is the cause of a second finding (other). doctor then
	// does not report the second finding.
	explains func(f, other Finding) bool
	remedies []remedy // remedies that a client can apply alone come first
}

// kinds are all kinds of findings. If a client's LISTs and WATCHes of a resource match several
// kinds, doctor reports only the first of these kinds in the list.
var kinds = []*kind{
	relistKind, nodesKind, resyncKind, pollingKind, partKind, watchesKind, failingKind, refusedKind,
	fightKind, writesKind, eventsKind, getsKind,
	selectorsKind, fullKind, etcdKind, slowKind, initialKind, waitingKind,
}

// subject is a client's requests for one resource.
type subject struct {
	*usage
	c *client
	d *Doctor
}

// explained returns the function that finds other causes than a resync for this client's bursts of
// LISTs.
func (s subject) explained() explain { return s.d.explains(s.c) }

// server is the user name with which API servers send requests to themselves. doctor does not
// report this user, because users cannot change its requests. For example, it LISTs Services every
// three minutes to repair their allocations.
const server = "system:apiserver"

// findings returns the findings about all clients, the costliest first.
func (d *Doctor) findings() []Finding {
	all := []Finding{}
	for _, c := range d.clients.least {
		if c.name.User != server {
			all = append(all, d.ofClient(c)...)
		}
	}
	for _, k := range kinds {
		if k.findAll == nil {
			continue
		}
		found := k.findAll(d)
		for i := range found {
			found[i].Kind, found[i].Incident = k.name, k.incident
		}
		if k.explains != nil {
			all = slices.DeleteFunc(all, func(other Finding) bool {
				return slices.ContainsFunc(found, func(f Finding) bool { return k.explains(f, other) })
			})
		}
		all = append(all, found...)
	}
	slices.SortStableFunc(all, byCost)
	return all
}

// ofClient returns the findings about one client, at most one of each kind. A finding also names
// the client's other resources to which it applies.
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

// ofUsage returns the findings about one resource. At most one of them is about LISTs and WATCHes.
// Otherwise a client that LISTs after each WATCH would also get the finding about polling.
func (d *Doctor) ofUsage(c *client, u *usage) (all []Finding) {
	if u.resource == other {
		return nil
	}
	listed := false
	for _, k := range kinds {
		if k.find == nil || c.name.isKubectl() && k.kubectl == nil || listed && !k.apart {
			continue
		}
		if f, ok := k.find(subject{u, c, d}); ok {
			f.Kind, f.Incident, f.Client, f.Resource = k.name, k.incident, c.name, u.resource
			f.Objects = u.objectsRead(f.whole, d.options.Objects[u.resource])
			f.Change, f.WhatIf = k.changeOf(c.name, u), d.whatIf(c, u, k)
			all = append(all, f)
			listed = listed || !k.apart
		}
	}
	return all
}

// changeOf returns the line or the command that replaces a client's requests for a resource.
func (k *kind) changeOf(c Client, u *usage) string {
	switch {
	case c.isKubectl():
		return k.kubectl(apiOf(u.resource, ""))
	case k.change != nil:
		return k.change(apiOf(u.resource, u.version), u)
	}
	return ""
}

// byCost orders findings by the number of objects that were read (if sizes are known), then by the
// time of the requests, and then by their number. Findings that are equal in this order are ordered
// by name, so that a log always gives the same report.
func byCost(a, b Finding) int {
	return cmp.Or(
		cmp.Compare(b.Objects, a.Objects), cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(b.Count, a.Count),
		cmp.Compare(a.Client.User, b.Client.User), cmp.Compare(a.Client.Agent, b.Client.Agent),
		cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Resource, b.Resource),
	)
}

// Live contains what a running server did in a period, according to its metrics, and the findings
// in that period.
type Live struct {
	*evidence.MetricsReport
	Findings []Finding `json:"findings"` // the costliest first; never null; Client is always empty
}

// NewLive returns the findings in a report on metrics. Metrics do not name clients.
func NewLive(r *evidence.MetricsReport) *Live {
	l := &Live{r, []Finding{}}
	add := func(k *kind, resource string, f Finding, found bool) {
		if !found {
			return
		}
		f.Kind, f.Resource, f.Incident = k.name, resource, k.incident
		if k.change != nil {
			f.Change = k.change(apiOf(resource, ""), nil)
		}
		l.Findings = append(l.Findings, f)
	}
	for _, k := range kinds {
		for i := range r.Resources {
			if k.ofResource != nil {
				f, found := k.ofResource(&r.Resources[i], r.Seconds)
				add(k, r.Resources[i].Name, f, found)
			}
		}
		for i := range r.Levels {
			if k.ofLevel != nil {
				f, found := k.ofLevel(&r.Levels[i], r.Seconds)
				add(k, "", f, found)
			}
		}
	}
	slices.SortFunc(l.Findings, byCost)
	return l
}

// perMinute returns how often something must happen in a period to be a finding. The parameter
// times is the limit for a minute. The limit for a shorter period is the same.
func perMinute(times, seconds float64) float64 { return times * max(seconds/60, 1) }
