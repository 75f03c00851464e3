package api

import (
	"sync"
	"time"
)

// gap measures for how long a client has had no open WATCH of one collection. The time before the
// client's first WATCH of the collection does not count.
type gap struct {
	open  int           // the number of open WATCHes
	begun bool          // the client has started a first WATCH
	since time.Duration // when the last open WATCH ended
	total time.Duration
}

// watched records the start of a WATCH. It returns a function that records its end; only the first
// call of that function has an effect. The caller of watched must hold c.mu. The caller of the
// function must not hold it.
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

// WithoutWatch returns for how long the client has had no open WATCH, as the sum over its
// collections. For each collection, the time is counted from the first WATCH.
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
