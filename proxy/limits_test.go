package proxy

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// rawConn is a connection on which a test writes the bytes itself.
type rawConn struct {
	net.Conn
	t  *testing.T
	in *bufio.Reader
}

// dial connects with TLS. protocol is http/1.1 or h2. The client may have a certificate.
func (tp *testProxy) dial(protocol string, certificates ...tls.Certificate) *rawConn {
	tp.t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(tp.server.CAData())
	conn, err := tls.Dial("tcp", tp.addr(), &tls.Config{RootCAs: pool, NextProtos: []string{protocol}, Certificates: certificates})
	check.NoError(tp.t, err)
	return tp.raw(conn)
}

// dialPlain opens a TCP connection and sends nothing.
func (tp *testProxy) dialPlain() *rawConn {
	tp.t.Helper()
	conn, err := net.Dial("tcp", tp.addr())
	check.NoError(tp.t, err)
	return tp.raw(conn)
}

func (tp *testProxy) raw(conn net.Conn) *rawConn {
	until, _ := tp.ctx.Deadline()
	_ = conn.SetDeadline(until)
	tp.t.Cleanup(func() { conn.Close() })
	return &rawConn{conn, tp.t, bufio.NewReader(conn)}
}

func (tp *testProxy) addr() string { return strings.TrimPrefix(tp.server.URL(), "https://") }

// send writes the head of a request, and the beginning of its body.
func (c *rawConn) send(method, path string, length int, body string) *rawConn {
	c.t.Helper()
	if _, err := fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer token-jane\r\nContent-Length: %d\r\n\r\n%s", method, path, length, body); err != nil {
		c.t.Fatal(err)
	}
	return c
}

func (c *rawConn) answer() *http.Response {
	c.t.Helper()
	resp, err := http.ReadResponse(c.in, nil)
	check.NoError(c.t, err)
	return resp
}

// ends waits until the server closes the connection.
func (c *rawConn) ends(what string) {
	c.t.Helper()
	if _, err := io.Copy(io.Discard, c.in); isTimeout(err) {
		c.t.Fatalf("%s: the connection stays open", what)
	}
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// impatient returns timeouts with which requests above the limit get 429 immediately.
func impatient() timeouts {
	p := defaultTimeouts
	p.seat = time.Nanosecond
	return p
}

// TestTooManyRequests checks that a request above the limit of requests in progress gets 429.
// Watches and health checks are counted separately.
func TestTooManyRequests(t *testing.T) {
	_, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}, MaxRequests: 1, MaxMutating: 1, MaxLongRunning: 1, timeouts: impatient()})
	const list, watch = "/api/v1/pods?resourceVersion=0", "/api/v1/pods?watch=true&resourceVersion=0"
	for name, tt := range map[string]struct {
		first       *rawConn
		method, url string
		taken       func() int
		retry       string
	}{
		"reads":   {tp.dial("http/1.1").send("GET", list, 10, ""), "GET", list, func() int { return inUse(tp.server.seats.Reads) }, "1"},
		"writes":  {tp.dial("http/1.1").send("POST", "/api/v1/namespaces/default/pods", 10, "{"), "POST", "/api/v1/namespaces/default/pods", func() int { return inUse(tp.server.seats.Writes) }, "1"},
		"watches": {tp.dial("http/1.1").send("GET", watch, 0, ""), "GET", watch, tp.server.seats.Watches.Count, "5"},
	} {
		tp.until(name+" have no place", func() bool { return tt.taken() == 1 })
		resp := tp.open(tp.client, tt.method, tt.url, "Authorization", "Bearer token-jane")
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != tt.retry || !strings.Contains(string(body), `"reason":"TooManyRequests"`) {
			t.Errorf("%s: %s %v %s", name, resp.Status, resp.Header, body)
		}
		tp.want(http.StatusOK, "jane", "/readyz")
		tt.first.Close()
		tp.until(name+" have a place", func() bool { return tt.taken() == 0 })
	}
	tp.want(http.StatusOK, "jane", list)
}

// TestUpgradesAreBounded checks that an upgraded connection counts as a watch and no longer as a
// request in progress. The path of the request does not matter. An upgrade above the bound of
// watches gets 429.
func TestUpgradesAreBounded(t *testing.T) {
	u, tp := start(t, apiserver.Options{}, Options{MaxRequests: 1, MaxLongRunning: 2, MaxWatchesPerUser: 2, timeouts: impatient()})
	over := make(chan struct{})
	defer close(over)
	u.upgradeUntil(over)
	const console = "/apis/example.com/v1/namespaces/n/screens/reviews"
	reads, long := tp.server.seats.Reads, tp.server.seats.Watches
	for n := 1; n <= 2; n++ {
		if resp := tp.openWebSocket(console); resp.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("%d: %s", n, resp.Status)
		} else {
			defer resp.Body.Close()
		}
		if inUse(reads) != 0 || long.Count() != n {
			t.Errorf("%d are upgraded: %d seats, %d watches", n, inUse(reads), long.Count())
		}
	}
	if resp := tp.openWebSocket(console); resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "5" {
		t.Errorf("one too many: %s %v", resp.Status, resp.Header)
	}
	tp.want(http.StatusOK, "jane", "/version")
	u.setFault(nil)
	if _, body := tp.get("jane", "/metrics"); !strings.Contains(body, `apiserver_longrunning_requests{component="weir-proxy",group="example.com",resource="screens"`) {
		t.Errorf("metrics do not tell of them: %s", body)
	}
}

