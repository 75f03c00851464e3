package conn

import (
	"fmt"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
)

// plain is an HTTP/1.1 request.
var plain = &http.Request{ProtoMajor: 1}

// endpoint is a connection that records whether it was closed.
type endpoint struct {
	net.Conn
	host   string
	closed bool
}

func (e *endpoint) Close() error         { e.closed = true; return nil }
func (e *endpoint) RemoteAddr() net.Addr { return address(e.host) }

type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return net.JoinHostPort(string(a), "1") }

// testListener admits fake connections.
type testListener struct {
	*Listener
	t *testing.T
}

func (tc testListener) open(host string) *Conn {
	tc.t.Helper()
	c := tc.admit(&endpoint{host: host})
	if c == nil {
		tc.t.Fatal("a connection was not admitted")
	}
	return c
}

// known returns an accepted connection with a running request.
func (tc testListener) known() *Conn {
	tc.t.Helper()
	c := tc.open("10.0.0.1")
	tc.onStateChange(c, http.StateActive)
	c.Begin(plain)
	c.Accept()
	return c
}

func (tc testListener) check(what string, open, unknown int) {
	tc.t.Helper()
	if tc.Count() != open || tc.unknownCount() != unknown {
		tc.t.Errorf("%s: %d open, %d unknown, want %d and %d", what, tc.Count(), tc.unknownCount(), open, unknown)
	}
}

func newTestListener(t *testing.T, limit int) testListener {
	return testListener{NewListener(nil, limit, 0, NewHeads()), t}
}

func isClosed(c *Conn) bool { return c.Conn.(*endpoint).closed }

// TestConnections opens more connections than the limit while all admitted ones are in use. It
// checks that a new connection, which a health check may need, is always accepted. Only the oldest
// connections above the limit are closed, or a connection that is idle.
func TestConnections(t *testing.T) {
	tc := newTestListener(t, 2)
	busy := []*Conn{tc.known(), tc.known()}
	var over []*Conn
	for n := range maxOverLimit + 10 {
		c := tc.open("10.0.0.2")
		if !c.overLimit {
			t.Fatalf("%d is not above the limit", n)
		}
		over = append(over, c)
	}
	tc.check("above the limit", 2+maxOverLimit, maxOverLimit)
	for n, c := range over {
		check.Equal(t, isClosed(c), (n < 10), "%d of those above the limit: closed", n)
	}
	if isClosed(busy[0]) || isClosed(busy[1]) {
		t.Error("a connection with a request was closed")
	}
	busy[1].End()
	tc.onStateChange(busy[1], http.StateIdle)
	if c := tc.open("10.0.0.2"); c.overLimit || !isClosed(busy[1]) {
		t.Error("the idle connection did not make room")
	}
	busy[0].End()
	for _, c := range append(over, busy...) {
		_ = c.Close()
		_ = c.Close()
		tc.onStateChange(c, http.StateIdle)
		c.Accept()
	}
	tc.check("after they were closed", 1, 1)
	if u := tc.streams.Usage(); u[unknown].Used != 0 || u[known].Used != 0 {
		t.Errorf("%+v", u)
	}
}

// TestUnknownBeforeKnown opens a connection above the limit. It checks that an unknown connection
// is closed before an idle connection of a known client. The unknown connection must have had
// reviewTime for a request, and must not be under review.
func TestUnknownBeforeKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := newTestListener(t, 3)
		idle := tc.known()
		idle.End()
		tc.onStateChange(idle, http.StateIdle)
		unknown := []*Conn{tc.open("a"), tc.open("b")}
		time.Sleep(reviewTime + time.Second)
		tc.open("c")
		if !isClosed(unknown[0]) || isClosed(idle) {
			t.Error("an idle connection of a known client was closed for an unknown one")
		}
		unknown[1].Begin(plain)
		unknown[1].BeginReview()
		tc.open("d")
		if isClosed(unknown[1]) || !isClosed(idle) {
			t.Error("an unknown connection was closed during its review")
		}
	})
}

