package doctor

import (
	"bytes"
	"fmt"
	"math"
	"time"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

// A WATCH shorter than shortWatch ended early: kube-apiserver ends WATCHes after 30 to 60 minutes,
// informers after 5 to 10, and proxies that do not know them after a minute at most.
const shortWatch = time.Minute

// usage is what one client does with one resource. It uses 700 bytes, and up to 5 KB more with
// LISTs.
type usage struct {
	resource        string // kubectl's name, with a subresource: pods/status
	version         string // of the last LIST or WATCH
	tally           [verbs]tally
	refused, failed int64 // see Totals
	lists           ListCounts
	vain            tally    // LISTs that failed with 5xx
	whole, part     *pattern // LISTs of all objects, and of some; nil if there were none
	watches         WatchCounts
	watchPlaces     *distinct // nil if there were none
	shorts          hourly    // WATCHes that ended within a minute, except proofs
	proofs          proofs
	gets, writes    *acts                 // of objects; nil if there were none
	listTallies     [selections]listTally // LISTs that were answered
	watchTallies    [selections]watchTally
}

// ListCounts count LISTs by what they ask for. Kinds overlap.
type ListCounts struct {
	Quorum     int64 `json:"quorum"`     // without resourceVersion: as new as the storage
	Cache      int64 `json:"cache"`      // with any resourceVersion
	Limited    int64 `json:"limited"`    // with a limit
	Pages      int64 `json:"pages"`      // behind the first
	Selected   int64 `json:"selected"`   // with a selector
	Namespaced int64 `json:"namespaced"` // of one namespace
	OneObject  int64 `json:"oneObject"`  // by metadata.name

	// QueueSeconds is the time in the queues of priority and fairness, which is logged for slow
	// requests.
	QueueSeconds   float64 `json:"queueSeconds"`
	StorageSeconds float64 `json:"storageSeconds"` // the wait for etcd; logged for slow requests
}

// WatchCounts count WATCHes that were not refused.
type WatchCounts struct {
	Short     int64   `json:"short"`     // ended within a minute
	Expired   int64   `json:"expired"`   // 410
	Initial   int64   `json:"initial"`   // that start with a LIST
	OneObject int64   `json:"oneObject"` // by metadata.name
	Open      int64   `json:"open"`      // at the end of the log
	Ended     int64   `json:"ended"`
	Seconds   float64 `json:"seconds"` // that the ended ones lasted
}

// add counts an event about the object with a hash. q is the query of a LIST or WATCH. It reports
// whether an informer starts with such a request.
func (u *usage) add(e *evidence.Event, v verb, q evidence.Query, object uint64) (starts bool) {
	u.tally[v].requests++
	u.tally[v].latency += e.Latency()
	switch {
	case e.Refused():
		u.refused++
	case e.Code >= 500:
		u.failed++
	}
	u.acted(e, v, object)
	switch v {
	case verbList:
		u.asksFor(e.Object.Version)
		u.addList(e, q)
		return q.Version == "0" && q.Limit > 0 && !q.OneObject // as client-go's informers have it
	case verbWatch:
		u.asksFor(e.Object.Version)
		u.addWatch(e, q)
		return q.InitialList() && !q.OneObject
	}
	return false
}

// cleans reports whether the client deletes what it LISTs.
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

// watchMachines estimates the number of machines that sent the WATCHes, at least 1.
func (u *usage) watchMachines() int64 {
	if u.watchPlaces == nil {
		return 1
	}
	return int64(max(1, u.watchPlaces.count()))
}

// expired describes how many WATCHes were refused because their version was too old.
func (w WatchCounts) expired() string {
	if w.Expired == 0 {
		return ""
	}
	return fmt.Sprintf("; %s more were refused with 410", humanize.Count(w.Expired))
}

// asksFor records the version of the resource.
func (u *usage) asksFor(version []byte) {
	if version = bounded(version); u.version != string(version) {
		u.version = string(version)
	}
}

// addList counts a LIST. A refused LIST has no pattern, because it cost nothing. Nor has a failed
// one, because its client must retry, or one of a resource that cannot be WATCHed.
func (u *usage) addList(e *evidence.Event, q evidence.Query) {
	l := &u.lists
	for _, kind := range []struct {
		is bool
		n  *int64
	}{
		{q.Quorum(), &l.Quorum}, {!q.Quorum() && !q.Continued, &l.Cache}, {q.Limit > 0, &l.Limited}, {q.Continued, &l.Pages},
		{q.Selected, &l.Selected}, {len(e.Object.Namespace) > 0, &l.Namespaced}, {q.OneObject, &l.OneObject},
	} {
		if kind.is {
			*kind.n++
		}
	}
	l.QueueSeconds += e.QueueWait.Seconds()
	l.StorageSeconds += e.Storage.Seconds()
	if e.Code >= 500 {
		u.vain.requests++
		u.vain.latency += e.Latency()
	}
	// A request that timed out cost as much as one that succeeded.
	if e.Code < 400 || e.Code >= 500 && e.Latency() >= vainLatency {
		sel := selectionOf(e, q)
		if q.FirstOnly() {
			sel = selectOne
		}
		u.listTallies[sel].add(q)
	}
	if q.FirstOnly() && e.Code < 400 {
		u.proofs.asked = e.Staged
	}
	if q.OneObject || q.FirstOnly() || e.Code >= 400 || bytes.HasSuffix(e.Object.Group, []byte(unwatchable)) {
		return
	}
	u.pattern(e, q).add(e, q)
}

// unwatchable is the suffix of groups whose objects are computed for each request: the metrics of
// pods and nodes, which clients such as the autoscaler must LIST.
const unwatchable = "metrics.k8s.io"

// pattern returns the pattern that a LIST belongs to.
func (u *usage) pattern(e *evidence.Event, q evidence.Query) *pattern {
	p := &u.whole
	if q.Selected || len(e.Object.Namespace) > 0 {
		p = &u.part
	}
	if *p == nil {
		*p = &pattern{}
		if u.resource == nodeResource && p == &u.whole {
			(*p).spread = &atATime{}
		}
	}
	return *p
}

// addWatch counts a WATCH that has ended. A refused one does not count. A WATCH of a single object
// is not short: it ends with the object, as kubelets' WATCHes of Secrets do.
func (u *usage) addWatch(e *evidence.Event, q evidence.Query) {
	w := &u.watches
	if e.Code == 410 {
		w.Expired++
	}
	if e.Code >= 400 {
		return
	}
	w.Ended++
	w.Seconds += e.Latency().Seconds()
	u.watchTallies[selectionOf(e, q)].add(q)
	if q.InitialList() {
		w.Initial++
	}
	if q.InitialList() && !q.OneObject { // it costs as much as a LIST
		p := u.pattern(e, q)
		p.begun(e)
		p.initial++
	}
	if u.watchPlaces == nil {
		u.watchPlaces = &distinct{}
	}
	u.watchPlaces.add(e.Place())
	switch {
	case q.OneObject:
		w.OneObject++
	case e.Latency() < shortWatch:
		w.Short++
		if !u.proofs.add(e, q) {
			u.shorts.add(e.Staged)
		}
	}
}

// proofs are WATCHes with a timeout of seconds that follow a LIST of the first object. A proxy
// sends them to prove that its cache is as new as the storage.
type proofs struct {
	asked int64 // when the last such LIST was answered
	tally
}

// proofTime is the longest duration of a proof, and the longest time between it and the LIST.
const proofTime = 10 * time.Second

// add counts a WATCH that has ended if it is a proof, and reports whether it is one.
func (p *proofs) add(e *evidence.Event, q evidence.Query) bool {
	apart := time.Duration(e.Begun()-p.asked) * time.Microsecond
	if q.Timeout == 0 || q.Timeout > proofTime || apart.Abs() > proofTime || q.InitialList() {
		return false
	}
	p.requests++
	p.latency += e.Latency()
	return true
}

// watchesButProofs returns the counts of WATCHes without the proofs.
func (u *usage) watchesButProofs() WatchCounts {
	w, n := u.watches, u.proofs.requests
	w.Short, w.Ended, w.Seconds = w.Short-n, w.Ended-n, w.Seconds-u.proofs.latency.Seconds()
	return w
}

// objectsRead returns the number of objects that LISTs of all objects have read.
func (u *usage) objectsRead(lists, objects int64) int64 {
	t := &u.listTallies[selectAll]
	paged := min(t.paged, lists)
	return (lists-paged)*objects + int64(min(float64(paged*objects), t.limits))
}

// selection says which objects a LIST or WATCH selects, by the cost of finding them.
type selection uint8

const (
	selectAll selection = iota
	// selectBySelector has no index, so the server compares each object with the selector.
	selectBySelector
	selectNamespace // one namespace, with a selector or without
	selectNode      // by spec.nodeName, for which kube-apiserver has an index
	selectOne       // by metadata.name
	selections
)

// selectionOf returns which objects a request selects.
func selectionOf(e *evidence.Event, q evidence.Query) selection {
	switch {
	case q.OneObject:
		return selectOne
	case q.OneNode:
		return selectNode
	case len(e.Object.Namespace) > 0:
		return selectNamespace
	case q.Selected:
		return selectBySelector
	}
	return selectAll
}

// tally counts the requests of one verb.
type tally struct {
	requests int64
	latency  time.Duration
}

// listTally counts LISTs of the same selection. A further page belongs to its LIST.
type listTally struct {
	lists  int64
	quorum int64
	paged  int64 // with a limit, which the watch cache would ignore
	// limits is the sum of the limits of all pages, infinite if one has none. It bounds the objects
	// that came in pages.
	limits float64
}

func (t *listTally) add(q evidence.Query) {
	if q.Continued && !q.FirstOnly() {
		t.addLimit(q)
		return
	}
	t.lists++
	if q.Quorum() {
		t.quorum++
		if q.Limit > 0 {
			t.paged++
			t.addLimit(q)
		}
	}
}

func (t *listTally) addLimit(q evidence.Query) {
	if q.Limit == 0 {
		t.limits = math.Inf(1)
		return
	}
	t.limits += float64(q.Limit)
}

// objectsEach returns the largest average number of objects of a LIST in pages.
func (t *listTally) objectsEach() float64 { return t.limits / float64(max(1, t.paged)) }

// watchTally counts WATCHes of the same selection.
type watchTally struct {
	ended, open int64
	initial     int64 // that started with a LIST
}

func (t *watchTally) add(q evidence.Query) {
	t.ended++
	if q.InitialList() {
		t.initial++
	}
}

// verb is one of Kubernetes' verbs.
type verb uint8

const (
	verbGet verb = iota
	verbList
	verbWatch
	verbCreate
	verbUpdate
	verbPatch
	verbDelete
	verbDeleteCollection
	verbOther // connect, and methods of requests without a resource
	verbs
)

var verbNames = [verbs]string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "other"}

// verbOf returns the verb with a name.
func verbOf(name []byte) verb {
	for v, known := range verbNames[:verbOther] {
		if string(name) == known {
			return verb(v)
		}
	}
	return verbOther
}

// weight returns the weight of a request, by which clients stay or are evicted.
func (v verb) weight(e *evidence.Event) int64 {
	switch {
	case v == verbList, v == verbWatch && e.Latency() < shortWatch:
		return heavy
	case e.Refused():
		return refusedWeight
	}
	return 1
}
