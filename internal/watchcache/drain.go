package watchcache

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// drain ends the watches of a cache one after another. Each draws when its turn is, so that nobody keeps a list of them.
type drain struct {
	once  sync.Once
	begun chan struct{}   // closed by start
	until time.Time       // set before begun is closed
	over  context.Context // done when every watch is to end: the drain is over, or the cache closes
	end   context.CancelFunc
}

func newDrain(closing context.Context) drain {
	over, end := context.WithCancel(closing)
	return drain{begun: make(chan struct{}), over: over, end: end}
}

// Drain ends all watches as Close does, each at a random moment from now until that time is over, also those that begin meanwhile. A watch that
// is still sending its initial events goes on until the time is over. Everything else is answered until Close. Drain does not wait for the
// watches, and a second call does nothing.
func (c *Cache) Drain(over time.Duration) {
	d := &c.drain
	d.once.Do(func() {
		d.until = time.Now().Add(over)
		close(d.begun)
		finish := func() {
			d.end()
			c.watching.close(drainGrace)
		}
		if over <= 0 {
			finish()
			return
		}
		timer := time.AfterFunc(over, finish)
		context.AfterFunc(c.closing, func() { timer.Stop() })
	})
}

// turn is when a drain ends one watch. It is of the watch's goroutine.
type turn struct {
	drain *drain
	begun <-chan struct{} // nil: drawn
	timer *time.Timer     // nil: not drawn
	at    time.Time
}

func (d *drain) turn() turn { return turn{drain: d, begun: d.begun} }

// draw chooses the moment, once the drain has begun.
func (t *turn) draw() {
	left := max(time.Until(t.drain.until), 0)
	wait := rand.N(left + 1)
	t.begun, t.at, t.timer = nil, time.Now().Add(wait), time.NewTimer(wait)
}

// C tells that the moment has come; nil before it is drawn.
func (t *turn) C() <-chan time.Time {
	if t.timer == nil {
		return nil
	}
	return t.timer.C
}

// came reports whether the watch is to end now.
func (t *turn) came() bool {
	return t.drain.over.Err() != nil || t.timer != nil && !time.Now().Before(t.at)
}

func (t *turn) stop() {
	if t.timer != nil {
		t.timer.Stop()
	}
}
