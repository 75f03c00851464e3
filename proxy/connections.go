package proxy

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir/internal/serve/budget"
)

// connections is a listener that bounds its open connections: their number, that of each source,
// and the memory of those whose client has no accepted credential, which are unknown. For a new
// connection it closes another one, see makeRoom. If it finds none, it accepts maxOverLimit more,
// whose requests get 429 (see isOverLimit), so that probes still work, and closes the oldest of
// these for further ones. It is safe for concurrent use.
type connections struct {
	net.Listener
	limit     int
	perSource int // 0: no bound
	// memory has the bytes of unknown connections, streams those of requests, see connection.count,
	// and heads those of request heads that are being received.
	memory, streams, heads *budget.Budget

	mu      sync.Mutex
	open    int
	unknown list.List      // of *connection, oldest first
	over    list.List      // those above the limit, oldest first
	idle    list.List      // those with an accepted credential and no request, longest idle first
	unread  list.List      // those with an accepted credential and unread responses, by last progress
	sources map[string]int // by address; no more entries than connections
	victims []*connection  // to be closed once the lock is released

	rejected atomic.Uint64 // closed for others, or immediately
	closed   [closeReasons]atomic.Uint64
}

// closeReason is why a connection was closed for others.
type closeReason int

const (
	closeForNew    closeReason = iota // too many connections
	closeForSource                    // too many of its source
	closeForMemory                    // too many bytes of unknown connections
	closeForStreams
	closeForResets
	closeForHead
	closeReasons
)

func (r closeReason) String() string {
	return [closeReasons]string{"connections", "source", "memory", "streams", "resets", "head"}[r]
}

const (
	defaultConnections = 10_000
	// maxOverLimit is how many connections above the limit are accepted, to answer 429.
	maxOverLimit = 64
	// unknownConnectionBytes bounds the memory of all unknown connections, by connectionBytes each:
	// 1,536 of them.
	unknownConnectionBytes = 96 << 20
	// reviewTime is how long an unknown connection is not closed for others while a token of its
	// caller may be under review.
	reviewTime = 5 * time.Second
)

// Levels of the budgets, for a client without an accepted credential and for all others.
const (
	budgetUnknown = iota
	budgetKnown
)

// newConnections returns the listener. Each source may have perSource connections; 0: any number.
func newConnections(l net.Listener, limit, perSource int, heads *budget.Budget) *connections {
	return &connections{
		Listener: l, limit: limit, perSource: perSource, sources: map[string]int{}, heads: heads,
		memory:  budget.New(unknownConnectionBytes, budget.Level{Name: "unknown"}),
		streams: budget.New(streamMemory, budget.Level{Name: "unknown", Reserved: unknownStreamMemory, Most: unknownStreamMemory}, budget.Level{Name: "known"}),
	}
}

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
		_ = conn.Close()
	}
}

// admit returns the admitted connection, or nil if its source has too many.
func (cs *connections) admit(conn net.Conn) *connection {
	c := &connection{
		Conn: conn, listener: cs, source: sourceOfAddress(conn.RemoteAddr().String()), buffer: writeBuffer{conn: conn},
		memory: cs.memory.NewCharge(budgetUnknown, ""), responses: cs.streams.NewCharge(budgetUnknown, ""), heads: cs.heads.NewCharge(budgetUnknown, ""),
	}
	admitted := true
	cs.do(func() {
		if cs.perSource > 0 && cs.sources[c.source] >= cs.perSource {
			cs.countClosed(closeForSource)
			admitted = false
			return
		}
		cs.sources[c.source]++
		cs.open++
		c.memory.Add(connectionBytes)
		c.overLimit = !cs.makeRoom(time.Now())
		if c.overLimit {
			if cs.over.Len() >= maxOverLimit {
				cs.evict(cs.over.Front().Value.(*connection), closeForNew)
			}
			c.memory.Release() // maxOverLimit bounds them
			c.join(&cs.over)
			return
		}
		c.join(&cs.unknown)
	})
	if !admitted {
		return nil
	}
	return c
}

// makeRoom closes a connection if there are too many, or if the unknown ones have too many bytes.
// It reports whether there is room. The caller holds the lock.
func (cs *connections) makeRoom(now time.Time) bool {
	for cs.memory.Excess(budgetUnknown) > 0 {
		victim := cs.oldestUnknown(now)
		if victim == nil {
			return false
		}
		cs.evict(victim, closeForMemory)
	}
	if cs.open-cs.over.Len() <= cs.limit {
		return true
	}
	// An unknown connection gets some time for its first request. Then it goes before those whose
	// callers are known.
	oldest := cs.oldestUnknown(now)
	switch {
	case oldest != nil && (now.Sub(oldest.opened) > reviewTime || cs.idle.Len() == 0):
		cs.evict(oldest, closeForNew)
	case cs.idle.Len() > 0:
		cs.evict(cs.idle.Front().Value.(*connection), closeForNew)
	default:
		return false
	}
	return true
}

// oldestUnknown returns the oldest unknown connection that may be closed for others, or nil. The
// caller holds the lock.
func (cs *connections) oldestUnknown(now time.Time) *connection {
	for e := cs.unknown.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*connection); !c.underReview(now) {
			return c
		}
	}
	return nil
}

