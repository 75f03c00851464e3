package doctor

import (
	"time"

	"github.com/weirproject/weir/internal/audit"
)

const (
	// maxStarts bounds the starts of a client that are kept, the last ones.
	maxStarts = 16
	// startsTogether is how far apart the requests of one start may be.
	startsTogether = 10 * time.Minute
	// A rollout of what a client looks after changes at least one object for ten of its LISTs.
	// That is more, by a factor, than what is usual.
	listsPerChange = 10
	rolloutFactor  = 2
	// aroundBurst is how much earlier the cause of a burst may be logged, and how much later a
	// start.
	aroundBurst = time.Minute
)

// noteStart notes that a client has started, on a machine that is new or with an informer.
func (c *client) noteStart(at int64) {
	if n := len(c.starts); n > 0 && at-c.starts[n-1] < startsTogether.Microseconds() {
		return
	}
	if len(c.starts) == maxStarts {
		c.starts = append(c.starts[:0], c.starts[1:]...)
	}
	c.starts = append(c.starts, at)
}

// explains returns what explains bursts of a client's LISTs, other than a resync: the client has
// started, or another machine sends the LISTs, or other clients create or delete many objects
// meanwhile, as in the rollout of an application.
func (d *Doctor) explains(c *client) explain {
	return func(before *burst, b burst) bool {
		if before != nil && before.places&b.places == 0 {
			return true
		}
		for _, at := range c.starts {
			if at >= b.start-2*startsTogether.Microseconds() && at <= b.start+aroundBurst.Microseconds() {
				return true
			}
		}
		from, to := b.start-aroundBurst.Microseconds(), b.start+startsTogether.Microseconds()
		changed, all := d.changed.sum(&d.clock, from, to), d.changed.sum(&d.clock, d.first, d.last)
		usual := rolloutFactor * float64(all) * float64(to-from) / float64(max(to-from, d.last-d.first))
		return (float64(changed-c.changed)-usual)*listsPerChange >= float64(b.count)
	}
}

// changesObjects reports whether a request has created or deleted an object that controllers act
// on: no Event, no Lease, and no question about a right or a token.
func changesObjects(e *audit.Event, v verb) bool {
	if v != verbCreate && v != verbDelete || e.Code >= 300 || len(e.Object.Subresource) > 0 {
		return false
	}
	switch string(e.Object.Resource) {
	case "events", "leases":
		return false
	}
	switch string(e.Object.Group) {
	case "authentication.k8s.io", "authorization.k8s.io":
		return false
	}
	return true
}
