package conn

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/internal/serve/budget"
)

// Listener is a listener that bounds its open connections: their number, that of each source,
// and the memory of those whose client has no accepted credential, which are unknown. For a new
// connection it closes another one, see makeRoom. If it finds none, it accepts maxOverLimit more,
// whose requests get 429 (see OverLimit), so that probes still work, and closes the oldest of
// these for further ones. It is safe for concurrent use.
type Listener struct {
	net.Listener
	limit     int
	perSource int // 0: no bound
	// memory has the bytes of unknown connections, and streams those of requests, see
	// connection.count.
	memory, streams *budget.Budget
	heads           Heads // also those that are being received

	mu      sync.Mutex
	open    int
	unknown list.List      // of *Conn, oldest first
	over    list.List      // those above the limit, oldest first
	idle    list.List      // those with an accepted credential and no request, longest idle first
	unread  list.List      // those with an accepted credential and unread responses, by last progress
	sources map[string]int // by address; no more entries than connections
	victims []*Conn        // to be closed once the lock is released

	closed [closeReasons]atomic.Uint64 // connections closed for others, or immediately
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
	// ConnectionBytes estimates the memory of a connection, without the kernel's.
	ConnectionBytes = 64 << 10
	// maxOverLimit is how many connections above the limit are accepted, to answer 429.
	maxOverLimit = 64
	// unknownConnectionBytes bounds the memory of all unknown connections, by ConnectionBytes each:
	// 1,536 of them.
	unknownConnectionBytes = 96 << 20
	// reviewTime is how long an unknown connection is not closed for others while a token of its
	// caller may be under review.
	reviewTime = 5 * time.Second
)

// Levels of the budgets, for a client without an accepted credential and for all others.
const (
	unknown = iota
	known
)

// NewListener returns the listener. Each source may have PerSource connections; 0: any number.
func NewListener(l net.Listener, limit, perSource int, heads Heads) *Listener {
	return &Listener{
		Listener: l, limit: limit, perSource: perSource, sources: map[string]int{}, heads: heads,
		memory:  budget.New(unknownConnectionBytes, budget.Level{Name: "unknown"}),
		streams: budget.New(streamMemory, budget.Level{Name: "unknown", Reserved: unknownStreamMemory, Most: unknownStreamMemory}, budget.Level{Name: "known"}),
	}
}

