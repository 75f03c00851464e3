package proxy

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/proxy/internal/conn"
	"github.com/weirproject/weir/proxy/internal/seats"
)

// frameClient is an HTTP/2 client that sends and receives single frames.
type frameClient struct {
	*rawConn
	framer *http2.Framer
	stream uint32 // stream of the last request
	// invalid makes send add a field that the HTTP server refuses.
	invalid bool
}

// http2 starts HTTP/2 on the connection.
func (c *rawConn) http2(settings ...http2.Setting) *frameClient {
	c.t.Helper()
	fmt.Fprint(c, http2.ClientPreface)
	u := &frameClient{rawConn: c, framer: http2.NewFramer(c, c.in)}
	u.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	check.NoError(c.t, u.framer.WriteSettings(settings...))
	return u
}

// dialUnread connects an HTTP/2 client that reads no byte of response bodies.
func (tp *testProxy) dialUnread() *frameClient {
	tp.t.Helper()
	return tp.dial("h2").http2(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
}

// request sends a GET of each path, with a token if token is not empty. When it has received the
// heads of all responses, it returns the number of responses with each code.
func (u *frameClient) request(token string, paths ...string) (codes map[string]int) {
	u.t.Helper()
	if token != "" {
		token = "token-" + token
	}
	for _, path := range paths {
		u.send(path, token, 0, true)
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

// TestUnreadRefusals checks requests without a credential whose client does not read the proxy's
// refusals. These requests must not count as requests or WATCHes in progress meanwhile. A request
// with a token that the proxy does not know yet must still be served.
func TestUnreadRefusals(t *testing.T) {
	const seats = 20
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}, MaxRequests: seats, MaxLongRunning: seats, MaxWatchesPerUser: seats, timeouts: impatient()})
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
	for range 2 * seats { // the proxy closes each connection after its first response
		tp.dialUnread().request("", "/api/v1/reviews")
		tp.dialUnread().request("", "/api/v1/reviews?watch=true")
	}
	check.Equal(t, inUse(tp.server.seats.Reads), 0, "seats are taken")
	check.Equal(t, tp.server.seats.Watches.Count(), 0, "slots are taken")
	tp.want(http.StatusOK, "jane", "/api/v1/pods?resourceVersion=0")
	tp.next(tp.watch("john", "/api/v1/pods?watch=true&resourceVersion=0"), "ADDED")
}

// TestReviewedConnections checks that a connection counts as under review while a request with a
// token that the proxy does not know yet is in progress.
func TestReviewedConnections(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	l, server := conn.NewListener(tcp, 10, 0, conn.NewHeads()), &http.Server{}
	defer l.Close()
	l.Bind(server)
	client, err := net.Dial("tcp", tcp.Addr().String())
	check.NoError(t, err)
	defer client.Close()
	c, err := l.Accept()
	check.NoError(t, err)
	defer c.Close()
	r := (&http.Request{ProtoMajor: 1}).WithContext(server.ConnContext(t.Context(), c))
	for level, want := range map[seats.Level]bool{seats.NewTokens: true, seats.Anonymous: false} {
		a := &responseWriter{}
		if a.review(r, seats.Flow{Level: level}); (a.reviewed != nil) != want {
			t.Errorf("level %d: %v", level, a.reviewed)
		}
		if a.leave(); a.reviewed != nil {
			t.Errorf("level %d: under review without a seat", level)
		}
	}
}
