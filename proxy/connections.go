package proxy

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// connections is a listener that bounds how many of its connections are open. When they are as many
// as may be, the one that has waited longest without a request makes room for the next. Where all
// are in use, maxOverLimit more are let in, so that a probe still gets its answer and everybody
// else an honest one (see spare); what comes on top of these is closed at once. Safe for concurrent
// use.
type connections struct {
	net.Listener
	limit int

	mu   sync.Mutex
	open int
	idle list.List // of *connection; the first has waited longest

	rejected atomic.Uint64 // closed to make room, or at once
}

// connection is one that was let in. The fields are guarded by the listener's lock.
type connection struct {
	net.Conn
	listener  *connections
	overLimit bool
	idle      *list.Element // nil while a request is under way
	closed    bool

	buffer writeBuffer
}

const (
	defaultConnections = 10_000
	// maxOverLimit is how many connections are let in above the bound, to be told so.
	maxOverLimit = 64
)

// Accept waits for the next connection that is let in.
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

// serve serves the connections by one server, and, once that is shut down or closed, those that
// come then by the other.
func (cs *connections) serve(first, second *http.Server) {
	_ = first.ServeTLS(unclosedListener{cs}, "", "") // always an error; http.ErrServerClosed after its Shutdown or Close
	_ = cs.setDeadline(time.Time{})
	_ = second.ServeTLS(cs, "", "")
}

// unclosedListener is a listener that does not end when its server closes it: only an Accept that
// is under way does.
type unclosedListener struct{ *connections }

// Close is net.Listener's.
func (b unclosedListener) Close() error { return b.setDeadline(time.Now()) }

// setDeadline ends an Accept at that time, as net.TCPListener does.
func (cs *connections) setDeadline(at time.Time) error {
	return cs.Listener.(*net.TCPListener).SetDeadline(at)
}

// admit lets a connection in, or returns nil.
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

// remove takes a connection out of the books. The lock is held.
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

// Write is net.Conn's.
func (c *connection) Write(p []byte) (int, error) { return c.buffer.Write(p) }

// Close is net.Conn's.
func (c *connection) Close() error {
	c.listener.mu.Lock()
	c.listener.remove(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// onStateChange is http.Server.ConnState.
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

// connectionOf is ours below what the server made of it; nil: it is none of ours.
func connectionOf(conn net.Conn) *connection {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	c, _ := conn.(*connection)
	return c
}

// count returns how many are open.
func (cs *connections) count() int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.open
}

// overLimitKey is where a request's context says that its connection is one too many.
type overLimitKey struct{}

// connContext is http.Server.ConnContext.
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

// isOverLimit reports whether a request came by a connection too many: it is told so, and to come
// again by another.
func isOverLimit(r *http.Request) bool { return r.Context().Value(overLimitKey{}) != nil }
