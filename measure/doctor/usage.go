package doctor

import (
	"bytes"
	"fmt"
	"math"
	"time"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

// shortWatch is the duration below which a WATCH counts as ended early. Usually kube-apiserver ends
// WATCHes after 30 to 60 minutes, and informers end them after 5 to 10 minutes. A proxy that does
// not support WATCHes ends them after up to a minute.
const shortWatch = time.Minute

// usage contains a client's counts for one resource. It uses 700 bytes, and up to 5 KB more if the
// client LISTs the resource.
type usage struct {
	resource        string // kubectl's name, with the subresource, as in pods/status
	version         string // in the last LIST or WATCH
	tally           [verbs]tally
	refused, failed int64 // see Totals
	lists           ListCounts
	vain            tally    // LISTs that failed with 5xx
	whole, part     *pattern // LISTs of all objects, and of some objects; nil if there were none
	watches         WatchCounts
	watchPlaces     *distinct // the machines that WATCH; nil if there were none
	shorts          hourly    // WATCHes that ended within a minute, except proofs
	proofs          proofs
	gets, writes    *acts                 // of objects; nil if there were none
	listTallies     [selections]listTally // LISTs that were answered
	watchTallies    [selections]watchTally
}

// ListCounts count LISTs by what they ask for. A LIST may have several of these properties.
type ListCounts struct {
	Quorum     int64 `json:"quorum"`     // without resourceVersion: as new as etcd
	Cache      int64 `json:"cache"`      // with any resourceVersion
	Limited    int64 `json:"limited"`    // with a limit
	Pages      int64 `json:"pages"`      // after the first page of a LIST
	Selected   int64 `json:"selected"`   // with a selector
	Namespaced int64 `json:"namespaced"` // of one namespace
	OneObject  int64 `json:"oneObject"`  // by metadata.name

	// QueueSeconds is the time in the queues of priority and fairness. kube-apiserver logs it only for
	// slow requests.
	QueueSeconds   float64 `json:"queueSeconds"`
	StorageSeconds float64 `json:"storageSeconds"` // the wait for etcd; only for slow requests
}

// Except for Expired, WatchCounts count only WATCHes that the server did not refuse.
type WatchCounts struct {
	Short     int64   `json:"short"`     // ended within a minute
	Expired   int64   `json:"expired"`   // refused with 410
	Initial   int64   `json:"initial"`   // started with all objects
	OneObject int64   `json:"oneObject"` // by metadata.name
	Open      int64   `json:"open"`      // at the end of the log
	Ended     int64   `json:"ended"`
	Seconds   float64 `json:"seconds"` // how long the ended ones lasted, added up
}

// add counts a request. object is the hash of the object's name, and q the query of a LIST or
// WATCH. It returns true if informers start with such a request.
func (u *usage) add(e *evidence.Event, v verb, q evidence.Query, object uint64) (starts bool) {
	u.tally[v].requests++
	u.tally[v].latency += e.Latency()
	if e.Refused() {
		u.refused++
	} else if e.Code >= 500 {
		u.failed++
	}
	u.acted(e, v, object)
	switch v {
	case verbList:
		u.asksFor(e.Object.Version)
		u.addList(e, q)
		return q.Version == "0" && q.Limit > 0 && !q.OneObject // like client-go's informers
	case verbWatch:
		u.asksFor(e.Object.Version)
		u.addWatch(e, q)
		return q.InitialList() && !q.OneObject
	}
	return false
}

// cleans reports whether the client deletes the objects that it LISTs.
func (u *usage) cleans() bool {
	return cleanings*u.tally[verbDeleteCollection].requests >= max(1, u.part.total())
}

// ofAll returns the number of LISTs in a pattern if they are LISTs of all objects, and otherwise 0.
func (u *usage) ofAll(p *pattern) int64 {
	if p == u.whole {
		return p.count
	}
	return 0
}

// watchMachines estimates the number of machines that sent the WATCHes. It returns at least 1.
func (u *usage) watchMachines() int64 {
	if u.watchPlaces == nil {
		return 1
	}
	return int64(max(1, u.watchPlaces.count()))
}

// expired returns a text about the number of WATCHes that were refused because their version was
// too old.
func (w WatchCounts) expired() string {
	if w.Expired == 0 {
		return ""
	}
	return fmt.Sprintf("; %s more were refused with 410", humanize.Count(w.Expired))
}

// asksFor records the version of the resource that the client asks for.
func (u *usage) asksFor(version []byte) {
	if version = bounded(version); u.version != string(version) {
		u.version = string(version)
	}
}

// addList counts a LIST. It does not add to a pattern: a LIST that failed or was refused, a LIST
// that costs no more than a GET, and a LIST of a resource that cannot be WATCHed. It adds all other
// LISTs to a pattern.
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
	// A request that timed out cost as much as a successful one.
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

// unwatchable is the suffix of groups whose objects the server computes for each request: the
// metrics of pods and nodes. Clients such as the autoscaler must LIST them.
const unwatchable = "metrics.k8s.io"

// pattern returns the pattern to which a LIST belongs. It creates the pattern if u has none.
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

// addWatch counts a WATCH that has ended, unless it was refused. A WATCH of a single object never
// counts as short, because it ends with the object, like kubelets' WATCHes of Secrets.
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
	if q.InitialList() && !q.OneObject { // such a WATCH costs as much as a LIST
		p := u.pattern(e, q)
		p.begun(e)
		p.initial++
	}
	if u.watchPlaces == nil {
		u.watchPlaces = &distinct{}
	}
	u.watchPlaces.add(e.Place())
	if q.OneObject {
		w.OneObject++
	} else if e.Latency() < shortWatch {
		w.Short++
		if !u.proofs.add(e, q) {
			u.shorts.add(e.Staged)
		}
	}
}

