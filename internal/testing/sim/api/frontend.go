package api

import (
	"io"
	"sync"
	"time"
)

// endsIn returns how long it is until a front end ends the body, and false if none does.
func (b *body) endsIn() (d time.Duration, ends bool) {
	now := b.cluster.Now()
	if after := b.plan.endAged; after > 0 {
		d, ends = b.began+after-now, true
	}
	if idle := b.plan.endIdle; idle > 0 && (!ends || b.heard+idle-now < d) {
		d, ends = b.heard+idle-now, true
	}
	return max(d, 0), ends
}

// over returns the error with which a front end has ended the body, or nil.
func (b *body) over() error {
	switch d, ends := b.endsIn(); {
	case !ends || d > 0:
		return nil
	case b.plan.endCuts:
		return errBroken
	}
	return io.EOF
}

// timer returns a channel that receives after d, or when a front end ends the body, if that is
// sooner. d 0 is for ever. The channel is nil if nothing ends. The caller calls stop.
func (b *body) timer(d time.Duration) (c <-chan time.Time, stop func()) {
	if left, ends := b.endsIn(); ends && (d == 0 || left < d) {
		d = max(left, 1)
	}
	if d == 0 {
		return nil, func() {}
	}
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}

// gap is how long the WATCHes of one collection have left a client without one, from the first on.
type gap struct {
	open  int           // WATCHes
	begun bool          // there was one
	since time.Duration // when the last one ended
	total time.Duration
}

// watched notes that a WATCH has been answered, and returns the function that notes its end at its
// first call. The caller of watched holds the lock; the caller of the function does not.
func (c *Cluster) watched(r *request) (ended func()) {
	key := collection{r.client, r.namespace, r.query.Get("labelSelector")}
	g := c.gaps[key]
	if g == nil {
		g = &gap{}
		c.gaps[key] = g
	}
	if g.begun && g.open == 0 {
		g.total += c.Now() - g.since
	}
	g.begun = true
	g.open++
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if g.open--; g.open == 0 {
			g.since = c.Now()
		}
	})
}

// WithoutWatch returns how long the client's collections have been without a WATCH together, each
// since its first one.
func (cl *Client) WithoutWatch() (total time.Duration) {
	c := cl.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, g := range c.gaps {
		if k.client != cl {
			continue
		}
		if total += g.total; g.open == 0 {
			total += c.Now() - g.since
		}
	}
	return total
}
