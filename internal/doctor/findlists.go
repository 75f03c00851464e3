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

	// An informer answers LISTs of a part for nothing. Below six a minute it saves little, and what
	// comes once at the start of each of many pods is no habit.
	partLists     = 100
	partListsEach = 20
	partPerHour   = 6 * 60

	// A deployment has fewer replicas, and a cluster with fewer nodes no trouble of this sort.
	nodePlaces   = 20
	nodeResource = "pods" // what grows with the nodes, so that all of them read its square

	resyncPeriod = 10 * time.Minute // below, it is polling
)

// findResync finds bursts of LISTs with a period.
func findResync(u *usage) (Finding, bool) {
	for _, p := range []*pattern{u.whole, u.part} {
		if p == nil {
			continue
		}
		every, bursts, ok := p.period()
		if !ok || every < resyncPeriod {
			continue
		}
		return Finding{
			Kind: KindResync, Count: p.count, Seconds: p.latency.Seconds(),
			Text: fmt.Sprintf("LISTs %s in bursts every %s: %d bursts of %d LISTs, %s each%s", u.resource, duration(every),
				bursts, p.inBursts/int64(bursts), p.mean(), p.sort()),
			Remedy: "resync from the informer's cache: set its resync period and drop the LIST, " +
				"or spread the LISTs over the period",
		}, true
	}
	return Finding{}, false
}

// findPolling finds LISTs of all objects again and again.
func findPolling(u *usage) (Finding, bool) {
	p := u.whole
	if p.total() < pollLists || p.count < pollListsEach*p.machines() {
		return Finding{}, false
	}
	every, share := p.interval()
	regular := share >= pollRegular && every <= pollInterval
	if !regular && (p.count < pollBusyLists || p.perHour() < pollBusyPerHour) {
		return Finding{}, false
	}
	rhythm := fmt.Sprintf("%s times an hour", quantity.Number(p.perHour()))
	if regular {
		rhythm = fmt.Sprintf("every %s (%.0f%% of the intervals)", duration(every), 100*share)
	}
	return Finding{
		Kind: KindPolling, Count: p.count, Seconds: p.latency.Seconds(),
		Text: fmt.Sprintf("LISTs all %s %s: %s LISTs, %s each%s", u.resource, rhythm, quantity.Count(p.count),
			p.mean(), p.sort()),
		Remedy: "hold an informer and read its cache; where it must poll, ask with resourceVersion=0",
	}, true
}

// findPart finds LISTs of some objects many times a minute.
func findPart(u *usage) (Finding, bool) {
	p := u.part
	if p.total() < partLists || p.count < partListsEach*p.machines() || p.perHour() < partPerHour {
		return Finding{}, false
	}
	how := "with a selector"
	if u.lists.Selected == 0 {
		how = "of one namespace"
	}
	return Finding{
		Kind: KindPart, Count: p.count, Seconds: p.latency.Seconds(),
		Text: fmt.Sprintf("LISTs %s %s %s times a minute: %s LISTs, %s each%s", u.resource, how,
			quantity.Number(p.perHour()/60), quantity.Count(p.count), p.mean(), p.sort()),
		Remedy: "hold an informer with an index and look the objects up in it",
	}, true
}

// findNodes finds LISTs of all pods by each node.
func findNodes(u *usage) (Finding, bool) {
	p := u.whole
	if u.resource != nodeResource || p == nil || p.machines() < nodePlaces || p.count < p.machines() {
		return Finding{}, false
	}
	return Finding{
		Kind: KindNodes, Count: p.count, Seconds: p.latency.Seconds(),
		Text: fmt.Sprintf("LISTs all %s from about %s machines: %s LISTs, %s each%s", u.resource,
			quantity.Count(p.machines()), quantity.Count(p.count), p.mean(), p.sort()),
		Remedy: "ask with fieldSelector=spec.nodeName=NODE, or have one replica ask for all",
	}, true
}

// machines estimates how many machines the LISTs came from, at least 1.
func (p *pattern) machines() int64 { return int64(max(1, p.places.count())) }

// mean writes how long a LIST took.
func (p *pattern) mean() string {
	return quantity.Seconds(p.latency.Seconds() / float64(max(1, p.count)))
}

// sort says what most of the LISTs ask the server to do.
func (p *pattern) sort() string {
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
