package doctor

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirproject/weir/internal/quantity"
)

const (
	// A controller that restarts twice a day LISTs each resource 14 times a week, a person who
	// looks into something a dozen times an hour.
	pollLists = 20
	// A deployment of a few replicas that all LIST at the start does not poll.
	pollListsEach = 10
	// Nobody polls at 30 % of one interval by chance, and 10 minutes are what polling ends at:
	// beyond, it costs less than a WATCH.
	pollRegular  = 0.6
	pollInterval = 10 * time.Minute
	// Several replicas or threads that poll side by side have no interval together, but a rate that
	// no person has.
	pollBusyLists   = 100
	pollBusyPerHour = 60
	// Somebody who looks at a screen that is refreshed for some minutes does not poll. Nor does what
	// LISTs each of many namespaces once, such as a backup.
	lasting      = 10 * time.Minute
	lastingLists = 100

	// An informer answers LISTs of a part for nothing. Below six a minute it saves little, and what
	// comes once at the start of each of many pods is no habit.
	partLists     = 100
	partListsEach = 20
	partPerHour   = 6 * 60
	partLasting   = 1000 // LISTs that are a habit even where they come within minutes
	// Who deletes all objects of a namespace LISTs them, to see that it is done. That is the
	// namespace controller, which has no informer of them.
	cleanings = 4

	// A deployment has fewer replicas, and a cluster with fewer nodes no trouble of this sort.
	// Machines count that LIST within the same hour: a deployment that is rolled out now and then,
	// and jobs, have as many in a week.
	nodePlaces   = 20
	nodeResource = "pods" // what grows with the nodes, so that all of them read its square

	// A LIST that fails at once costs nothing, and is tried again by all informers there are.
	vainLists   = 20
	vainLatency = 5 * time.Second
)

// findPolling finds LISTs of all objects again and again.
func findPolling(u *usage, explained explain) (Finding, bool) {
	p := u.whole
	if p.total() < pollLists || p.count < pollListsEach*p.machines() {
		return Finding{}, false
	}
	every, share := p.interval()
	regular := share >= pollRegular && every <= pollInterval && (p.span() >= lasting || p.count >= lastingLists)
	if !regular && (p.count < pollBusyLists || p.perHour() < pollBusyPerHour) {
		return Finding{}, false
	}
	rhythm, explains := p.inBursts(explained)
	switch {
	case explains:
		return Finding{}, false
	case regular:
		rhythm = fmt.Sprintf("every %s (%.0f%% of the intervals)", duration(every), 100*share)
	case rhythm == "":
		rhythm = fmt.Sprintf("%s times an hour", quantity.Number(p.perHour()))
	}
	f := Finding{
		Kind: FindingPolling, Count: p.count, Seconds: p.latency.Seconds(), whole: p.count,
		Text:   fmt.Sprintf("LISTs all %s %s: %s LISTs%s", u.resource, rhythm, quantity.Count(p.count), p.sort()),
		Remedy: "hold an informer and read its cache; where it must poll, ask with resourceVersion=0",
	}
	if 2*p.initial > p.count {
		f.Remedy = "resume the WATCH from the last resourceVersion, with bookmarks; find what makes it begin anew: a crash loop"
	}
	return f, true
}

// findPart finds LISTs of some objects many times a minute.
func findPart(u *usage, explained explain) (Finding, bool) {
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
	rhythm, explains := p.inBursts(explained)
	if explains {
		return Finding{}, false
	}
	if rhythm == "" {
		rhythm = quantity.Number(max(p.perHour(), float64(p.hourly.busiest))/60) + " times a minute"
	}
	return Finding{
		Kind: FindingPart, Count: p.count, Seconds: p.latency.Seconds(),
		Text:   fmt.Sprintf("LISTs %s %s %s: %s LISTs%s", u.resource, how, rhythm, quantity.Count(p.count), p.sort()),
		Remedy: "hold an informer with an index and look the objects up in it",
	}, true
}

// findNodes finds LISTs of all pods by each node.
func findNodes(u *usage, _ explain) (Finding, bool) {
	p := u.whole
	if p == nil || p.spread == nil || max(p.spread.most, p.spread.places.count()) < nodePlaces {
		return Finding{}, false
	}
	return Finding{
		Kind: FindingNodes, Count: p.count, Seconds: p.latency.Seconds(), whole: p.count,
		Text: fmt.Sprintf("LISTs all %s from about %s machines: %s LISTs%s", u.resource,
			quantity.Count(p.machines()), quantity.Count(p.count), p.sort()),
		Remedy: "ask with fieldSelector=spec.nodeName=NODE, or have one replica ask for all",
	}, true
}

// findFailing finds LISTs that take long, fail, and are tried again.
func findFailing(u *usage, _ explain) (Finding, bool) {
	n, took := u.vain.requests, u.vain.latency
	if n < vainLists || took < time.Duration(n)*vainLatency {
		return Finding{}, false
	}
	return Finding{
		Kind: FindingFailing, Count: n, Seconds: took.Seconds(),
		Text: fmt.Sprintf("LISTs %s in vain: %s of %s LISTs failed with 5xx, after %s on average", u.resource, quantity.Count(n),
			quantity.Count(u.tally[verbList].requests), quantity.Seconds(took.Seconds()/float64(n))),
		Remedy: "LIST in pages, with limit, or from the watch cache, with resourceVersion=0; find in the server's log why they fail",
	}, true
}

// cleans reports whether LISTs come with the deletion of what they are of.
func (u *usage) cleans() bool {
	return cleanings*u.tally[verbDeleteCollection].requests >= max(1, u.part.total())
}

// ofAll returns how many LISTs of a pattern read all objects.
func (u *usage) ofAll(p *pattern) int64 {
	if p == u.whole {
		return p.count
	}
	return 0
}

// machines estimates how many machines the LISTs came from, at least 1, and 1 of nil.
func (p *pattern) machines() int64 {
	if p == nil {
		return 1
	}
	return int64(max(1, p.places.count()))
}

// sort says how long a LIST took, and what most of them ask the server to do.
func (p *pattern) sort() string {
	lists := p.count - p.initial
	if p.initial > lists {
		return ", most of them at the start of a WATCH (sendInitialEvents, or no resourceVersion)"
	}
	return ", " + quantity.Seconds(p.latency.Seconds()/float64(max(1, lists))) + " each" + p.source()
}

// source says where the answers come from.
func (p *pattern) source() string {
	text := ", from the watch cache"
	if 2*p.quorum > p.count {
		text = ", without resourceVersion (a quorum read)"
	}
	if 2*p.limited < p.count {
		text += ", unpaged"
	}
	return text
}

// duration writes a time for people, in the unit that suits it: 10 h, 1.5 min, 30 s.
func duration(d time.Duration) string {
	switch {
	case d >= time.Hour:
		return round(d.Hours()) + " h"
	case d >= time.Minute:
		return round(d.Minutes()) + " min"
	}
	return round(d.Seconds()) + " s"
}

// round writes a number with three digits that mean something, and no zeros behind the point.
func round(v float64) string {
	text := quantity.Number(v)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}