// TestUnknownMemory opens more unknown connections than their memory allows. It checks that the
// oldest one that is not under review is closed. A review that takes longer than reviewTime does
// not protect a connection.
func TestUnknownMemory(t *testing.T) {
	const most = unknownConnectionBytes / ConnectionBytes
	synctest.Test(t, func(t *testing.T) {
		tc := newTestListener(t, 100_000)
		var all []*Conn
		for range most {
			all = append(all, tc.open("a"))
		}
		all[0].BeginReview()
		time.Sleep(reviewTime - time.Second)
		all[1].BeginReview()
		all[2].Begin(plain)
		all = append(all, tc.open("b"))
		if isClosed(all[0]) || isClosed(all[1]) || !isClosed(all[2]) {
			t.Error("not the oldest one without a request was closed")
		}
		time.Sleep(time.Second)
		all = append(all, tc.open("b"))
		if !isClosed(all[0]) || isClosed(all[1]) {
			t.Error("a connection whose review takes too long was kept")
		}
		all[1].Accept()
		all = append(all, tc.open("b"))
		tc.check("after one was accepted", most+1, most)
		for _, c := range all {
			c.BeginReview()
		}
		// No connection under review is closed, and a health check can still connect.
		if c := tc.open("c"); !c.overLimit {
			t.Error("a connection under review was closed")
		}
		check.Equal(t, tc.memory.Usage()[unknown].Used, unknownConnectionBytes, "bytes")
	})
}

// TestUnderReview checks that a connection is under review from BeginReview to EndReview.
func TestUnderReview(t *testing.T) {
	c := newTestListener(t, 10).open("a")
	c.BeginReview()
	if !c.underReview(time.Now()) {
		t.Error("not under review")
	}
	if c.EndReview(); c.underReview(time.Now()) || c.reviews != 0 {
		t.Error("under review without a seat")
	}
}

// TestConnectionsPerSource checks that one source address cannot have more open connections than
// the limit per source.
func TestConnectionsPerSource(t *testing.T) {
	tc := testListener{NewListener(nil, 10, 2, NewHeads()), t}
	first := tc.open("a")
	tc.open("a")
	tc.open("b")
	if tc.admit(&endpoint{host: "a"}) != nil {
		t.Error("a third connection of one source")
	}
	check.Equal(t, tc.closed[closeForSource].Load(), 1, "it was not counted")
	_ = first.Close()
	tc.open("a")
	tc.check("in the end", 3, 3)
}

// TestUnknownRequests has unknown clients send requests and read no response. It checks that the
// oldest of the connections with the most requests is closed. A connection with a single request is
// not closed.
func TestUnknownRequests(t *testing.T) {
	tc := newTestListener(t, 100_000)
	one := tc.open("a")
	one.openStream()
	one.Begin(plain)
	var many []*Conn
	for range unknownStreamMemory/streamBytes/50 + 1 {
		c := tc.open("b")
		many = append(many, c)
		for range 50 + 1 {
			c.openStream()
			if !c.Begin(plain) {
				t.Fatal("a request is one too many")
			}
			c.End()
		}
	}
	if !isClosed(many[0]) || isClosed(one) || isClosed(many[1]) {
		t.Error("not the oldest with the most requests was closed")
	}
	if got := tc.streams.Usage()[unknown].Used; got > unknownStreamMemory {
		t.Errorf("%d bytes", got)
	}
}

// TestSingleRequests opens almost as many unknown connections as are allowed, each with one
// request, and accepted connections whose clients read nothing. It checks that another unknown
// client with several requests keeps its connection.
func TestSingleRequests(t *testing.T) {
	tc := newTestListener(t, 100_000)
	for range unknownConnectionBytes/ConnectionBytes - 10 {
		c := tc.open("a")
		c.openStream()
		c.Begin(plain)
	}
	for range streamMemory/streamBytes/maxStreams + 1 {
		c := tc.known()
		c.End()
		for range maxStreams {
			c.openStream()
		}
	}
	for range 10 {
		several := tc.open("b")
		for range maxUnknownStreams {
			several.openStream()
			several.Begin(plain)
		}
		if isClosed(several) {
			t.Fatal("a client with several requests was closed for others")
		}
	}
}

