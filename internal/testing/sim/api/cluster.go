package api

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Cluster is a history of an etcd with the API servers in front of it. Its methods are safe for
// concurrent use. Other code may use the history only in a function that it passes to Do.
type Cluster struct {
	Kind *Kind
	// Yield is called at each step of a server, without a lock, so that the world can let other
	// goroutines run first.
	Yield func()
	// Logf is called with a message for each event. It may be nil.
	Logf func(format string, args ...any)

	start time.Time

	mu      sync.Mutex
	history *History
	servers []*Server
	clients []*Client
	schema  int // how often a conversion or a default of the resource changed
	rules   []*rule
	watches []*watch // all watches, including those that have ended
	encoded map[encoding][]byte
	written map[string]Representation
	views   map[collection]*clientView
	gaps    map[collection]*gap
	changed chan struct{} // closed and replaced to wake waiting requests
}

// NewCluster creates a cluster with one server for each of specs. It must be called in a synctest
// bubble.
func NewCluster(kind *Kind, h *History, specs []Spec) *Cluster {
	c := &Cluster{
		Kind: kind, history: h, start: time.Now(), Yield: func() {},
		encoded: map[encoding][]byte{}, written: map[string]Representation{}, views: map[collection]*clientView{}, gaps: map[collection]*gap{}, changed: make(chan struct{}),
	}
	for i, spec := range specs {
		c.servers = append(c.servers, &Server{Spec: spec, Index: i, cluster: c, era: h.Era(), seen: h.Era().Head()})
	}
	return c
}

// Now returns the virtual time since NewCluster. It locks nothing.
func (c *Cluster) Now() time.Duration { return time.Since(c.start) }

// Do calls f with the history while it holds c.mu, and then wakes all waiting requests. f must not
// call methods of the cluster that lock c.mu.
func (c *Cluster) Do(f func(h *History)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c.history)
	c.wake()
}

func (c *Cluster) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *Cluster) logf(format string, args ...any) {
	if c.Logf != nil {
		c.Logf(format, args...)
	}
}

// SetSchema changes the bytes that servers send for objects, but no resourceVersion. It simulates a
// change of a conversion or of a default.
func (c *Cluster) SetSchema() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.schema++
}

// Restart breaks a server's connections and makes the server read etcd again. After that, the
// server's cache is current, and watches cannot resume from an earlier revision.
func (c *Cluster) Restart(server int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers[server%len(c.servers)].restart()
	c.wake()
}

// RestartAll restarts every server, as an administrator does after a restore from a backup.
func (c *Cluster) RestartAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.servers {
		s.restart()
	}
	c.wake()
}

// CutWatches breaks the connection of every watch of a server.
func (c *Cluster) CutWatches(server int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers[server%len(c.servers)].incarnation++
	c.wake()
}

// Late reports whether a server that serves all LISTs from its cache lacks a change that is at
// least d old.
func (c *Cluster) Late(d time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.servers, func(s *Server) bool {
		return s.Stale && s.Lag > d && max(s.seen, s.era.RevisionAt(c.Now()-s.Lag)) < s.era.RevisionAt(c.Now()-d)
	})
}

// SetLag sets the time between a commit and its arrival in a server's cache.
func (c *Cluster) SetLag(server int, lag time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.servers[server%len(c.servers)]
	s.advance()
	s.Lag = lag
	c.wake()
}

// Shrink compacts etcd and empties the window of every server. After that, watches cannot resume
// from a revision before the newest one.
func (c *Cluster) Shrink() {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.history.Era()
	e.Compact(e.Head())
	for _, s := range c.servers {
		s.advance()
		s.window = s.seen
	}
}

// Plain reports whether one of the servers supports only JSON.
func (c *Cluster) Plain() bool {
	return slices.ContainsFunc(c.servers, func(s *Server) bool { return s.Spec.Plain })
}

// Representation identifies the bytes that a server sends for a version of an object. They depend
// on the schema.
type Representation struct {
	Version *Version
	Schema  int
	// Gone is set only for the object of a DELETED event. Such an object has the resourceVersion of
	// the deletion, and Gone is the revision of the deletion. For other objects Gone is 0.
	Gone int64
}

// ResourceVersion returns the resourceVersion in the object's bytes.
func (rep Representation) ResourceVersion() string {
	if rep.Gone != 0 {
		return rep.Version.Era.Format(rep.Gone)
	}
	return rep.Version.ResourceVersion()
}

func (rep Representation) String() string {
	s := rep.Version.String()
	if rep.Schema != 0 {
		s += fmt.Sprintf(" (schema %d)", rep.Schema)
	}
	if rep.Gone != 0 {
		s += fmt.Sprintf(" gone at %d", rep.Gone)
	}
	return s
}

// RepresentationOf returns the representation whose bytes are raw. It returns false if no server
// ever sent these bytes.
func (c *Cluster) RepresentationOf(raw []byte) (Representation, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rep, ok := c.written[string(stripEnvelope(raw))]
	return rep, ok
}

// RepresentationByID returns the representation with the version ID and the schema that an object's
// annotations contain. It returns false if they do not exist.
func (c *Cluster) RepresentationByID(id, schema string) (Representation, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := strconv.Atoi(id)
	m, err2 := strconv.Atoi(schema)
	v := c.history.Version(n)
	return Representation{Version: v, Schema: m}, err == nil && err2 == nil && v != nil && m <= c.schema
}
