package api

// clientView records which states of one collection a client has read. A collection is a namespace
// with a label selector.
type clientView struct {
	era    int // the era of the last LIST that the client read completely, or -1
	schema int // the schema when the server started to send that LIST
	// first is the revision of the first LIST that the client read completely. It is 0 if there was
	// none, or if the client read initial events first.
	first int64
	// paging is the schema when the server sent the first page of the current list.
	paging int
	// tricked is true if the client watches from a revision that it read in a past era, and the
	// present era has reached the same revision. No response shows that to the client, so the checks
	// accept any state until the client's next LIST.
	tricked bool
}

type collection struct {
	client            *Client
	namespace, labels string
}

// view returns the clientView for a request's client and collection, which it creates if necessary.
// The caller must hold c.mu.
func (c *Cluster) view(r *request) *clientView {
	key := collection{r.client, r.namespace, r.query.Get("labelSelector")}
	v := c.views[key]
	if v == nil {
		v = &clientView{era: -1}
		c.views[key] = v
	}
	return v
}

// complete records that a client has read a complete state: a list at revision rev or, if rev is 0,
// initial events.
func (c *Cluster) complete(r *request, era, schema int, rev int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.view(r)
	if v.era < 0 {
		v.first = rev
	}
	v.era, v.schema, v.tricked = era, schema, false
}

// FirstList returns the revision of the first LIST of the collection that the client has read
// completely. It returns 0 if there is none, or if the client read initial events first.
func (cl *Client) FirstList(namespace, selector string) int64 {
	c := cl.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := c.views[collection{cl, namespace, selector}]; v != nil {
		return v.first
	}
	return 0
}

// Tricked reports whether a client watches from a revision of a past era without a chance to detect
// that.
func (c *Cluster) Tricked(cl *Client) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	newest := map[*clientView]*watch{} // the last watch of each collection
	for _, w := range c.watches {
		if w.req.client != cl {
			continue
		}
		w.server.advance()
		newest[c.view(w.req)] = w
		if w.era == c.history.Era() {
			w.trick() // fill also calls trick, and does not run while the connection stalls
		}
	}
	for _, w := range newest {
		if w.outlives() {
			return true
		}
	}
	for k, v := range c.views {
		if k.client == cl && v.tricked {
			return true
		}
	}
	return false
}

// outlives reports whether a stalled watch started before a restore, and the server has reached a
// revision that the client may also have reached in the past era. If the client then requests the
// newest resourceVersion, it receives the one that it already has, and cannot detect the restore.
// The caller must hold the cluster's mu.
func (w *watch) outlives() bool {
	s := w.server
	return w.req.plan.has(Stall) && w.era != s.era && w.rev > 0 && w.rev <= s.seen && s.seen <= w.after
}

// UpToDate reports whether the client's last list of each collection was from the present era.
func (c *Cluster) UpToDate(cl *Client) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, v := range c.views {
		if k.client == cl && v.era != c.history.Era().Index {
			return false
		}
	}
	return true
}

// Schemas returns the oldest schema in which a client may have objects, and the present schema.
func (c *Cluster) Schemas(cl *Client) (oldest, present int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	oldest = c.schema
	for k, v := range c.views {
		if k.client == cl {
			oldest = min(oldest, v.schema)
		}
	}
	return oldest, c.schema
}

// trick sets tricked if the watch started from a revision that the client read in another era. In
// the watch's era, the same revision may be a different state. The caller must hold the cluster's
// mu.
func (w *watch) trick() {
	if w.rev == 0 || w.rev > w.server.seen {
		return
	}
	v := w.server.cluster.view(w.req)
	if v.era == w.era.Index {
		return
	}
	if w.era.Parent != nil && v.era == w.era.Parent.Index && w.rev <= w.era.Base {
		return
	}
	v.tricked = true
}
