package doctor

import (
	"fmt"
	"time"

	"github.com/weirproject/weir/internal/core/humanize"
)

const (
	FindingPolling = "polling"

	// A controller that restarts twice a day LISTs each resource 14 times a week, and a person who
	// investigates a problem a dozen times an hour.
	pollLists = 20
	// A deployment whose replicas LIST when they start does not poll.
	pollListsEach = 10
	// Other requests do not have one interval this often by chance. At intervals of more than 10
	// minutes, polling costs less than a WATCH.
	pollRegular  = 0.6
	pollInterval = 10 * time.Minute
	// Several replicas or threads that poll have no common interval, but a higher rate than a person.
	pollBusyLists   = 100
	pollBusyPerHour = 60
	// A person who looks at a refreshed screen for some minutes does not poll. Nor does a backup,
	// which LISTs each of many namespaces once.
	lasting      = 10 * time.Minute
	lastingLists = 100
)

var pollingKind = &kind{
	name:     FindingPolling,
	does:     "LISTs all objects of a resource again and again",
	from:     "20 LISTs over 10 minutes, or 100, most at one interval of 10 minutes or less; or 100 LISTs at 60 an hour and more",
	incident: "concurrent-lists",
	find:     findPolling,
	change: func(a api, _ *usage) string {
		return fmt.Sprintf("%s.Lister().List(selector) // in the place of %s.List(ctx, options)", a.informer(), a.client())
	},
	kubectl:  watchOnce,
	remedies: []remedy{cached, inPages, informedOrResumed, shardedByMachine, proxied},
}

// findPolling finds LISTs of all objects again and again.
func findPolling(u subject) (Finding, bool) {
	p := u.whole
	if p.total() < pollLists || p.count < pollListsEach*p.machines() {
		return Finding{}, false
	}
	every, share := p.interval()
	regular := share >= pollRegular && every <= pollInterval && (p.span() >= lasting || p.count >= lastingLists)
	if !regular && (p.count < pollBusyLists || p.perHour() < pollBusyPerHour) {
		return Finding{}, false
	}
	rhythm, explains := p.inBursts(u.explained())
	switch {
	case explains:
		return Finding{}, false
	case regular:
		rhythm = fmt.Sprintf("every %s (%.0f%% of the intervals)", humanize.Duration(every), 100*share)
	case rhythm == "":
		rhythm = fmt.Sprintf("%s times an hour", humanize.Number(p.perHour()))
	}
	f := Finding{
		Count: p.count, Seconds: p.latency.Seconds(), whole: p.count,
		Text:   fmt.Sprintf("LISTs all %s %s: %s LISTs%s", u.resource, rhythm, humanize.Count(p.count), p.sort()),
		Remedy: "hold an informer and read its cache; where it must poll, ask with resourceVersion=0",
	}
	if 2*p.initial > p.count {
		f.Remedy = "resume the WATCH from the last resourceVersion, with bookmarks; find what makes it start again: a crash loop"
	}
	return f, true
}

// informedOrResumed predicts an informer, or resumed WATCHes if most LISTs are at their starts.
func informedOrResumed(w *whatIfCase) (Prediction, bool) {
	if p := w.u.whole; 2*p.initial > p.count {
		return resumed(w)
	}
	return informed(w)
}
