package api

// clientView is what a client can know of one collection: a namespace and a label selector.
type clientView struct {
	era    int // of the last LIST that the client read to its end; -1: none
	schema int // with which that LIST began
	// first is the revision of the first LIST that the client read to its end; 0: there was none, or
	// initial events were before it.
	first int64
	// paging is the schema when the first of the pages under way was made.
	paging int
	// tricked says that the client watches from a revision of an era that is no more, and that the
	// present era has come so far as well. No answer tells the client so: it may hold what it likes
	// until its next LIST.
	tricked bool
}

type collection struct {
	client            *Client
	namespace, labels string
}

// view returns the record of a request's collection. It makes one if there is none. The caller
// holds the lock.
func (c *Cluster) view(r *request) *clientView {
	key := collection{r.client, r.namespace, r.query.Get("labelSelector")}
	v := c.views[key]
	if v == nil {
		v = &clientView{era: -1}
		c.views[key] = v
	}
	return v
}

// complete notes that a client has read a whole state: that of a revision, or initial events if rev
// is 0.
func (c *Cluster) complete(r *request, era, schema int, rev int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.view(r)
	if v.era < 0 {
		v.first = rev
	}
	v.era, v.schema, v.tricked = era, schema, false
}

// FirstList returns the revision of the first LIST that the client has read to its end, or 0.
func (cl *Client) FirstList(namespace, selector string) int64 {
	c := cl.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := c.views[collection{cl, namespace, selector}]; v != nil {
		return v.first
	}
	return 0
}

// Tricked reports whether a client was led to believe in an era that is no more, and has no way to
// know.
func (c *Cluster) Tricked(cl *Client) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	newest := map[*clientView]*watch{} // of each collection
	for _, w := range c.watches {
		if w.req.client != cl {
			continue
		}
		w.server.advance()
		newest[c.view(w.req)] = w
		if w.era == c.history.Era() {
			w.trick() // it may be one whose connection stands still
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

// outlives reports whether a watch whose connection stands still has outlived a restore, and the
// server has come to a revision that the client may have come to before: a client that asks for the
// newest version then gets the one that it holds. The caller holds the lock.
func (w *watch) outlives() bool {
	s := w.server
	return w.req.plan.has(Stall) && w.era != s.era && w.rev > 0 && w.rev <= s.seen && s.seen <= w.after
}

// UpToDate reports whether all that a client has listed last was of the present era.
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

// Schemas returns the oldest schema that a client may have objects of, and the present one.
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

// trick notes whether a watch goes on from a revision that means something else by now. The caller
// holds the lock.
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
