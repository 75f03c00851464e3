package proxy

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/proxy/internal/conn"
)

// unreadClient is a client of HTTP/2 that takes no byte of the bodies of responses.
type unreadClient struct {
	*rawConn
	framer *http2.Framer
	stream uint32 // of the last request
	// invalid has send add a field that the HTTP server refuses.
	invalid bool
}

// dialUnread connects a client that reads no bodies.
func (tp *testProxy) dialUnread() *unreadClient {
	tp.t.Helper()
	c := tp.dial("h2")
	fmt.Fprint(c, http2.ClientPreface)
	u := &unreadClient{rawConn: c, framer: http2.NewFramer(c, c.in)}
	u.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if err := u.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
		tp.t.Fatal(err)
	}
	return u
}

// request sends a GET of each path, with a token unless that is empty, and returns the codes of the
// responses when it has the heads of all.
func (u *unreadClient) request(token string, paths ...string) (codes map[string]int) {
	u.t.Helper()
	for _, path := range paths {
		fields := [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "x"}, {":path", path}}
		if token != "" {
			fields = append(fields, [2]string{"authorization", "Bearer token-" + token})
		}
		var head strings.Builder
		enc := hpack.NewEncoder(&head)
		for _, field := range fields {
			if err := enc.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}); err != nil {
				u.t.Fatal(err)
			}
		}
		u.stream += 2
		if err := u.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: u.stream - 1, BlockFragment: []byte(head.String()), EndStream: true, EndHeaders: true}); err != nil {
			u.t.Fatal(err)
		}
	}
	codes = map[string]int{}
	for heads := 0; heads < len(paths); {
		frame, err := u.framer.ReadFrame()
		if err != nil {
			u.t.Fatalf("after %d heads of %d: %v", heads, len(paths), err)
		}
		if head, ok := frame.(*http2.MetaHeadersFrame); ok {
			heads++
			codes[head.PseudoValue("status")]++
		}
	}
	return codes
}

// TestUnreadRefusals: requests without a credential, of which the client reads no refusal, keep no
// seat, and no slot of a WATCH, from a token that the proxy does not know yet.
func TestUnreadRefusals(t *testing.T) {
	u := startUpstream(t, apiserver.Options{Pods: 3})
	const seats = 20
	tp := startProxy(t, u, Options{Resources: []string{"pods"}, MaxRequests: seats, MaxLongRunning: seats, MaxWatchesPerUser: seats, timeouts: impatient()})
	tp.ready()
	u.setFault(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") == "":
			writeStatus(w, http.StatusForbidden)
		case strings.HasSuffix(r.URL.Path, "/tokenreviews"):
			u.review(w, r, u.token)
		default:
			u.review(w, r, u.access)
		}
	})
	for range 2 * seats { // each connection is closed after its first response
		tp.dialUnread().request("", "/api/v1/reviews")
		tp.dialUnread().request("", "/api/v1/reviews?watch=true")
	}
	if n := tp.server.flowControl.readOnly.inUse(); n != 0 {
		t.Errorf("%d seats are taken", n)
	}
	if n := tp.server.flowControl.longRunning.count(); n != 0 {
		t.Errorf("%d slots are taken", n)
	}
	if code, body := tp.get("jane", "/api/v1/pods?resourceVersion=0"); code != http.StatusOK {
		t.Errorf("a LIST with a new token: %d %.200s", code, body)
	}
	tp.next(tp.watch("john", "/api/v1/pods?watch=true&resourceVersion=0"), "ADDED")
}

// flood has flows take and wait for all that they may.
func flood(s *seatPool, ctx context.Context, flows func(i int) flow) {
	for i := range 2 * (s.limit + s.places) {
		sit(s, ctx, flows(i))
	}
}

// TestSeatsOfASource: a token that may take a seat does not wait because another token of its
// source, which has all that it may have, waits.
func TestSeatsOfASource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeatPool(100, time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		of := func(token string) flow { return flow{level: levelNewTokens, caller: "10.0.1.1", token: token} }
		flood(s, ctx, func(int) flow { return of("a") })
		if _, waiting := s.counts(); waiting[levelNewTokens] == 0 {
			t.Fatal("none waits")
		}
		if !has(t, sit(s, ctx, of("b"))) {
			t.Error("another token of the source waits for a seat that is free")
		}
		cancel()
		synctest.Wait()
	})
}

