package apimetrics

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirproject/weir/internal/doctor"
	"github.com/weirproject/weir/internal/quantity"
)

// The kinds of findings that are not doctor's, too.
const (
	FindingSelectors = "selectors" // LISTs that look at many more objects than they return
	FindingFull      = "full"      // LISTs that return everything
	FindingEtcd      = "etcd"      // LISTs that the watch cache does not answer
	FindingSlow      = "slow"      // WATCHes that were closed because their clients read too slowly
	FindingInitial   = "initial"   // WATCHes that begin with all objects
	FindingWaiting   = "waiting"   // requests that waited for seats
)

// What happens less often in a minute, or in all in a shorter time, is no trouble, whoever does it.
const (
	selectorReads = 100_000 // objects that are looked at
	selectorRatio = 10      // for each that is returned
	fullLists     = 10      // half of all objects, or more, in each
	fullObjects   = 10_000  // that they return together
	etcdObjects   = 10_000  // that are read from etcd
	shortWatches  = 30      // that end
	shortLife     = 60      // seconds that they live on average
	initialTimes  = 10      // that all objects are sent
	failedLists   = 5
	waitedAverage = 0.1 // seconds
	waitedCount   = 10
)

// least returns how often something that is of a minute has to happen in some seconds. A time that
// is shorter than a minute does not lower it: one request of a second is not 60 of a minute.
func least(inMinute, seconds float64) float64 { return inMinute * max(seconds/60, 1) }

// lineOf has the kind, of those that audit logs tell, which has the line to write. Where clients
// read too slowly there is none: it is their handlers that have to change.
var lineOf = map[string]string{
	FindingSelectors: doctor.FindingPart, FindingFull: doctor.FindingPolling, FindingEtcd: doctor.FindingPolling,
	doctor.FindingWatches: doctor.FindingWatches, FindingInitial: doctor.FindingRelist, doctor.FindingFailing: doctor.FindingFailing,
}

// incidents are the pages of docs/incidents that explain what is of each kind.
var incidents = map[string]string{
	FindingSelectors: "resync-storm", FindingFull: "node-agents", FindingEtcd: "concurrent-lists",
	FindingSlow: "initial-events", FindingInitial: "initial-events", FindingWaiting: "thundering-restart",
	doctor.FindingWatches: doctor.IncidentOf(doctor.FindingWatches),
	doctor.FindingFailing: doctor.IncidentOf(doctor.FindingFailing),
	doctor.FindingRefused: doctor.IncidentOf(doctor.FindingRefused),
}

// findings returns what costs more than it has to, the costliest first.
func findings(r *Report) []doctor.Finding {
	all := []doctor.Finding{}
	for i := range r.Resources {
		res := &r.Resources[i]
		for _, find := range []func(*Resource, float64) (doctor.Finding, bool){
			findSelectors, findFull, findEtcd, findSlow, findShort, findInitial, findFailing,
		} {
			if f, ok := find(res, r.Seconds); ok {
				f.Resource, f.Change = res.Name, doctor.Change(lineOf[f.Kind], res.Name, "")
				all = append(all, f)
			}
		}
	}
	for i := range r.Levels {
		for _, find := range []func(*Level, float64) (doctor.Finding, bool){findRefused, findWaiting} {
			if f, ok := find(&r.Levels[i], r.Seconds); ok {
				all = append(all, f)
			}
		}
	}
	for i := range all {
		all[i].Incident = incidents[all[i].Kind]
	}
	slices.SortStableFunc(all, func(a, b doctor.Finding) int {
		return cmp.Or(cmp.Compare(b.Objects, a.Objects), cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(b.Count, a.Count))
	})
	return all
}

// findSelectors finds LISTs that look at many objects for each that they return.
func findSelectors(r *Resource, seconds float64) (doctor.Finding, bool) {
	l := r.Cache
	if l.Read < least(selectorReads, seconds) || l.Read < selectorRatio*max(l.Returned, 1) {
		return doctor.Finding{}, false
	}
	return doctor.Finding{
		Kind: FindingSelectors, Count: int64(l.Lists), Seconds: r.ListSeconds, Objects: int64(l.Read),
		Text: fmt.Sprintf("LISTs of %s looked at %s objects to return %s: selectors, which the watch cache has no index for",
			r.Name, count(l.Read), count(l.Returned)),
		Remedy: "an informer with an index, in whoever asks; or one by spec.nodeName, which kube-apiserver has an index for",
	}, true
}

// findFull finds LISTs that return half of all objects and more.
func findFull(r *Resource, seconds float64) (doctor.Finding, bool) {
	n, returned := r.Cache.Lists+r.Etcd.Lists, r.returned()
	if n < least(fullLists, seconds) || returned < least(fullObjects, seconds) || returned < r.Objects/2*n || r.Objects == 0 {
		return doctor.Finding{}, false
	}
	return doctor.Finding{
		Kind: FindingFull, Count: int64(n), Seconds: r.ListSeconds, Objects: int64(r.read()),
		Text: fmt.Sprintf("%s LISTs of %s returned %s objects, of %s that there are, in %s: somebody LISTs all of them again and again",
			count(n), r.Name, count(returned), count(r.Objects), quantity.Bytes(int64(r.ListBytes))),
		Remedy: "an informer, which LISTs once and then WATCHes",
	}, true
}

