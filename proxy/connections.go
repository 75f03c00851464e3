package proxy

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// connections is a listener that bounds its open connections. At the limit, the connection that has
// been idle longest is closed for a new one. If none is idle, maxOverLimit more are accepted, whose
// requests get 429 (see isOverLimit), so that probes still work. Further ones are closed at once.
// It is safe for concurrent use.
type connections struct {
	net.Listener
	limit int

	mu   sync.Mutex
	open int
	idle list.List // of *connection, longest idle first

	rejected atomic.Uint64 // closed for others, or at once
}

// connection is an accepted connection. The listener's lock guards its fields.
type connection struct {
	net.Conn
	listener  *connections
	overLimit bool
	idle      *list.Element // nil during a request
	closed    bool

	buffer writeBuffer
}

const (
	defaultConnections = 10_000
	// maxOverLimit is how many connections above the limit are accepted, to answer 429.
	maxOverLimit = 64
)

// Accept blocks until a connection is admitted.
func (cs *connections) Accept() (net.Conn, error) {
	for {
		conn, err := cs.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := cs.admit(conn); c != nil {
			return c, nil
		}
		cs.rejected.Add(1)
		_ = conn.Close()
	}
}

// admit returns the admitted connection, or nil.
func (cs *connections) admit(conn net.Conn) *connection {
	cs.mu.Lock()
	var victim *connection
	if cs.open >= cs.limit && cs.idle.Len() > 0 {
		victim = cs.idle.Front().Value.(*connection)
		cs.remove(victim)
	}
	var c *connection
	if cs.open < cs.limit+maxOverLimit {
		c = &connection{Conn: conn, listener: cs, overLimit: cs.open >= cs.limit, buffer: writeBuffer{conn: conn}}
		c.idle = cs.idle.PushBack(c)
		cs.open++
	}
	cs.mu.Unlock()
	if victim != nil {
		cs.rejected.Add(1)
		_ = victim.Conn.Close()
	}
	return c
}

// remove removes a connection from the counts. The caller holds the lock.
func (cs *connections) remove(c *connection) {
	if c.closed {
		return
	}
	c.closed = true
	cs.open--
	c.leaveIdle()
}

func (c *connection) leaveIdle() {
	if c.idle != nil {
		c.listener.idle.Remove(c.idle)
		c.idle = nil
	}
}

// Write writes through the write buffer.
func (c *connection) Write(p []byte) (int, error) { return c.buffer.Write(p) }

// Close closes the connection and removes it from the listener.
func (c *connection) Close() error {
	c.listener.mu.Lock()
	c.listener.remove(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// onStateChange implements http.Server.ConnState.
func (cs *connections) onStateChange(conn net.Conn, state http.ConnState) {
	c := connectionOf(conn)
	if c == nil {
		return
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	switch {
	case c.closed:
	case state == http.StateActive:
		c.leaveIdle()
	case state == http.StateIdle && c.idle == nil:
		c.idle = cs.idle.PushBack(c)
	}
}

// connectionOf returns the *connection below a server's connection, or nil.
func connectionOf(conn net.Conn) *connection {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	c, _ := conn.(*connection)
	return c
}

// count returns the number of open connections.
func (cs *connections) count() int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.open
}

// overLimitKey is the context key of requests on connections above the limit.
type overLimitKey struct{}

// connContext implements http.Server.ConnContext.
func (cs *connections) connContext(ctx context.Context, conn net.Conn) context.Context {
	c := connectionOf(conn)
	if c == nil {
		return ctx
	}
	if c.overLimit {
		ctx = context.WithValue(ctx, overLimitKey{}, true)
	}
	return c.buffer.withContext(ctx)
}

// isOverLimit reports whether a request came by a connection above the limit. It gets 429, and its
// connection is closed.
func isOverLimit(r *http.Request) bool { return r.Context().Value(overLimitKey{}) != nil }
