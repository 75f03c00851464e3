package doctor

import (
	"fmt"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

const FindingSlow = "slow"

// slowKind suggests no line of code, because users must change what the clients' handlers do.
var slowKind = &kind{
	name: FindingSlow, incident: "initial-events",
	metricsDo: "WATCHes are closed because their clients read too slowly", metricsFrom: "one",
	ofResource: findSlow,
}

// findSlow finds WATCHes that the server closed because their clients read too slowly.
func findSlow(r *evidence.ResourceMetrics, _ float64) (Finding, bool) {
	return Finding{
		Count: int64(r.SlowWatches), Objects: int64(r.SlowWatches * r.Objects),
		Text: fmt.Sprintf("%s WATCHes of %s were closed because their clients read too slowly; each client probably LISTs again",
			humanize.Rounded(r.SlowWatches), r.Name),
		Remedy: "clients that continue to read while their handlers run, and that read less",
	}, r.SlowWatches >= 1
}

const (
	FindingWaiting = "waiting"

	waitedAverage = 0.1 // in seconds
	waitedCount   = 10  // requests per minute
)

var waitingKind = &kind{
	name: FindingWaiting, incident: "thundering-restart",
	metricsDo: "requests wait for seats of a priority level", metricsFrom: "10 requests that wait 0.1 s on average",
	ofLevel: findWaiting,
}

// findWaiting finds a priority level with requests that waited for seats.
func findWaiting(l *evidence.LevelMetrics, seconds float64) (Finding, bool) {
	return Finding{
		Count: int64(l.Waited), Seconds: l.WaitSeconds,
		Text: fmt.Sprintf("%s requests of priority level %s waited for seats, %.2f s on average; %s of %s seats are in use",
			humanize.Rounded(l.Waited), l.Name, l.WaitSeconds/l.Waited, humanize.Rounded(l.Seats), humanize.Rounded(l.Limit)),
		Remedy: "fewer and smaller LISTs in this level: see the findings above",
	}, l.Waited >= perMinute(waitedCount, seconds) && l.WaitSeconds >= waitedAverage*l.Waited
}

const (
	FindingFull = "full"

	fullLists   = 10     // LISTs per minute that return at least half of all objects
	fullObjects = 10_000 // the number of objects that these LISTs return per minute
)

var fullKind = &kind{
	name: FindingFull, incident: "node-agents",
	metricsDo: "LISTs return all objects", metricsFrom: "10 LISTs that return at least half of all objects, and 10,000 objects together",
	ofResource: findFull, change: pollingKind.change,
}

// findFull finds a resource whose LISTs return at least half of all objects on average.
func findFull(r *evidence.ResourceMetrics, seconds float64) (Finding, bool) {
	n, returned := r.Cache.Lists+r.Etcd.Lists, r.Returned()
	return Finding{
		Count: int64(n), Seconds: r.ListSeconds, Objects: int64(r.Read()),
		Text: fmt.Sprintf("%s LISTs of %s returned %s objects in %[5]s, although only %[4]s exist: a client LISTs all of them repeatedly",
			humanize.Rounded(n), r.Name, humanize.Rounded(returned), humanize.Rounded(r.Objects), humanize.Bytes(int64(r.ListBytes))),
		Remedy: "an informer, which LISTs once and then WATCHes",
	}, n >= perMinute(fullLists, seconds) && returned >= max(perMinute(fullObjects, seconds), r.Objects/2*n) && r.Objects > 0
}

const (
	FindingSelectors = "selectors"

	selectorReads = 100_000 // objects per minute that the server reads
	selectorRatio = 10      // for each object that it returns
)

var selectorsKind = &kind{
	name: FindingSelectors, incident: "resync-storm",
	metricsDo: "LISTs examine many more objects than they return", metricsFrom: "100,000 examined objects, 10 per returned object",
	ofResource: findSelectors, change: partKind.change,
}

// findSelectors finds a resource whose LISTs read many more objects than they return.
func findSelectors(r *evidence.ResourceMetrics, seconds float64) (Finding, bool) {
	l := r.Cache
	return Finding{
		Count: int64(l.Lists), Seconds: r.ListSeconds, Objects: int64(l.Read),
		Text: fmt.Sprintf("LISTs of %s examined %s objects to return %s: they have selectors for which the watch cache has no index",
			r.Name, humanize.Rounded(l.Read), humanize.Rounded(l.Returned)),
		Remedy: "an informer with an index in the client; or a selector by spec.nodeName, for which kube-apiserver has an index",
	}, l.Read >= perMinute(selectorReads, seconds) && l.Read >= selectorRatio*max(l.Returned, 1)
}

const (
	FindingInitial = "initial"

	initialTimes = 10 // how often per minute the server sends all objects
)

var initialKind = &kind{
	name: FindingInitial, incident: "initial-events",
	metricsDo: "WATCHes repeatedly start with all objects", metricsFrom: "ten times all objects, and 10,000 objects together",
	ofResource: findInitial, change: relistKind.change,
}

// findInitial finds a resource whose WATCHes start with all objects again and again.
func findInitial(r *evidence.ResourceMetrics, seconds float64) (Finding, bool) {
	if r.Objects < 1 {
		return Finding{}, false
	}
	return Finding{
		Count: int64(r.InitialEvents / r.Objects), Objects: int64(r.InitialEvents),
		Text: fmt.Sprintf("WATCHes of %s started with %s objects, although only %s exist: clients restart, or the server closes their WATCHes before the initial state is complete",
			r.Name, humanize.Rounded(r.InitialEvents), humanize.Rounded(r.Objects)),
		Remedy: "clients that resume from their last resourceVersion, with bookmarks",
	}, r.InitialEvents >= max(perMinute(initialTimes, seconds)*r.Objects, perMinute(fullObjects, seconds))
}

const (
	FindingEtcd = "etcd"

	etcdObjects = 10_000 // objects per minute that LISTs read from etcd
)

var etcdKind = &kind{
	name: FindingEtcd, incident: "concurrent-lists",
	metricsDo: "LISTs are not answered from the watch cache", metricsFrom: "10,000 objects",
	ofResource: findEtcd, change: pollingKind.change,
}

// findEtcd finds LISTs that read from etcd. It subtracts the reads of consistency checks: every 5
// to 7.5 minutes the server itself LISTs all objects from etcd, to compare them with the watch
// cache. The server counts a check when the check ends. If there are no LISTs, findEtcd therefore
// also subtracts the reads of one check that may still run. LISTs of Events may be counted as
// requests of another group, events.k8s.io, which has the same objects.
func findEtcd(r *evidence.ResourceMetrics, seconds float64) (Finding, bool) {
	read, lists := r.Etcd.Read-r.Checks*r.Objects, r.Etcd.Lists
	if r.Lists < 1 {
		read -= r.Objects
	} else {
		// Subtract the pages of checks. Each check also LISTs from the watch cache.
		lists = min(lists, r.Lists-(r.Cache.Lists-r.Checks))
	}
	return Finding{
		Count: int64(lists), Seconds: r.ListSeconds, Objects: int64(read),
		Text: fmt.Sprintf("%s LISTs of %s read %s objects from etcd, because the watch cache could not answer them",
			humanize.Rounded(lists), r.Name, humanize.Rounded(read)),
		Remedy: "resourceVersion=0, or an informer; servers before 1.31 answer no LIST without resourceVersion from their cache",
	}, read >= perMinute(etcdObjects, seconds) && lists >= 1
}
