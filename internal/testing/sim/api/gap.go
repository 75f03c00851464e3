package api

import (
	"sync"
	"time"
)

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
