package doctor

import (
	"fmt"

	"github.com/weirproject/weir/internal/core/humanize"
)

const (
	FindingPart = "part"

	// An informer answers LISTs of some objects without a request. Below six a minute it saves little,
	// and one LIST at the start of each of many pods is no habit.
	partLists     = 100
	partListsEach = 20
	partPerHour   = 6 * 60
	partLasting   = 1000 // LISTs are a habit even if they come within minutes
	// The namespace controller, which has no informer of the objects, LISTs them after it has deleted
	// all objects of a namespace.
	cleanings = 4
)

var partKind = &kind{
	name:     FindingPart,
	does:     "LISTs with a selector, or one namespace, where an informer would do",
	from:     "100 LISTs over 10 minutes, or 1,000, 6 a minute",
	incident: "resync-storm",
	find:     findPart,
	change: func(a api, u *usage) string {
		if u != nil && u.lists.Selected == 0 {
			return a.lister() + " // in the place of a LIST of the namespace"
		}
		return a.informer() + `.Informer().GetIndexer().ByIndex("app", app) // in the place of a LIST with a selector`
	},
	remedies: []remedy{cached, informed, proxied},
}

// findPart finds LISTs of some objects many times a minute.
func findPart(u subject) (Finding, bool) {
	p := u.part
	if p.total() < partLists || p.count < partListsEach*p.machines() || max(p.perHour(), float64(p.hourly.busiest)) < partPerHour {
		return Finding{}, false
	}
	if p.span() < lasting && p.count < partLasting || u.cleans() {
		return Finding{}, false
	}
	how := "with a selector"
	if u.lists.Selected == 0 {
		how = "of one namespace"
	}
	rhythm, explains := p.inBursts(u.explained())
	if explains {
		return Finding{}, false
	}
	if rhythm == "" {
		rhythm = humanize.Number(max(p.perHour(), float64(p.hourly.busiest))/60) + " times a minute"
	}
	return Finding{
		Count: p.count, Seconds: p.latency.Seconds(),
		Text:   fmt.Sprintf("LISTs %s %s %s: %s LISTs%s", u.resource, how, rhythm, humanize.Count(p.count), p.sort()),
		Remedy: "hold an informer with an index and look the objects up in it",
	}, true
}
