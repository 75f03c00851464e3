package doctor

import (
	"cmp"
	"fmt"
	"time"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

const (
	FindingPolling = "polling"

	// pollLists is the least number of LISTs that counts as polling. A controller that restarts twice
	// a day LISTs each resource 14 times a week. A person who investigates a problem LISTs a resource
	// a dozen times an hour.
	pollLists = 20
	// pollListsEach is the least number of LISTs per machine. A deployment whose replicas LIST when
	// they start sends fewer.
	pollListsEach = 10
	// LISTs are regular if two conditions are met. At least the share pollRegular of the intervals
	// between them are about equal, and such an interval is at most pollInterval. Requests without a
	// timer do not have such an interval by chance. If the interval is longer, polling costs less than
	// a WATCH.
	pollRegular  = 0.6
	pollInterval = 10 * time.Minute
	// Several replicas or threads that poll have no common interval, but a higher rate than a person.
	pollBusyLists   = 100
	pollBusyPerHour = 60
	// Polling lasts at least this long or has at least this many LISTs. A person whose screen
	// refreshes for some minutes sends fewer, and so does a backup, which LISTs each of many
	// namespaces once.
	lasting      = 10 * time.Minute
	lastingLists = 100
)

var pollingKind = &kind{
	name:     FindingPolling,
	does:     "LISTs all objects of a resource repeatedly",
	from:     "20 LISTs over 10 minutes, or 100 LISTs, most of them at one interval of at most 10 minutes; or 100 LISTs at 60 per hour or more",
	incident: "concurrent-lists",
	find:     findPolling,
	change: func(a api, _ *usage) string {
		return fmt.Sprintf("%s.Lister().List(selector) // instead of %s.List(ctx, options)", a.informer(), a.client())
	},
	kubectl:  watchOnce,
	remedies: []remedy{cached, inPages, informedOrResumed, shardedByMachine, proxied},
}

// findPolling finds a client that LISTs all objects again and again.
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
		Remedy: "run an informer and read its cache; if it must poll, LIST with resourceVersion=0",
	}
	if 2*p.initial > p.count {
		f.Remedy = "resume the WATCH from the last resourceVersion, with bookmarks; find out why it restarts: a crash loop"
	}
	return f, true
}

// informedOrResumed predicts the cost of an informer. If most LISTs are at the start of WATCHes, it
// predicts the cost of resumed WATCHes instead.
func informedOrResumed(w *whatIfCase) (Prediction, bool) {
	if p := w.u.whole; 2*p.initial > p.count {
		return resumed(w)
	}
	return informed(w)
}

const (
	FindingPart = "part"

	// An informer can replace LISTs of some of the objects. This saves little if a client sends fewer
	// than partPerHour of these LISTs an hour. partListsEach is the least number of LISTs per machine.
	// It excludes pods that each LIST once when they start.
	partLists     = 100
	partListsEach = 20
	partPerHour   = 6 * 60
	partLasting   = 1000 // this number of LISTs is enough, even within minutes
	// cleanings excludes the namespace controller. It has no informer of the objects, and LISTs them
	// after each time that it has deleted all objects of a namespace.
	cleanings = 4
)

var partKind = &kind{
	name:     FindingPart,
	does:     "LISTs with a selector, or in one namespace, although an informer would suffice",
	from:     "100 LISTs over 10 minutes, or 1,000 LISTs, at 6 per minute",
	incident: "resync-storm",
	find:     findPart,
	change: func(a api, u *usage) string {
		if u != nil && u.lists.Selected == 0 {
			return a.lister("List(selector)") + " // instead of a LIST of the namespace"
		}
		return a.informer() + `.Informer().GetIndexer().ByIndex("app", app) // instead of a LIST with a selector`
	},
	remedies: []remedy{cached, informed, proxied},
}

// findPart finds a client that LISTs some of the objects many times a minute.
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
	rhythm = cmp.Or(rhythm, humanize.Number(max(p.perHour(), float64(p.hourly.busiest))/60)+" times a minute")
	return Finding{
		Count: p.count, Seconds: p.latency.Seconds(),
		Text:   fmt.Sprintf("LISTs %s %s %s: %s LISTs%s", u.resource, how, rhythm, humanize.Count(p.count), p.sort()),
		Remedy: "run an informer with an index, and look up the objects in the index",
	}, true
}

