package doctor

import (
	"cmp"
	"maps"
	"time"

	"github.com/weirproject/weir/measure/doctor/evidence"
)

const (
	// maxOpenWatches limits the number of recorded WATCHes that have started and not ended. The
	// records use 6 MB. Further WATCHes are counted only when they end.
	maxOpenWatches = 1 << 16
	// longestWatch is the longest duration of a WATCH without a timeout. By default kube-apiserver
	// ends such a WATCH after 30 to 60 minutes. With a larger --min-request-timeout it ends the WATCH
	// later.
	longestWatch = time.Hour
	// overdue is how long after its expected end a WATCH is considered ended. A killed server logs no
	// end.
	overdue   = 5 * time.Minute
	roomEvery = time.Minute // the least time between two searches for overdue WATCHes
)

// openWatches contains the WATCHes that have not ended. It refers to clients by number and to
// resources by hash, so that the memory of evicted clients can be freed.
type openWatches struct {
	byID  map[uint64]openWatch // by the hash of the audit ID
	swept int64                // when makeRoom searched last; microseconds since 1970
	// longest is 0 until a WATCH has lasted longer than longestWatch. After that, longest is how long
	// a WATCH without a timeout may last.
	longest time.Duration
}

type openWatch struct {
	whose     usageKey
	begun     int64         // in microseconds since 1970
	timeout   time.Duration // 0: none
	selection selection
	initial   bool
}

// usageKey identifies a client's usage: the client's serial number and the hash of the resource.
type usageKey struct {
	client   int64
	resource uint64
}

// started records that a WATCH has started.
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

// makeRoom reports whether another WATCH can be recorded. If there are too many, it first removes
// overdue ones.
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

// isOverdue reports whether a WATCH must have ended before now. now is in microseconds since 1970.
func (o *openWatches) isOverdue(w openWatch, now int64) bool {
	lasts := cmp.Or(w.timeout, max(o.longest, longestWatch))
	return w.begun+(lasts+overdue).Microseconds() < now
}

// ended removes a WATCH that has ended. If the WATCH lasted longer than longestWatch, ended sets
// o.longest to at least twice its duration. The server ends each WATCH after a random time between
// a minimum and twice that minimum, so other WATCHes may last twice as long.
func (o *openWatches) ended(e *evidence.Event) {
	delete(o.byID, hash(e.AuditID))
	if lasted := e.Latency(); lasted > longestWatch {
		o.longest = max(o.longest, 2*lasted)
	}
}

// countOpen counts all open WATCHes that are not overdue. It then removes them, so that each counts
// once.
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
