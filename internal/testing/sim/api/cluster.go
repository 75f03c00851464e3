package api

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Cluster is a history with servers in front of it. Its methods are safe for concurrent use. Only
// the function that Do calls may use the history.
type Cluster struct {
	Kind *Kind
	// Yield is called, without any lock, at each step of a server, so that the world may have other
	// goroutines go first.
	Yield func()
	// Logf is called with what happens; it may be nil.
	Logf func(format string, args ...any)

	start time.Time

	mu      sync.Mutex
	history *History
	servers []*Server
	clients []*Client
	schema  int // how often the resource's conversion or defaults have changed
	rules   []*rule
	watches []*watch // that were ever begun
	encoded map[encoding][]byte
	written map[string]Representation
	views   map[collection]*clientView
	gaps    map[collection]*gap
	changed chan struct{} // closed and replaced when a waiting request may have something to see
}

// NewCluster makes a cluster of the servers that specs describe. It must be called where virtual
// time runs.
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

// Now returns the virtual time since the cluster was made. It takes no lock.
func (c *Cluster) Now() time.Duration { return time.Since(c.start) }

// Do calls f with the history while nothing else happens, and wakes all that wait for a change. f
// must not call methods of the cluster that take its lock.
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

// SetSchema changes the bytes that servers make of objects, under the same resourceVersions, as a
// change of a conversion or default does.
func (c *Cluster) SetSchema() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.schema++
}

// Restart ends a server's connections and makes it read etcd again: its view is current, and its
// window begins here.
func (c *Cluster) Restart(server int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers[server%len(c.servers)].restart()
	c.wake()
}

// RestartAll restarts every server, as a restore from a backup demands.
func (c *Cluster) RestartAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.servers {
		s.restart()
	}
	c.wake()
}

// CutWatches breaks every watch of a server.
func (c *Cluster) CutWatches(server int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers[server%len(c.servers)].incarnation++
	c.wake()
}

// Late reports whether a server that answers all LISTs from its cache lacks something that was
// there d ago.
func (c *Cluster) Late(d time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.servers, func(s *Server) bool {
		return s.Stale && s.Lag > d && max(s.seen, s.era.RevisionAt(c.Now()-s.Lag)) < s.era.RevisionAt(c.Now()-d)
	})
}

// SetLag makes a server see commits that much later from now on.
func (c *Cluster) SetLag(server int, lag time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.servers[server%len(c.servers)]
	s.advance()
	s.Lag = lag
	c.wake()
}

// Shrink makes the window of every server begin at its newest revision, and compacts etcd: no older
// version can be resumed from.
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

// Plain reports whether one of the servers speaks JSON only.
func (c *Cluster) Plain() bool {
	return slices.ContainsFunc(c.servers, func(s *Server) bool { return s.Spec.Plain })
}

// Representation is what a server made of a version.
type Representation struct {
	Version *Version
	Schema  int
	// Gone is set if it is the object of a DELETED event. It is the revision of the change,
	// which the object has as its resourceVersion.
	Gone int64
}

// ResourceVersion returns the resourceVersion that stands in the bytes.
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

// RepresentationOf returns the representation that bytes were made of. It returns false if no
// server ever wrote them.
func (c *Cluster) RepresentationOf(raw []byte) (Representation, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rep, ok := c.written[string(stripEnvelope(raw))]
	return rep, ok
}

// RepresentationByID returns a representation by what every object carries: the numbers of its
// version and of the schema. It returns false if there is no such version or schema.
func (c *Cluster) RepresentationByID(id, schema string) (Representation, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := strconv.Atoi(id)
	m, err2 := strconv.Atoi(schema)
	v := c.history.Version(n)
	return Representation{Version: v, Schema: m}, err == nil && err2 == nil && v != nil && m <= c.schema
}