// Accept blocks until a connection is admitted.
func (cs *Listener) Accept() (net.Conn, error) {
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
func (cs *Listener) admit(conn net.Conn) *Conn {
	c := &Conn{
		Conn: conn, listener: cs, source: Source(conn.RemoteAddr().String()), buffer: writeBuffer{conn: conn},
		memory: cs.memory.NewCharge(unknown, ""), responses: cs.streams.NewCharge(unknown, ""), heads: cs.heads.NewCharge(unknown, ""),
	}
	admitted := true
	cs.do(func() {
		if cs.perSource > 0 && cs.sources[c.source] >= cs.perSource {
			cs.closed[closeForSource].Add(1)
			admitted = false
			return
		}
		cs.sources[c.source]++
		cs.open++
		c.memory.Add(ConnectionBytes)
		c.overLimit = !cs.makeRoom(time.Now())
		if c.overLimit {
			if cs.over.Len() >= maxOverLimit {
				cs.evict(cs.over.Front().Value.(*Conn), closeForNew)
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
func (cs *Listener) makeRoom(now time.Time) bool {
	for cs.memory.Excess(unknown) > 0 {
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
		cs.evict(cs.idle.Front().Value.(*Conn), closeForNew)
	default:
		return false
	}
	return true
}

// oldestUnknown returns the oldest unknown connection that may be closed for others, or nil. The
// caller holds the lock.
func (cs *Listener) oldestUnknown(now time.Time) *Conn {
	for e := cs.unknown.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*Conn); !c.underReview(now) {
			return c
		}
	}
	return nil
}

// slowestHead returns the oldest unknown connection with a head that has been coming for some time,
// or nil. The caller holds the lock.
func (cs *Listener) slowestHead(now time.Time) *Conn {
	for _, l := range []*list.List{&cs.over, &cs.unknown} {
		for e := l.Front(); e != nil; e = e.Next() {
			if c := e.Value.(*Conn); c.head > 0 && now.Sub(c.headSince) > headTime {
				return c
			}
		}
	}
	return nil
}

// busiestUnknown returns the unknown connection with the most requests, of several the oldest. The
// caller holds the lock.
func (cs *Listener) busiestUnknown() (busiest *Conn) {
	for _, l := range []*list.List{&cs.over, &cs.unknown} {
		for e := l.Front(); e != nil; e = e.Next() {
			if c := e.Value.(*Conn); busiest == nil || c.counted > busiest.counted {
				busiest = c
			}
		}
	}
	return busiest
}

// evict removes a connection, which do closes. The caller holds the lock.
func (cs *Listener) evict(c *Conn, why closeReason) {
	if c.closed {
		return
	}
	cs.closed[why].Add(1)
	cs.remove(c)
	cs.victims = append(cs.victims, c)
}

// remove removes a connection from the counts. The caller holds the lock.
func (cs *Listener) remove(c *Conn) {
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
func (cs *Listener) do(f func()) {
	cs.mu.Lock()
	f()
	victims := cs.victims
	cs.victims = nil
	cs.mu.Unlock()
	for _, c := range victims {
		_ = c.Conn.Close()
	}
}

// Bind has an HTTP server report the states of the listener's connections, and add each to the
// contexts of its requests.
func (cs *Listener) Bind(server *http.Server) {
	server.ConnState, server.ConnContext = cs.onStateChange, cs.connContext
}

// onStateChange implements http.Server.ConnState.
func (cs *Listener) onStateChange(conn net.Conn, state http.ConnState) {
	if hc, ok := conn.(*http2Conn); ok && state == http.StateIdle {
		hc.onIdle()
	}
	c := connOf(conn)
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

// connOf returns the *Conn below a server's connection, or nil.
func connOf(conn net.Conn) *Conn {
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secure.NetConn()
	}
	c, _ := conn.(*Conn)
	return c
}

// Count returns the number of open connections.
func (cs *Listener) Count() int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.open
}

// unknownCount returns the number of open connections without an accepted credential.
func (cs *Listener) unknownCount() int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.unknown.Len() + cs.over.Len()
}

// Source returns the source of a client with an address: the address without its port, or,
// since one host may have all of them, the first 64 bits of an address of IPv6. Clients behind one
// address are one source.
func Source(address string) string {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return address
	}
	addr := at.Addr().Unmap()
	if addr.Is6() {
		network, _ := addr.WithZone("").Prefix(64) // cannot fail
		addr = network.Addr()
	}
	return addr.String()
}

// connKey is the context key of a request's *connection.
type connKey struct{}

// connContext implements http.Server.ConnContext.
func (cs *Listener) connContext(ctx context.Context, conn net.Conn) context.Context {
	c := connOf(conn)
	if c == nil {
		return ctx
	}
	return context.WithValue(ctx, connKey{}, c)
}

// Of returns the connection of a request, or nil if no Listener has accepted it. A nil Conn does
// nothing.
func Of(r *http.Request) *Conn {
	c, _ := r.Context().Value(connKey{}).(*Conn)
	return c
}

// errHeadTooLarge is returned for a read of a connection on which a head comes for which there is
// no room.
var errHeadTooLarge = errors.New("proxy: no memory for the head of a request")

// wrapSecure returns what the HTTP server gets in place of a connection whose handshake is done. It
// is the connection itself for HTTP/2, which net/http serves by its type; see followHTTP2.
func wrapSecure(conn *tls.Conn) net.Conn {
	c := connOf(conn)
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
	return &http1Conn{Conn: conn, client: c}
}