// TestSeatsOfSources: sources that make up tokens, and callers without a credential, leave seats to
// a token of another source, and once they have all, a place and the next seat.
func TestSeatsOfSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeatPool(100, time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		flood(s, ctx, func(i int) flow { return flow{level: levelAnonymous, caller: fmt.Sprint("10.0.0.", i%5)} })
		if taken, waiting := s.counts(); taken[levelAnonymous] > 5 || waiting[levelAnonymous] > 5 {
			t.Errorf("without a credential: %v taken, %v waiting", taken, waiting)
		}
		attack := func(n int) {
			flood(s, ctx, func(i int) flow {
				return flow{level: levelNewTokens, caller: fmt.Sprint("10.0.1.", n), token: fmt.Sprint("made-up ", i)}
			})
		}
		for n := range 4 {
			attack(n)
			if !has(t, sit(s, t.Context(), flow{level: levelNewTokens, caller: fmt.Sprint("10.0.2.", n), token: "jane"})) {
				t.Errorf("%d sources leave no seat", n+1)
			}
		}
		for n := range 4 {
			attack(n)
		}
		modest := sit(s, t.Context(), flow{level: levelNewTokens, caller: "10.0.3.1", token: "jane"})
		s.release(flow{level: levelNewTokens, caller: "10.0.2.0", token: "jane"})
		if !has(t, modest) {
			t.Error("the next seat goes to another source")
		}
		if !has(t, sit(s, t.Context(), flow{level: levelEveryone, caller: "user john"})) {
			t.Error("no seat for a known caller")
		}
		cancel()
		synctest.Wait()
		if _, waiting := s.counts(); waiting != [priorityLevels]int{} {
			t.Errorf("%v wait", waiting)
		}
	})
}

// TestPlacesOfTokens: a token of a source for which many others wait takes the place of one that
// has several.
func TestPlacesOfTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeatPool(1, time.Minute)
		s.setPlaces(10)
		ctx, cancel := context.WithCancel(t.Context())
		greedy := flow{level: levelNewTokens, caller: "a", token: "greedy"}
		flood(s, ctx, func(int) flow { return greedy })
		modest := sit(s, t.Context(), flow{level: levelNewTokens, caller: "a", token: "modest"})
		other := sit(s, t.Context(), flow{level: levelNewTokens, caller: "b", token: "other"})
		if _, waiting := s.counts(); waiting[levelNewTokens] != 10 {
			t.Errorf("%v wait", waiting)
		}
		s.release(greedy)
		if !has(t, other) {
			t.Error("another source waits")
		}
		s.release(flow{level: levelNewTokens, caller: "b", token: "other"})
		s.release(greedy)
		if !has(t, modest) {
			t.Error("another token waits")
		}
		cancel()
	})
}

// TestTurnsOfSources: a free seat goes to the source that has fewest, and of those to the one that
// was served longest ago, however many tokens of another wait; and within one source tokens take
// turns.
func TestTurnsOfSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeatPool(2, time.Minute)
		s.setPlaces(100)
		at := func(source, token string) flow { return flow{level: levelNewTokens, caller: source, token: token} }
		for _, source := range []string{"a", "b"} {
			if !s.acquire(t.Context(), at(source, "first")) {
				t.Fatal("no seat of two")
			}
		}
		var greedy []<-chan bool
		for range 10 {
			greedy = append(greedy, sit(s, t.Context(), at("a", "greedy")))
		}
		modest := sit(s, t.Context(), at("a", "modest"))
		other := sit(s, t.Context(), at("c", "other"))
		s.release(at("a", "first"))
		if !has(t, other) || has(t, greedy[0]) {
			t.Error("the seat goes to the source that has none")
		}
		s.release(at("c", "other"))
		if !has(t, greedy[0]) {
			t.Error("then to the first token")
		}
		again := sit(s, t.Context(), at("c", "other"))
		s.release(at("a", "greedy"))
		if !has(t, again) || has(t, modest) {
			t.Error("then to the source that was served longest ago")
		}
		s.release(at("c", "other"))
		if !has(t, modest) || has(t, greedy[1]) {
			t.Error("then to the next token of the other")
		}
		for range 9 {
			s.release(at("a", map[bool]string{true: "modest", false: "greedy"}[s.flows[at("a", "").withoutToken()].turns["modest"] != nil]))
			synctest.Wait()
		}
		s.release(at("a", "greedy"))
		s.release(at("b", "first"))
		if len(s.flows)+len(s.queued)+s.inUse() != 0 {
			t.Errorf("%d flows are left, %d wait, %d seats", len(s.flows), len(s.queued), s.inUse())
		}
	})
}

// TestSourceOf: one host is one source, by whatever address of its network it comes.
func TestSourceOf(t *testing.T) {
	for from, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1", "[::ffff:192.0.2.1]:80": "192.0.2.1", "[2001:db8:1:2:3::4]:80": "2001:db8:1:2::", "[fe80::1%eth0]:80": "fe80::", "pipe": "pipe",
	} {
		if got := sourceOf(&http.Request{RemoteAddr: from}); got != want {
			t.Errorf("%s: %s", from, got)
		}
	}
}

// TestReviewedConnections: a connection is under review for a token that is not known yet, and as
// long as the request has its seat.
func TestReviewedConnections(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, server := conn.NewListener(tcp, 10, 0, conn.NewHeads()), &http.Server{}
	defer l.Close()
	l.Bind(server)
	client, err := net.Dial("tcp", tcp.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := (&http.Request{ProtoMajor: 1}).WithContext(server.ConnContext(t.Context(), c))
	for level, want := range map[priorityLevel]bool{levelNewTokens: true, levelAnonymous: false} {
		a := &responseWriter{}
		if a.review(r, flow{level: level}); (a.reviewed != nil) != want {
			t.Errorf("level %d: %v", level, a.reviewed)
		}
		if a.leave(); a.reviewed != nil {
			t.Errorf("level %d: under review without a seat", level)
		}
	}
}