// TestUpgradeHeaderUsesSeat checks that no request bypasses the limits by an Upgrade header
// alone.
func TestUpgradeHeaderUsesSeat(t *testing.T) {
	u, tp := start(t, apiserver.Options{}, Options{MaxRequests: 1, timeouts: impatient()})
	u.setHanging(true)
	defer u.setHanging(false)
	c := tp.dial("http/1.1")
	must(t)(fmt.Fprint(c, "GET /version HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: nonsense\r\n\r\n"))
	tp.until("it waits for the upstream", func() bool {
		return inUse(tp.server.seats.Reads) == 1 && tp.server.seats.Watches.Count() == 1
	})
	tp.want(http.StatusTooManyRequests, "jane", "/version")
	c.Close()
	tp.until("all is given back", func() bool {
		return inUse(tp.server.seats.Reads) == 0 && tp.server.seats.Watches.Count() == 0
	})
}

// TestTooManyConnections checks that the proxy closes idle connections to accept new ones. It must
// not close a connection in use. A connection above the bound can only make a health check.
func TestTooManyConnections(t *testing.T) {
	_, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}, MaxConnections: 2})
	tp.client.CloseIdleConnections()
	waiting := []*rawConn{tp.dialPlain(), tp.dial("http/1.1")}
	const watch = "/api/v1/pods?watch=true&resourceVersion=0"
	for _, c := range waiting {
		if resp := tp.dial("http/1.1").send("GET", watch, 0, "").answer(); resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status)
		}
		c.ends("one that waits")
	}
	if resp := tp.dial("http/1.1").send("GET", "/livez", 0, "").answer(); resp.StatusCode != http.StatusOK {
		t.Errorf("a health check: %s", resp.Status)
	}
	spare := tp.dial("http/1.1").send("GET", watch, 0, "")
	if resp := spare.answer(); resp.StatusCode != http.StatusTooManyRequests || !resp.Close {
		t.Errorf("%s %v", resp.Status, resp.Header)
	}
	spare.ends("one too many")
	if n := tp.metric("weir_proxy_connections_refused_total"); n < 2 {
		t.Errorf("%v were refused", n)
	}
}

// TestSlowHead checks that the server closes a connection whose client does not finish its
// handshake or head.
func TestSlowHead(t *testing.T) {
	wait := timing(func(w *timeouts) { w.header = 200 * time.Millisecond })
	_, tp := start(t, apiserver.Options{}, Options{timeouts: wait})
	tp.dialPlain().ends("no TLS")
	for _, head := range []string{"", "GET /livez HTTP/1.1\r\nHo"} {
		plain := tp.dialPlain()
		conn := tls.Client(plain.Conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
		// On a slow machine the timeout may pass before the handshake; the server closes the connection
		// in this case too.
		_, _ = fmt.Fprint(conn, head)
		plain.in = bufio.NewReader(conn)
		plain.ends(fmt.Sprintf("%q", head))
	}
}

// request sends a GET over HTTP/2, and returns a framer that reads the response.
func (c *rawConn) request(path string) *http2.Framer {
	c.t.Helper()
	client := c.http2()
	client.send(path, "token-jane", 0, true)
	return client.framer
}

// TestHalfOpen checks that the proxy disconnects an HTTP/2 client that answers no pings, and ends
// its watch. The client also receives the limit of concurrent streams.
func TestHalfOpen(t *testing.T) {
	wait := timing(func(w *timeouts) { w.ping, w.pong = 50*time.Millisecond, time.Second })
	_, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}, timeouts: wait})
	framer := tp.dial("h2").request("/api/v1/pods?watch=true&resourceVersion=0")
	streams, watched, pinged := uint32(0), false, false
	for {
		frame, err := framer.ReadFrame()
		if isTimeout(err) {
			t.Fatal("the connection stays open")
		}
		if err != nil {
			break
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if v, ok := frame.Value(http2.SettingMaxConcurrentStreams); ok {
				streams = v
			}
		case *http2.DataFrame:
			watched = true
		case *http2.PingFrame:
			pinged = true
		}
	}
	if streams != 250 || !watched || !pinged {
		t.Errorf("%d streams, watched %v, pinged %v", streams, watched, pinged)
	}
	tp.until("the watch has ended", func() bool { return tp.server.mirror.Find(podsResource).Watching() == 0 })
}
