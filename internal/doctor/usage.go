package doctor

import (
	"bytes"
	"time"

	"github.com/weirproject/weir/internal/audit"
)

// shortWatch is a WATCH that ended early: kube-apiserver ends them after 30 to 60 minutes,
// informers after 5 to 10, and proxies on the way that do not know them after a minute at most.
const shortWatch = time.Minute

// usage is what one client does with one resource. What a client that never LISTs nor WATCHes does
// takes 700 bytes; LISTs add up to 5 KB.
type usage struct {
	resource        string // as kubectl has it, with a subresource: pods/status
	version         string // of the last LIST or WATCH
	tally           [verbs]tally
	refused, failed int64 // see Totals
	lists           ListCounts
	vain            tally    // LISTs that failed with 5xx
	whole, part     *pattern // LISTs of all objects, and of some; nil if there were none
	watches         WatchCounts
	watchPlaces     *distinct // nil if there were none
	shorts          hourly    // WATCHes that were over within a minute, but for proofs
	proofs          proofs
	gets, writes    *acts                 // of objects; nil if there were none
	listTallies     [selections]listTally // LISTs that were answered
	watchTallies    [selections]watchTally
}

// ListCounts count LISTs by what they ask for. Kinds overlap.
type ListCounts struct {
	Quorum     int64 `json:"quorum"`     // no resourceVersion: as new as the storage
	Cache      int64 `json:"cache"`      // any resourceVersion will do
	Limited    int64 `json:"limited"`    // with a limit
	Pages      int64 `json:"pages"`      // behind the first
	Selected   int64 `json:"selected"`   // with a selector
	Namespaced int64 `json:"namespaced"` // of one namespace
	OneObject  int64 `json:"oneObject"`  // by metadata.name

	// QueueSeconds is the wait in flow control's queues, as far as slow requests tell it.
	QueueSeconds   float64 `json:"queueSeconds"`
	StorageSeconds float64 `json:"storageSeconds"` // waited for etcd; told of slow ones
}

// WatchCounts count WATCHes that were let in.
type WatchCounts struct {
	Short     int64   `json:"short"`     // over within a minute
	Expired   int64   `json:"expired"`   // 410
	Initial   int64   `json:"initial"`   // that begin with a LIST
	OneObject int64   `json:"oneObject"` // by metadata.name
	Open      int64   `json:"open"`      // at the end of the log
	Ended     int64   `json:"ended"`
	Seconds   float64 `json:"seconds"` // that the ended ones lasted
}

// pattern is how LISTs of one sort come.
type pattern struct {
	rhythm
	places  distinct
	latency time.Duration
	quorum  int64
	limited int64
	initial int64    // WATCHes that begin with a LIST
	spread  *atATime // nil but for LISTs of all of nodeResource
}

// atATime counts the machines that LIST within the same hour.
type atATime struct {
	hourly hourly
	places distinct
	most   int
}

// add notes a LIST of a machine.
func (a *atATime) add(at int64, place []byte) {
	if a.hourly.add(at) {
		a.most, a.places = max(a.most, a.places.count()), distinct{}
	}
	a.places.add(place)
}

// add counts an event. It reports whether that is a request which an informer starts with.
func (u *usage) add(e *audit.Event, v verb) (starts bool) {
	u.tally[v].requests++
	u.tally[v].latency += e.Latency()
	switch {
	case e.Refused():
		u.refused++
	case e.Code >= 500:
		u.failed++
	}
	u.acted(e, v)
	switch v {
	case verbList:
		u.asksFor(e.Object.Version)
		q := audit.ParseQuery(e.URI)
		u.addList(e, q)
		return q.Version == "0" && q.Limit > 0 && !q.OneObject // as client-go's informers have it
	case verbWatch:
		u.asksFor(e.Object.Version)
		q := audit.ParseQuery(e.URI)
		u.addWatch(e, q)
		return q.InitialList() && !q.OneObject
	}
	return false
}

// asksFor notes the version of the resource that is asked for.
func (u *usage) asksFor(version []byte) {
	if version = version[:min(len(version), maxName)]; u.version != string(version) {
		u.version = string(version)
	}
}

// addList counts a LIST. One that was refused has no pattern: it cost nothing. Neither has one that
// failed: its client tries again as it has to, nor one of what cannot be WATCHed.
func (u *usage) addList(e *audit.Event, q audit.Query) {
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
	// A request that timed out cost what it would have.
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

// unwatchable is how the groups end whose objects are computed when they are asked for: pods' and
// nodes' metrics, which are LISTed by who needs them, such as the autoscaler.
const unwatchable = "metrics.k8s.io"

// pattern returns the one that a LIST belongs to.
func (u *usage) pattern(e *audit.Event, q audit.Query) *pattern {
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

// add counts a LIST of this sort. A page behind the first is part of its LIST.
func (p *pattern) add(e *audit.Event, q audit.Query) {
	p.latency += e.Latency()
	if q.Continued {
		return
	}
	p.begun(e)
	if q.Quorum() {
		p.quorum++
	}
	if q.Limit > 0 {
		p.limited++
	}
}

// begun notes when a LIST came, and from where.
func (p *pattern) begun(e *audit.Event) {
	p.places.add(e.Place())
	p.rhythm.add(e.Begun(), e.Place())
	if p.spread != nil {
		p.spread.add(e.Begun(), e.Place())
	}
}

// addWatch counts a WATCH that is over. One that was refused was none. One of a single object is
// not short: it ends with the object, as kubelets' of Secrets do.
func (u *usage) addWatch(e *audit.Event, q audit.Query) {
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
	if q.InitialList() && !q.OneObject { // it costs what a LIST does
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

// proofs are WATCHes that are asked for seconds, and come with a LIST of the first object, as those
// of a proxy do that has to know whether its cache is as new as the storage.
type proofs struct {
	asked int64 // when the last such LIST was answered
	tally
}

// proofTime is how long a proof may take, and how far it may be from the LIST.
const proofTime = 10 * time.Second

// add counts a WATCH that is over if it is a proof, and reports whether it is.
func (p *proofs) add(e *audit.Event, q audit.Query) bool {
	apart := time.Duration(e.Begun()-p.asked) * time.Microsecond
	if q.Timeout == 0 || q.Timeout > proofTime || apart.Abs() > proofTime || q.InitialList() {
		return false
	}
	p.requests++
	p.latency += e.Latency()
	return true
}

// watchesButProofs returns the counts of WATCHes without those that are proofs.
func (u *usage) watchesButProofs() WatchCounts {
	w, n := u.watches, u.proofs.requests
	w.Short, w.Ended, w.Seconds = w.Short-n, w.Ended-n, w.Seconds-u.proofs.latency.Seconds()
	return w
}

// objectsRead returns how many objects LISTs of all of them have read, of which there are so many.
func (u *usage) objectsRead(lists, objects int64) int64 {
	t := &u.listTallies[selectAll]
	paged := min(t.paged, lists)
	return (lists-paged)*objects + int64(min(float64(paged*objects), t.limits))
}