// slowestHead returns the oldest unknown connection with a head that has been coming for some time,
// or nil. The caller holds the lock.
func (cs *connections) slowestHead(now time.Time) *connection {
	for _, l := range []*list.List{&cs.over, &cs.unknown} {
		for e := l.Front(); e != nil; e = e.Next() {
			if c := e.Value.(*connection); c.head > 0 && now.Sub(c.headSince) > headTime {
				return c
			}
		}
	}
	return nil
}

// busiestUnknown returns the unknown connection with the most requests, of several the oldest. The
// caller holds the lock.
func (cs *connections) busiestUnknown() (busiest *connection) {
	for _, l := range []*list.List{&cs.over, &cs.unknown} {
		for e := l.Front(); e != nil; e = e.Next() {
			if c := e.Value.(*connection); busiest == nil || c.counted > busiest.counted {
				busiest = c
			}
		}
	}
	return busiest
}

// evict removes a connection, which do closes. The caller holds the lock.
func (cs *connections) evict(c *connection, why closeReason) {
	if c.closed {
		return
	}
	cs.countClosed(why)
	cs.remove(c)
	cs.victims = append(cs.victims, c)
}

func (cs *connections) countClosed(why closeReason) {
	cs.rejected.Add(1)
	cs.closed[why].Add(1)
}

// remove removes a connection from the counts. The caller holds the lock.
func (cs *connections) remove(c *connection) {
	if c.closed {
		return
	}
	c.closed = true
	cs.open--
	if cs.sources[c.source]--; cs.sources[c.source] == 0 {
		delete(cs.sources, c.source)
	}
	c.leave()
	c.leaveUnread()
	c.memory.Release()
	c.heads.Release()
	// Its requests remain until their handlers have noticed.
	c.responses.Add(int64(c.handlers-c.counted) * streamBytes)
	c.counted = c.handlers
}

// do calls f with the lock, and then closes the connections that f has evicted.
func (cs *connections) do(f func()) {
	cs.mu.Lock()
	f()
	victims := cs.victims
	cs.victims = nil
	cs.mu.Unlock()
	for _, c := range victims {
		_ = c.Conn.Close()
	}
}

// onStateChange implements http.Server.ConnState.
func (cs *connections) onStateChange(conn net.Conn, state http.ConnState) {
	if hc, ok := conn.(*http2Connection); ok && state == http.StateIdle {
		hc.onIdle()
	}
	c := connectionOf(conn)
	if c == nil {
		return
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	switch {
	case c.closed:
	case state == http.StateActive:
		c.quiet = false
		if c.in == &cs.idle {
			c.leave()
		}
	case state == http.StateIdle && !c.quiet:
		c.quiet = true
		if c.accepted && c.in == nil {
			c.join(&cs.idle)
		}
	}
}

// connectionOf returns the *connection below a server's connection, or nil.
func connectionOf(conn net.Conn) *connection {
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
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

// unknownCount returns the number of open connections without an accepted credential.
func (cs *connections) unknownCount() int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.unknown.Len() + cs.over.Len()
}

// connectionKey is the context key of a request's *connection.
type connectionKey struct{}

// connContext implements http.Server.ConnContext.
func (cs *connections) connContext(ctx context.Context, conn net.Conn) context.Context {
	c := connectionOf(conn)
	if c == nil {
		return ctx
	}
	return c.buffer.withContext(context.WithValue(ctx, connectionKey{}, c))
}

// connectionOfRequest returns the connection of a request, or nil if it did not come by a listener
// of ours. A nil connection does nothing.
func connectionOfRequest(r *http.Request) *connection {
	c, _ := r.Context().Value(connectionKey{}).(*connection)
	return c
}

// isOverLimit reports whether a request came by a connection above the limit. It gets 429, and its
// connection is closed.
func isOverLimit(r *http.Request) bool {
	c := connectionOfRequest(r)
	return c != nil && c.overLimit
}

var (
	// errHeads is the 429 of a request for whose head there is no room.
	errHeads = apierrors.NewTooManyRequests("The heads of requests take all the memory that they may, please try again later.", retryAfterSeconds)
	// errTooManyUnknown is the 429 of a request on an unknown connection with too many requests.
	errTooManyUnknown = apierrors.NewTooManyRequests("Too many requests on a connection without an accepted credential.", retryAfterSeconds)
)

// errHeadTooLarge is returned for a read of a connection on which a head comes for which there is
// no room.
var errHeadTooLarge = errors.New("proxy: no memory for the head of a request")

// wrapSecure returns what the HTTP server gets in place of a connection whose handshake is done. It
// is the connection itself for HTTP/2, which net/http serves by its type; see followHTTP2.
func wrapSecure(conn *tls.Conn) net.Conn {
	c := connectionOf(conn)
	if c == nil {
		return conn
	}
	state, raw := conn.ConnectionState(), 0
	for _, certificate := range state.PeerCertificates {
		raw += len(certificate.Raw)
	}
	c.holdCertificates(raw)
	if state.NegotiatedProtocol == "h2" {
		return conn
	}
	return &http1Connection{Conn: conn, connection: c}
}