// findEtcd finds LISTs that go on to etcd. The server itself reads all objects from there every 5
// to 7.5 minutes, to compare them with the watch cache. A check that goes on at the end is not
// counted yet; where nobody LISTs, there may be one. LISTs of Events may be counted as requests of
// another group, events.k8s.io, whose objects are the same.
func findEtcd(r *Resource, seconds float64) (doctor.Finding, bool) {
	read, lists := r.Etcd.Read-r.Checks*r.Objects, r.Etcd.Lists
	if r.Lists < 1 {
		read -= r.Objects
	} else {
		// Others are pages of checks. Each check LISTs from the watch cache as well.
		lists = min(lists, r.Lists-(r.Cache.Lists-r.Checks))
	}
	if read < least(etcdObjects, seconds) || lists < 1 {
		return doctor.Finding{}, false
	}
	return doctor.Finding{
		Kind: FindingEtcd, Count: int64(lists), Seconds: r.ListSeconds, Objects: int64(read),
		Text: fmt.Sprintf("%s LISTs of %s read %s objects from etcd, which the watch cache could not or may not answer",
			count(lists), r.Name, count(read)),
		Remedy: "resourceVersion=0, or an informer; servers before 1.31 answer no LIST without resourceVersion from their cache",
	}, true
}

// findSlow finds WATCHes that the server closed because nobody read them.
func findSlow(r *Resource, _ float64) (doctor.Finding, bool) {
	if r.SlowWatches < 1 {
		return doctor.Finding{}, false
	}
	return doctor.Finding{
		Kind: FindingSlow, Count: int64(r.SlowWatches), Objects: int64(r.SlowWatches * r.Objects),
		Text: fmt.Sprintf("%s WATCHes of %s were closed because their clients read too slowly; each of them most likely LISTs again",
			count(r.SlowWatches), r.Name),
		Remedy: "clients that read while their handlers work, and less at once",
	}, true
}

// findShort finds WATCHes that end soon. How long they live on average is how many are open,
// divided by how many end in a second.
func findShort(r *Resource, seconds float64) (doctor.Finding, bool) {
	if r.EndedWatches < least(shortWatches, seconds) {
		return doctor.Finding{}, false
	}
	life := r.OpenWatches * seconds / r.EndedWatches
	if life >= shortLife {
		return doctor.Finding{}, false
	}
	return doctor.Finding{
		Kind: doctor.FindingWatches, Count: int64(r.EndedWatches),
		Text: fmt.Sprintf("%s WATCHes of %s ended, of %s that are open: they live for %.1f s on average",
			count(r.EndedWatches), r.Name, count(r.OpenWatches), life),
		Remedy: "WATCHes with a timeout of minutes, which are resumed from their last resourceVersion; look for a proxy that cuts idle connections",
	}, true
}

// findInitial finds WATCHes that begin with all objects, again and again.
func findInitial(r *Resource, seconds float64) (doctor.Finding, bool) {
	if r.Objects < 1 || r.InitialEvents < least(initialTimes, seconds)*r.Objects || r.InitialEvents < least(fullObjects, seconds) {
		return doctor.Finding{}, false
	}
	return doctor.Finding{
		Kind: FindingInitial, Count: int64(r.InitialEvents / r.Objects), Objects: int64(r.InitialEvents),
		Text: fmt.Sprintf("WATCHes of %s began with %s objects, of %s that there are: clients restart, or are closed before they are through",
			r.Name, count(r.InitialEvents), count(r.Objects)),
		Remedy: "clients that resume from their last resourceVersion, with bookmarks",
	}, true
}

// findFailing finds LISTs that fail.
func findFailing(r *Resource, seconds float64) (doctor.Finding, bool) {
	if r.FailedLists < least(failedLists, seconds) {
		return doctor.Finding{}, false
	}
	return doctor.Finding{
		Kind: doctor.FindingFailing, Count: int64(r.FailedLists), Seconds: r.ListSeconds,
		Text:   fmt.Sprintf("%s LISTs of %s failed (5xx), of %s", count(r.FailedLists), r.Name, count(r.Lists)),
		Remedy: "pages (limit=500) or resourceVersion=0, if they fail for taking longer than a minute",
	}, true
}

// findRefused finds requests that were refused with 429.
func findRefused(l *Level, _ float64) (doctor.Finding, bool) {
	total, schemas := 0.0, []string{}
	for _, schema := range slices.SortedFunc(maps.Keys(l.Rejected), func(a, b string) int {
		return cmp.Or(cmp.Compare(l.Rejected[b], l.Rejected[a]), cmp.Compare(a, b))
	}) {
		total += l.Rejected[schema]
		schemas = append(schemas, fmt.Sprintf("%s %s", count(l.Rejected[schema]), schema))
	}
	if total < 1 {
		return doctor.Finding{}, false
	}
	return doctor.Finding{
		Kind: doctor.FindingRefused, Count: int64(total),
		Text: fmt.Sprintf("%s requests of priority level %s were refused (429): by flow schema %s", count(total), l.Name,
			strings.Join(schemas[:min(len(schemas), 3)], ", ")),
		Remedy: "an audit log shows who had the seats (weir doctor AUDIT-LOG); a FlowSchema of its own keeps one client from the others",
	}, true
}

// findWaiting finds requests that waited for seats.
func findWaiting(l *Level, seconds float64) (doctor.Finding, bool) {
	if l.Waited < least(waitedCount, seconds) || l.WaitSeconds < waitedAverage*l.Waited {
		return doctor.Finding{}, false
	}
	return doctor.Finding{
		Kind: FindingWaiting, Count: int64(l.Waited), Seconds: l.WaitSeconds,
		Text: fmt.Sprintf("%s requests of priority level %s waited for seats, %.2f s on average; %s of %s seats are in use",
			count(l.Waited), l.Name, l.WaitSeconds/l.Waited, count(l.Seats), count(l.Limit)),
		Remedy: "fewer and smaller LISTs in this level: see the findings above",
	}, true
}

func count(n float64) string { return quantity.Count(int64(n + 0.5)) }
