package doctor

import (
	"fmt"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

const (
	FindingRelist = "relist"

	// A client is in a loop if at least 20 of its WATCHes ended early and it sent at least 20 LISTs.
	// It must also have at least three of each per machine. A restart of a server also ends WATCHes
	// early, but after it each client LISTs only once.
	relistLoops     = 20
	relistLoopsEach = 3
	// relistPerHour is the least number of LISTs in the busiest hour. A crash loop restarts at least
	// ten times an hour. Jobs that use an informer for some seconds every half hour restart less
	// often.
	relistPerHour = 8
)

var relistKind = &kind{
	name:     FindingRelist,
	does:     "LISTs again after each WATCH, and each WATCH is short",
	from:     "20 LISTs and 20 WATCHes of less than a minute, 8 LISTs in an hour",
	incident: "relist",
	find:     findRelist,
	change: func(a api, _ *usage) string {
		return a.client() + `.Watch(ctx, metav1.ListOptions{ResourceVersion: last, AllowWatchBookmarks: true}) ` +
			`// last: the resourceVersion of the last event or bookmark`
	},
	kubectl:  watchOnce,
	remedies: []remedy{resumed, cached, proxied},
}

// findRelist finds a client that again and again WATCHes for a short time and then LISTs.
func findRelist(u subject) (Finding, bool) {
	w, lists := u.watchesButProofs(), u.whole.total()+u.part.total()
	machines := u.watchMachines()
	if w.Short < relistLoops || lists < relistLoops || w.Short < relistLoopsEach*machines || lists < relistLoopsEach*machines {
		return Finding{}, false
	}
	if max(u.whole.busiestHour(), u.part.busiestHour()) < relistPerHour {
		return Finding{}, false
	}
	if 2*w.Short < w.Ended || 2*lists < w.Short || 2*w.Short < lists {
		return Finding{}, false
	}
	f := Finding{
		Count: lists, whole: u.whole.total(),
		Text: fmt.Sprintf("LISTs %s again after each WATCH: %s LISTs, and %s of %s WATCHes ended within a minute%s",
			u.resource, humanize.Count(lists), humanize.Count(w.Short), humanize.Count(w.Ended), w.expired()),
		Remedy: "resume the WATCH from the last resourceVersion, with bookmarks; find out what ends it: " +
			"a proxy's idle timeout, a client's deadline, a crash loop",
	}
	for _, p := range []*pattern{u.whole, u.part} {
		if p != nil {
			f.Seconds += p.latency.Seconds()
		}
	}
	return f, true
}

const (
	FindingWatches = "watches"

	// A WATCH that ends early and is resumed costs less than a LIST, so this limit is higher.
	earlyWatches     = 50
	earlyWatchesEach = 3 // per machine
	earlyPerHour     = 20

	endedPerMinute = 30 // the limit for metrics
	shortLife      = 60 // in seconds on average; the limit for metrics
)

var watchesKind = &kind{
	name:     FindingWatches,
	does:     "ends its WATCHes early",
	from:     "50 WATCHes of less than a minute, half of all, 20 in an hour",
	incident: "initial-events",
	find:     findWatches,

	metricsDo: "WATCHes end early", metricsFrom: "30 that lasted less than a minute on average",
	ofResource: findShort,

	change: func(a api, _ *usage) string {
		return a.client() + `.Watch(ctx, metav1.ListOptions{ResourceVersion: last, ` +
			`TimeoutSeconds: ptr.To(int64(300 + rand.IntN(300)))})`
	},
	kubectl: func(a api) string {
		return a.kubectl() + " --watch --request-timeout=0 # the default: no timeout"
	},
	remedies: []remedy{lasted},
	asks: func(w *whatIfCase) []batch {
		return append(w.d.batches(w.c.name, w.u), w.watches(float64(w.u.watchesButProofs().Ended)))
	},
}

// findShort finds a resource whose WATCHes end early. Their average life is the number of open
// WATCHes divided by the number of WATCHes that end per second.
func findShort(r *evidence.ResourceMetrics, seconds float64) (Finding, bool) {
	if r.EndedWatches < perMinute(endedPerMinute, seconds) {
		return Finding{}, false
	}
	life := r.OpenWatches * seconds / r.EndedWatches
	return Finding{
		Count: int64(r.EndedWatches),
		Text: fmt.Sprintf("%s WATCHes of %s ended, and %s are open: they last %.1f s on average",
			humanize.Rounded(r.EndedWatches), r.Name, humanize.Rounded(r.OpenWatches), life),
		Remedy: "WATCHes with a timeout of minutes, resumed from their last resourceVersion; look for a proxy that closes idle connections",
	}, life < shortLife
}

// findWatches finds a client whose WATCHes end early.
func findWatches(u subject) (Finding, bool) {
	w := u.watchesButProofs()
	if w.Short < earlyWatches || u.shorts.busiest < earlyPerHour || w.Short < earlyWatchesEach*u.watchMachines() || 2*w.Short < w.Ended {
		return Finding{}, false
	}
	return Finding{
		Count: w.Short,
		Text: fmt.Sprintf("ends its WATCHes of %s early: %s of %s ended within a minute, after %s on average%s",
			u.resource, humanize.Count(w.Short), humanize.Count(w.Ended), humanize.Seconds(w.Seconds/float64(w.Ended)), w.expired()),
		Remedy: "let WATCHes last 5 to 10 minutes: increase the client's timeoutSeconds, " +
			"or the idle timeout of the load balancer in front of the API server",
	}, true
}
