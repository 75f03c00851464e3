package doctor

import "github.com/weirproject/weir/internal/audit"

// maxOpenWatches bounds the WATCHes that have started and are not over: 3 MB. Of more, those that
// never end are not counted.
const maxOpenWatches = 1 << 16

// openWatches has who began the WATCHes that are not over, by the hash of the audit ID.
type openWatches map[uint64]openWatch

type openWatch struct {
	client  *client
	initial bool
	object  string // as appendResource names it
}

// started notes a WATCH that has begun.
func (o openWatches) started(e *audit.Event, c *client) {
	if len(o) >= maxOpenWatches || e.Code >= 400 {
		return
	}
	o[hash(e.AuditID)] = openWatch{c, audit.ParseQuery(e.URI).InitialList, string(appendResource(nil, e.Object))}
}

// ended forgets a WATCH that is over.
func (o openWatches) ended(e *audit.Event) { delete(o, hash(e.AuditID)) }
