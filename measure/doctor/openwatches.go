package doctor

import (
	"cmp"
	"maps"
	"time"

	"github.com/weirproject/weir/measure/doctor/evidence"
)

const (
	// maxOpenWatches bounds the WATCHes that have started and not ended: 6 MB. Further WATCHes are
	// counted when they end.
	maxOpenWatches = 1 << 16
	// longestWatch is when kube-apiserver ends a WATCH without a timeout: after 30 to 60 minutes, or
	// later with another --min-request-timeout.
	longestWatch = time.Hour
	// overdue is how much later a WATCH counts as cut off. A server that is killed logs no end.
	overdue   = 5 * time.Minute
	roomEvery = time.Minute // between two searches for overdue WATCHes
)

// openWatches has the WATCHes that have not ended. It refers to clients and resources by number and
// hash, so that it does not keep them in memory.
type openWatches struct {
	byID  map[uint64]openWatch // by the hash of the audit ID
	swept int64                // when makeRoom searched last, in microseconds since 1970
	// longest is how long a WATCH without a timeout may last, if one has lasted for more than
	// longestWatch.
	longest time.Duration
}

type openWatch struct {
	whose     usageKey
	begun     int64         // in microseconds since 1970
	timeout   time.Duration // 0: none
	selection selection
	initial   bool
}

// usageKey is the serial number of a client and the hash of one of its resources.
type usageKey struct {
	client   int64
	resource uint64
}

// started records a WATCH that has started.
func (d *Doctor) started(e *evidence.Event) {
	c := d.clients.find(e, 0)
	if e.Code >= 400 || !d.open.makeRoom(e.Staged) {
		return
	}
	d.target.set(e.Object)
	u := d.clients.usage(c, d.target.resource)
	q := evidence.ParseQuery(e.URI)
	if q.InitialList() && !q.OneObject {
		c.noteStart(e.Staged)
	}
	d.open.byID[hash(e.AuditID)] = openWatch{
		whose:     usageKey{c.serial, hash([]byte(u.resource))},
		begun:     e.Staged,
		timeout:   q.Timeout,
		selection: selectionOf(e, q), initial: q.InitialList(),
	}
}

// makeRoom reports whether one more WATCH can be recorded. If there are too many, it removes those
// that are overdue.
func (o *openWatches) makeRoom(now int64) bool {
	if len(o.byID) < maxOpenWatches {
		return true
	}
	if since := now - o.swept; since < 0 || since >= roomEvery.Microseconds() {
		o.swept = now
		maps.DeleteFunc(o.byID, func(_ uint64, w openWatch) bool { return o.isOverdue(w, now) })
	}
	return len(o.byID) < maxOpenWatches
}

// isOverdue reports whether a WATCH must have ended before now, in microseconds since 1970.
func (o *openWatches) isOverdue(w openWatch, now int64) bool {
	lasts := cmp.Or(w.timeout, max(o.longest, longestWatch))
	return w.begun+(lasts+overdue).Microseconds() < now
}

// ended removes a WATCH. A WATCH that has lasted for more than an hour shows that others may, and
// for up to twice as long: the server ends WATCHes after a random time of one to two times its
// minimum.
func (o *openWatches) ended(e *evidence.Event) {
	delete(o.byID, hash(e.AuditID))
	if lasted := e.Latency(); lasted > longestWatch {
		o.longest = max(o.longest, 2*lasted)
	}
}

// countOpen counts the open WATCHes, except overdue ones. Later calls count nothing.
func (d *Doctor) countOpen() {
	type place struct {
		c *client
		u *usage
	}
	places := map[usageKey]place{}
	for _, c := range d.clients.least {
		for _, u := range c.usages {
			places[usageKey{c.serial, hash([]byte(u.resource))}] = place{c, u}
		}
	}
	for _, w := range d.open.byID {
		if d.open.isOverdue(w, d.last) {
			continue
		}
		one := Totals{Requests: 1, Watches: 1}
		d.total.add(one)
		p, ok := places[w.whose]
		if !ok { // the client was evicted
			d.clients.gone.add(one)
			continue
		}
		p.c.total.add(one)
		p.u.watches.Open++
		p.u.watchTallies[w.selection].open++
		d.census.watched(p.u.resource, w.selection, d.since(w.begun))
		if w.initial {
			p.u.watches.Initial++
			p.u.watchTallies[w.selection].initial++
		}
	}
	clear(d.open.byID)
}