// TestRequestsOfClosed checks that the requests of closed connections count until their handlers
// return. Until then, an unknown connection can open only one stream.
func TestRequestsOfClosed(t *testing.T) {
	const each = 50
	tc := newTestListener(t, 100_000)
	var many []*Conn
	for range unknownStreamMemory/streamBytes/each + 1 {
		c := tc.open("b")
		many = append(many, c)
		for range each + 1 {
			if c.openStream() {
				c.Begin(plain)
			}
		}
	}
	if !isClosed(many[0]) || tc.streams.Usage()[unknown].Used < unknownStreamMemory-streamBytes*each {
		t.Fatal("the requests of a closed connection do not count")
	}
	next := tc.open("a")
	if !next.openStream() || next.openStream() || !isClosed(next) {
		t.Error("not only the first stream of a connection is let in")
	}
	if many[0].Begin(plain) {
		t.Error("a request of a closed connection begins")
	}
	many[0].End()
	for _, c := range many {
		for c.handlers > 0 {
			c.End()
		}
		_ = c.Close()
	}
	next = tc.open("a")
	if first, second := next.openStream(), next.openStream(); !first || !second {
		t.Error("the second stream of a connection is not let in")
	}
}

// TestUnreadResponses has known clients read nothing until their responses use too much memory. It
// checks that the first connection to be closed is the one whose client has read nothing for the
// longest time.
func TestUnreadResponses(t *testing.T) {
	tc := newTestListener(t, 100_000)
	unread := func() *Conn {
		c := tc.known()
		c.End()
		for range maxStreams {
			c.openStream()
			c.Begin(plain)
			c.End()
		}
		return c
	}
	var all []*Conn
	for range (streamMemory-unknownStreamMemory)/streamBytes/maxStreams - 1 {
		all = append(all, unread())
	}
	all[0].endStreams(false, 1) // the client of all[0] reads a response
	all = append(all, unread(), unread())
	for n, c := range all {
		check.Equal(t, isClosed(c), (n == 1), "%d: closed", n)
	}
	for _, c := range all {
		c.endStreams(false, make([]uint32, c.streams)...)
	}
	if got := tc.streams.Usage()[known].Used; got != 0 || tc.unread.Len() != 0 {
		t.Errorf("%d bytes of %d connections remain", got, tc.unread.Len())
	}
}

// TestTooManyRequestsOfUnknown checks that the number of requests on a connection is bounded until
// a credential is accepted. A client that opens far more streams must lose its connection.
func TestTooManyRequestsOfUnknown(t *testing.T) {
	tc := newTestListener(t, 10)
	c := tc.open("a")
	for n := range maxUnknownStreams + 1 {
		c.openStream()
		check.Equal(t, c.Begin(plain), (n < maxUnknownStreams), "request %d", n)
	}
	c.Accept()
	if !c.Begin(plain) {
		t.Error("a known client has too many")
	}
	ignorant := tc.open("a")
	for range 2*maxUnknownStreams + 1 {
		ignorant.openStream()
	}
	if !isClosed(ignorant) {
		t.Error("a client that ignores all bounds keeps its connection")
	}
}

// TestUnknownResets checks that an unknown client that resets too many streams loses its
// connection. A known client, and a client whose streams end with responses, must keep theirs.
func TestUnknownResets(t *testing.T) {
	tc := newTestListener(t, 10)
	for name, c := range map[string]struct {
		c      *Conn
		reset  bool
		closed bool
	}{
		"resets":        {tc.open("a"), true, true},
		"responses":     {tc.open("a"), false, false},
		"a known one's": {tc.known(), true, false},
	} {
		for range maxUnknownResets + 1 {
			c.c.openStream()
			c.c.endStreams(c.reset, 1)
		}
		check.Equal(t, isClosed(c.c), c.closed, "%s: closed", name)
	}
}

func TestConnectionCloseReasons(t *testing.T) {
	seen := map[string]bool{}
	for r := range closeReasons {
		if seen[fmt.Sprint(r)] = true; fmt.Sprint(r) == "" {
			t.Errorf("reason %d has no name", r)
		}
	}
	if len(seen) != int(closeReasons) {
		t.Errorf("%v", seen)
	}
}

// TestSource checks that the source of an IPv6 address is its first 64 bits, without a zone. An
// IPv4 address that is mapped to IPv6 has the source of the IPv4 address. Text that is not an
// address with a port is its own source.
func TestSource(t *testing.T) {
	for from, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1", "[::ffff:192.0.2.1]:80": "192.0.2.1", "[2001:db8:1:2:3::4]:80": "2001:db8:1:2::", "[fe80::1%eth0]:80": "fe80::", "pipe": "pipe",
	} {
		check.Equal(t, Source(from), want, "%s", from)
	}
}
