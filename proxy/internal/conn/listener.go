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

// Listener is a net.Listener that bounds its open connections: their number, their number per
// source address, and the memory of unknown connections, whose clients have no accepted credential.
// If a source address has too many connections, the Listener refuses its new ones. If a new
// connection exceeds another bound, the Listener closes an old connection instead (see makeRoom).
// If it finds none to close, it accepts up to maxOverLimit more connections, so that health checks
// still work. The requests of these connections get 429 (see OverLimit). When there are
// maxOverLimit of them, the Listener closes the oldest for each new one. Listener is safe for
// concurrent use.
type Listener struct {
	net.Listener
	limit     int
	perSource int // 0: no bound
	// memory counts the bytes of unknown connections. streams counts the bytes of requests (see
	// Conn.count).
	memory, streams *budget.Budget
	heads           Heads // also counts heads that are being received

	mu      sync.Mutex
	open    int
	unknown list.List // of *Conn, oldest first
	over    list.List // connections above the limit, oldest first
	idle    list.List // accepted connections without a request, longest idle first
	// unread contains the accepted connections with unread responses. The one that has made no
	// progress for the longest time is first.
	unread  list.List
	sources map[string]int // number of connections by source address; no more entries than connections
	victims []*Conn        // the method do closes them after it has released the lock

	// closed counts the connections that the listener has closed, by reason.
	closed [closeReasons]atomic.Uint64
}

// closeReason is the reason why the Listener has closed a connection.
type closeReason int

const (
	closeForNew    closeReason = iota // too many connections
	closeForSource                    // too many of its source address
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
	// ConnectionBytes is an estimate of the memory of a connection, without the kernel's buffers.
	ConnectionBytes = 64 << 10
	// maxOverLimit is how many connections above the limit the proxy accepts to answer them with 429.
	maxOverLimit = 64
	// unknownConnectionBytes bounds the memory of all unknown connections. At ConnectionBytes each,
	// there may be 1,536 such connections.
	unknownConnectionBytes = 96 << 20
	// reviewTime is how long a token review protects an unknown connection: for this time, the
	// connection is not closed to make room for another one.
	reviewTime = 5 * time.Second
)

// These are the levels of the budgets, which have separate bounds: clients without an accepted
// credential, and all other clients.
const (
	unknown = iota
	known
)

// NewListener returns a Listener for up to limit connections. Each source address may have
// perSource connections; 0: any number.
func NewListener(l net.Listener, limit, perSource int, heads Heads) *Listener {
	return &Listener{
		Listener: l, limit: limit, perSource: perSource, sources: map[string]int{}, heads: heads,
		memory:  budget.New(unknownConnectionBytes, budget.Level{Name: "unknown"}),
		streams: budget.New(streamMemory, budget.Level{Name: "unknown", Reserved: unknownStreamMemory, Most: unknownStreamMemory}, budget.Level{Name: "known"}),
	}
}

// Accept blocks until it can return an admitted connection. It closes connections that are not
// admitted.
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

// admit adds conn to the connections of the listener. It returns nil if the source address of conn
// has too many connections.
func (cs *Listener) admit(conn net.Conn) *Conn {
	c := &Conn{
		Conn: conn, listener: cs, source: Source(conn.RemoteAddr().String()), buffer: writeBuffer{conn: conn}, opened: time.Now(),
		memory: cs.memory.NewCharge(unknown, ""), responses: cs.streams.NewCharge(unknown, ""), heads: cs.heads.NewCharge(unknown, ""),
	}
	cs.do(func() {
		if cs.perSource > 0 && cs.sources[c.source] >= cs.perSource {
			cs.closed[closeForSource].Add(1)
			c = nil
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
			c.memory.Release() // maxOverLimit bounds the memory of these connections
			c.join(&cs.over)
			return
		}
		c.join(&cs.unknown)
	})
	return c
}

// makeRoom closes connections if there are too many, or if the unknown ones use too much memory. It
// returns false if it finds no connection to close. The caller holds the lock.
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
	// An unknown connection has reviewTime to send its first request. After that it is closed before
	// an idle connection of a known caller.
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

// oldestUnknown returns the oldest unknown connection that may be closed to make room for another
// connection, or nil. The caller holds the lock.
func (cs *Listener) oldestUnknown(now time.Time) *Conn {
	for e := cs.unknown.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*Conn); !c.underReview(now) {
			return c
		}
	}
	return nil
}

// slowestHead returns the oldest unknown connection that has been receiving a large head for longer
// than headTime, or nil. Connections above the limit are examined first. The caller holds the lock.
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

