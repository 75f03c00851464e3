package watchcache

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// drain ends the watches of a cache one after another. Each watch chooses a random time for its
// end, so the drain needs no list of watches.
type drain struct {
	once     sync.Once
	begun    chan struct{} // closed by start
	deadline time.Time     // set before begun is closed
	// ended is done when every watch must end: the drain is over, or the cache has closed.
	ended  context.Context
	finish context.CancelFunc
}

func newDrain(closing context.Context) drain {
	over, end := context.WithCancel(closing)
	return drain{begun: make(chan struct{}), ended: over, finish: end}
}

// Drain ends all watches as Close does, each at a random time within the given duration. A watch
// that starts during the drain ends too. A watch that is still sending its initial events may
// continue until the end of the drain. A watch that is being caught up may continue for drainGrace
// after the end. The cache answers other requests until Close. Drain does not wait, and a second
// call does nothing.
func (c *Cache) Drain(over time.Duration) {
	d := &c.drain
	d.once.Do(func() {
		d.deadline = time.Now().Add(over)
		close(d.begun)
		timer := time.AfterFunc(over, func() {
			d.finish()
			c.watchWrites.close(drainGrace)
		})
		context.AfterFunc(c.closing, func() { timer.Stop() })
	})
}

// drainTimer schedules the end of one watch by a drain. Only the watch's goroutine uses it.
type drainTimer struct {
	drain *drain
	begun <-chan struct{}  // nil after start
	timer <-chan time.Time // fires at endAt; nil: not started
	endAt time.Time
	ended time.Time // when the watch noticed that it must end; zero: it has not
}

func (d *drain) newTimer() drainTimer { return drainTimer{drain: d, begun: d.begun} }

// start chooses the time when the watch ends. The drain must have started.
func (dt *drainTimer) start() {
	left := max(time.Until(dt.drain.deadline), 0)
	wait := rand.N(left + 1)
	dt.begun, dt.endAt, dt.timer = nil, time.Now().Add(wait), time.After(wait)
}

// due reports whether the watch must end now. Before it ends, the watch sends the remaining changes
// to its client.
func (dt *drainTimer) due() bool {
	select {
	case <-dt.begun:
		dt.start()
	default:
	}
	return dt.drain.ended.Err() != nil || dt.timer != nil && !time.Now().Before(dt.endAt)
}

// overdue reports whether grace has passed since the drain ended or the cache was closed. The watch
// then ends without sending the remaining changes. overdue returns false if grace is 0, which means
// that it is not set yet.
func (dt *drainTimer) overdue(grace time.Duration) bool {
	if dt.drain.ended.Err() == nil {
		return false
	}
	if dt.ended.IsZero() {
		dt.ended = time.Now()
	}
	return grace > 0 && time.Since(dt.ended) > grace
}