// proofs counts WATCHes with a timeout of seconds that follow a LIST with limit=1. With these
// requests, a proxy proves that its cache is as new as etcd.
type proofs struct {
	asked int64 // when the last LIST with limit=1 was answered
	tally
}

// proofTime is the longest timeout of a proof, and the longest time between the proof and its LIST.
const proofTime = 10 * time.Second

// add counts a WATCH that has ended if it is a proof. It reports whether the WATCH is one.
func (p *proofs) add(e *evidence.Event, q evidence.Query) bool {
	apart := time.Duration(e.Begun()-p.asked) * time.Microsecond
	if q.Timeout == 0 || q.Timeout > proofTime || apart.Abs() > proofTime || q.InitialList() {
		return false
	}
	p.requests++
	p.latency += e.Latency()
	return true
}

// watchesButProofs returns the counts of all WATCHes except proofs.
func (u *usage) watchesButProofs() WatchCounts {
	w, n := u.watches, u.proofs.requests
	w.Short, w.Ended, w.Seconds = w.Short-n, w.Ended-n, w.Seconds-u.proofs.latency.Seconds()
	return w
}

// objectsRead returns the number of objects that LISTs of all objects have read. objects is the
// number of objects that exist.
func (u *usage) objectsRead(lists, objects int64) int64 {
	t := &u.listTallies[selectAll]
	paged := min(t.paged, lists)
	return (lists-paged)*objects + int64(min(float64(paged*objects), t.limits))
}

// selection describes which objects a LIST or WATCH selects, as far as it affects the cost.
type selection uint8

const (
	selectAll selection = iota
	// selectBySelector uses no index: the server compares each object with the selector.
	selectBySelector
	selectNamespace // one namespace, with a selector or without
	selectNode      // by spec.nodeName, for which kube-apiserver has an index
	selectOne       // by metadata.name
	selections
)

// selectionOf returns the selection of a LIST or WATCH.
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

// listTally counts LISTs with the same selection. A page after the first belongs to an earlier
// LIST.
type listTally struct {
	lists  int64
	quorum int64
	paged  int64 // LISTs with a limit that the watch cache does not answer
	// limits is the sum of the limits of all pages, or infinity if one page has no limit. It is an
	// upper bound of the objects that pages returned.
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

// objectsEach returns the largest possible average number of objects of a LIST in pages.
func (t *listTally) objectsEach() float64 { return t.limits / float64(max(1, t.paged)) }

// watchTally counts WATCHes with the same selection.
type watchTally struct {
	ended, open int64
	initial     int64 // started with all objects
}

func (t *watchTally) add(q evidence.Query) {
	t.ended++
	if q.InitialList() {
		t.initial++
	}
}

// verb is a Kubernetes verb.
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
	verbOther // connect, and HTTP methods of requests that are not about a resource
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

// weight returns the weight of a request. Clients with little weight are evicted first.
func (v verb) weight(e *evidence.Event) int64 {
	switch {
	case v == verbList, v == verbWatch && e.Latency() < shortWatch:
		return heavy
	case e.Refused():
		return refusedWeight
	}
	return 1
}
