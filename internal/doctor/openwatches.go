package doctor

import "github.com/weirproject/weir/internal/audit"

// maxOpenWatches bounds the WATCHes that have started and are not over: 5 MB. Of more, those that
// never end are not counted.
const maxOpenWatches = 1 << 16

// openWatches has who began the WATCHes that are not over, by the hash of the audit ID. It keeps
// nothing of a client or a resource alive, nor their names, which can be long.
type openWatches map[uint64]openWatch

type openWatch struct {
	whose     usageKey
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
	if len(d.open) >= maxOpenWatches || e.Code >= 400 {
		return
	}
	d.resource = appendResource(d.resource[:0], e.Object)
	u := d.clients.usage(c, d.resource)
	q := audit.ParseQuery(e.URI)
	d.open[hash(e.AuditID)] = openWatch{usageKey{c.serial, hash([]byte(u.resource))}, selectionOf(e, q), q.InitialList()}
}

// ended forgets a WATCH that is over.
func (o openWatches) ended(e *audit.Event) { delete(o, hash(e.AuditID)) }

// countOpen counts the WATCHes that are not over, once.
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
	for _, w := range d.open {
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
		if w.initial {
			p.u.watches.Initial++
			p.u.watchTallies[w.selection].initial++
		}
	}
	clear(d.open)
}
