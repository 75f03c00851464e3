package doctor

import (
	"cmp"
	"maps"
	"time"

	"github.com/weirproject/weir/internal/audit"
)

const (
	// maxOpenWatches bounds the WATCHes that have started and are not over: 6 MB. Of more, those
	// that never end are not counted.
	maxOpenWatches = 1 << 16
	// longestWatch is how long kube-apiserver lets a WATCH last that asks for no timeout: 30 to 60
	// minutes, or longer with another --min-request-timeout.
	longestWatch = time.Hour
	// overdue is how long after that a WATCH without an end is taken for one that was cut off. A
	// server that is killed logs no end.
	overdue   = 5 * time.Minute
	roomEvery = time.Minute // between two looks for WATCHes that are overdue
)

// openWatches has who began the WATCHes that are not over. It keeps nothing of a client or a
// resource alive, nor their names, which can be long.
type openWatches struct {
	byID  map[uint64]openWatch // by the hash of the audit ID
	swept int64                // when makeRoom looked last, in microseconds since 1970
	// longest is how long a WATCH without a timeout may last, as far as one has shown. 0:
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

// usageKey names a client by its serial number, and one of its resources by its hash.
type usageKey struct {
	client   int64
	resource uint64
}

// started notes a WATCH that has begun.
func (d *Doctor) started(e *audit.Event) {
	c := d.clients.find(e, 0)
	if e.Code >= 400 || !d.open.makeRoom(e.Staged) {
		return
	}
	d.resource = appendResource(d.resource[:0], e.Object)
	u := d.clients.usage(c, d.resource)
	q := audit.ParseQuery(e.URI)
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

// makeRoom reports whether one more WATCH can be kept. If there are too many it forgets those that
// are overdue.
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

// isOverdue reports whether a WATCH must have been over before now, in microseconds since 1970.
func (o *openWatches) isOverdue(w openWatch, now int64) bool {
	lasts := cmp.Or(w.timeout, max(o.longest, longestWatch))
	return w.begun+(lasts+overdue).Microseconds() < now
}

// ended forgets a WATCH that is over. One that has lasted for longer than others may shows that
// they may as well: the server spreads their ends over as much again as the shortest lasts.
func (o *openWatches) ended(e *audit.Event) {
	delete(o.byID, hash(e.AuditID))
	if lasted := e.Latency(); lasted > longestWatch {
		o.longest = max(o.longest, 2*lasted)
	}
}

// countOpen counts the WATCHes that are not over, once. It leaves out those that are overdue.
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
		if !ok { // the client was pushed out
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