// busiestUnknown returns the unknown connection with the most requests, or nil if there is no
// unknown connection. The caller holds the lock.
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

// evict removes connection c from the listener. The method do closes c after it has released the
// lock. The caller holds the lock.
func (cs *Listener) evict(c *Conn, why closeReason) {
	if c.closed {
		return
	}
	cs.closed[why].Add(1)
	cs.remove(c)
	cs.victims = append(cs.victims, c)
}

// remove removes connection c from all lists and counts. The caller holds the lock.
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
	c.count() // from now on the budget counts the running requests of c, until their handlers return
}

// do calls f with the lock held, and then closes the connections that f has evicted.
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

// Bind configures an HTTP server to report its connections' states to cs, and to put each
// connection into the contexts of its requests.
func (cs *Listener) Bind(server *http.Server) {
	server.ConnState, server.ConnContext = cs.onStateChange, cs.connContext
}

// onStateChange implements http.Server.ConnState.
func (cs *Listener) onStateChange(conn net.Conn, state http.ConnState) {
	if hc, ok := conn.(*http2Conn); ok && state == http.StateIdle {
		hc.onIdle()
	}
	c := connOf(conn)
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

// connOf returns the *Conn below a connection of an HTTP server. There is one, because all
// connections come from a Listener.
func connOf(conn net.Conn) *Conn {
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secure.NetConn()
	}
	return conn.(*Conn)
}

// Count returns the number of open connections.
func (cs *Listener) Count() int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.open
}

// unknownCount returns the number of open connections without an accepted credential, including
// those above the limit.
func (cs *Listener) unknownCount() int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.unknown.Len() + cs.over.Len()
}

// Source returns the source of a client from its address and port. The source is its IPv4 address,
// or the first 64 bits of its IPv6 address, because one host may have all addresses with these
// bits. Clients behind one address are one source.
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

// connKey is the context key of a request's *Conn.
type connKey struct{}

// connContext implements http.Server.ConnContext.
func (cs *Listener) connContext(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, connOf(conn))
}

// Of returns the connection of a request, or nil if no Listener has accepted it. The methods of a
// nil Conn that handlers call do nothing.
func Of(r *http.Request) *Conn {
	c, _ := r.Context().Value(connKey{}).(*Conn)
	return c
}

// errHeadTooLarge is the error of a read from a connection that is receiving a head for which there
// is no room.
var errHeadTooLarge = errors.New("proxy: the memory for the heads of requests is used up")

// wrapSecure returns the connection that the HTTP server gets after a handshake. For HTTP/2 it
// returns conn itself, because net/http selects HTTP/2 by the type *tls.Conn (see followHTTP2).
func wrapSecure(conn *tls.Conn) net.Conn {
	c, state, raw := connOf(conn), conn.ConnectionState(), 0
	for _, certificate := range state.PeerCertificates {
		raw += len(certificate.Raw)
	}
	c.holdCertificates(raw)
	if state.NegotiatedProtocol == "h2" {
		return conn
	}
	return &http1Conn{Conn: conn, client: c}
}

// Metrics reports the metrics of the listener by calls of gauge and counter. In labels, names and
// values alternate.
func (cs *Listener) Metrics(gauge, counter func(name, help string, value float64, labels ...string)) {
	gauge("weir_proxy_connections", "Open connections of clients.", float64(cs.Count()))
	gauge("weir_proxy_connections_unknown", "Open connections without an accepted credential.", float64(cs.unknownCount()))
	refused := uint64(0)
	for why := range closeReasons {
		counter("weir_proxy_connections_closed_total", "Connections that the proxy closed to admit others, or because their client exceeded a limit.",
			float64(cs.closed[why].Load()), "for", why.String())
		refused += cs.closed[why].Load()
	}
	counter("weir_proxy_connections_refused_total", "Connections that the proxy closed because too many were open.", float64(refused))
	for name, b := range map[string]*budget.Budget{"heads": cs.heads.Budget, "connections": cs.memory, "streams": cs.streams} {
		gauge("weir_proxy_budget_limit_bytes", "The limit of a budget.", float64(b.Limit()), "budget", name)
		for _, u := range b.Usage() {
			gauge("weir_proxy_budget_bytes",
				"The memory that counts against a budget: request heads, connections without an accepted credential, or streams whose responses were not read.",
				float64(u.Used), "budget", name, "level", u.Level)
			counter("weir_proxy_budget_refused_total", "Requests that the proxy refused because a budget was used up.",
				float64(u.Refused), "budget", name, "level", u.Level)
		}
	}
}