const (
	FindingNodes = "nodes"

	// nodePlaces is the least number of machines. Deployments have fewer replicas, and smaller
	// clusters do not have this problem. Only machines that LIST within the same hour count, because
	// the pods of a deployment or of jobs may run on many machines over a week.
	nodePlaces   = 20
	nodeResource = "pods" // if each node LISTs all pods, the read objects grow quadratically
)

var nodesKind = &kind{
	name:     FindingNodes,
	does:     "LISTs all pods from each of many machines",
	from:     "20 machines within an hour",
	incident: "node-agents",
	find:     findNodes,
	change: func(a api, _ *usage) string {
		return a.client() + `.List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + os.Getenv("NODE_NAME"), ` +
			`ResourceVersion: "0"})`
	},
	remedies: []remedy{byNode, cached, inPages, shardedByMachine, proxied},
}

// findNodes finds a client that LISTs all pods from each node.
func findNodes(u subject) (Finding, bool) {
	p := u.whole
	if p == nil || p.spread == nil || max(p.spread.most, p.spread.places.count()) < nodePlaces {
		return Finding{}, false
	}
	return Finding{
		Count: p.count, Seconds: p.latency.Seconds(), whole: p.count,
		Text: fmt.Sprintf("LISTs all %s from about %s machines: %s LISTs%s", u.resource,
			humanize.Count(p.machines()), humanize.Count(p.count), p.sort()),
		Remedy: "LIST with fieldSelector=spec.nodeName=NODE, or let one replica LIST for all",
	}, true
}

const (
	FindingFailing = "failing"

	// Failed LISTs are a finding only if there are at least vainLists of them, and they take at least
	// vainLatency on average. A LIST that fails immediately costs nothing, and every informer retries
	// it.
	vainLists   = 20
	vainLatency = 5 * time.Second

	failedPerMinute = 5 // the limit for metrics
)

var failingKind = &kind{
	name:     FindingFailing,
	does:     "LISTs, waits long, fails, and retries",
	from:     "20 LISTs that fail with 5xx after 5 s on average",
	incident: "concurrent-lists",
	find:     findFailing,

	metricsDo: "LISTs fail with 5xx", metricsFrom: "5",
	ofResource: findFailed,

	change: func(a api, _ *usage) string {
		return fmt.Sprintf("pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) "+
			"{ return %s.List(ctx, o) }).EachListItem(ctx, metav1.ListOptions{Limit: 500}, each)", a.client())
	},
	kubectl:  func(a api) string { return a.kubectl() + " --chunk-size=500 # the default: responses in pages" },
	remedies: []remedy{inPages, cached, newInformer, proxied},
}

// findFailed finds a resource with LISTs that fail, from the server's metrics.
func findFailed(r *evidence.ResourceMetrics, seconds float64) (Finding, bool) {
	return Finding{
		Count: int64(r.FailedLists), Seconds: r.ListSeconds,
		Text:   fmt.Sprintf("%s LISTs of %s failed (5xx), of %s", humanize.Rounded(r.FailedLists), r.Name, humanize.Rounded(r.Lists)),
		Remedy: "pages (limit=500) or resourceVersion=0, if the LISTs fail because they need more than a minute",
	}, r.FailedLists >= perMinute(failedPerMinute, seconds)
}

// findFailing finds a client whose LISTs take long, fail, and are retried.
func findFailing(u subject) (Finding, bool) {
	n, took := u.vain.requests, u.vain.latency
	if n < vainLists || took < time.Duration(n)*vainLatency {
		return Finding{}, false
	}
	return Finding{
		Count: n, Seconds: took.Seconds(),
		Text: fmt.Sprintf("LISTs %s without success: %s of %s LISTs failed with 5xx, after %s on average", u.resource, humanize.Count(n),
			humanize.Count(u.tally[verbList].requests), humanize.Seconds(took.Seconds()/float64(n))),
		Remedy: "LIST in pages, with a limit, or from the watch cache, with resourceVersion=0; the server's log shows why the LISTs fail",
	}, true
}
