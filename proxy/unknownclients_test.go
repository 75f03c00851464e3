package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// send sends the head of a GET on the next stream, in frames of 16 KB, with fields of one or two
// letters. If ends is false, it leaves out the end of the head.
func (u *frameClient) send(path, token string, fields int, ends bool) {
	u.t.Helper()
	var head bytes.Buffer
	enc := hpack.NewEncoder(&head)
	write := func(name, value string) {
		check.NoError(u.t, enc.WriteField(hpack.HeaderField{Name: name, Value: value, Sensitive: true}))
	}
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "x"}, {":path", path}} {
		write(f[0], f[1])
	}
	if token != "" {
		write("authorization", "Bearer "+token)
	}
	if u.invalid {
		write("te", "x")
	}
	for i := range fields {
		write(fmt.Sprint("h", i), "v")
	}
	u.stream += 2
	for block := head.Bytes(); len(block) > 0; {
		part := block[:min(len(block), frameSize)]
		first := len(block) == head.Len()
		block = block[len(part):]
		end := ends && len(block) == 0
		var err error
		if first {
			err = u.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: u.stream - 1, BlockFragment: part, EndStream: true, EndHeaders: end})
		} else {
			err = u.framer.WriteContinuation(u.stream-1, end, part)
		}
		check.NoError(u.t, err)
	}
}

// next returns the code of the next response, and whether the server sends GOAWAY with it. To find
// out, it sends a ping: the server answers it after the response and after a GOAWAY.
func (u *frameClient) next() (code string, goesAway bool) {
	u.t.Helper()
	for {
		frame, err := u.framer.ReadFrame()
		check.NoError(u.t, err)
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			if code != "" {
				continue // many pings would make the proxy close the connection
			}
			code = frame.PseudoValue("status")
			check.NoError(u.t, u.framer.WritePing(false, [8]byte{1}))
		case *http2.GoAwayFrame:
			goesAway = true
		case *http2.PingFrame:
			if frame.IsAck() && code != "" {
				return code, goesAway
			}
		}
	}
}

// TestGoAwayWithoutCredential checks that the proxy closes an HTTP/2 connection after a response to
// a request without an accepted credential, as kube-apiserver does. It does not close the
// connection if the response asks the client to repeat the request.
func TestGoAwayWithoutCredential(t *testing.T) {
	const path = "/api/v1/namespaces/default/pods/none"
	u := startUpstream(t, apiserver.Options{})
	upstream := u.tls.Config.Handler
	var answer atomic.Int64 // the status code for callers that the upstream does not know
	u.tls.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch code := int(answer.Load()); {
		case r.URL.Path != path || code == http.StatusOK:
			upstream.ServeHTTP(w, r)
		case r.Header.Get("Authorization") == "Bearer token-jane":
			_, _ = io.WriteString(w, "{}")
		default:
			writeStatus(w, code)
		}
	})
	for name, c := range map[string]struct {
		path, token string
		code        int // status code of the upstream
		want        string
		goesAway    bool
	}{
		"a health check":   {"/livez", "", 200, "200", true},
		"no credential":    {path, "", 403, "403", true},
		"metrics":          {"/metrics", "", 200, "200", true},
		"an invalid token": {path, "made-up", 401, "401", true},
		"an overload":      {path, "made-up", 429, "429", false},
		"an error":         {path, "made-up", 503, "503", false},
		"a valid token":    {path, "token-jane", 403, "200", false},
	} {
		t.Run(name, func(t *testing.T) {
			answer.Store(int64(c.code))
			tp := startProxy(t, u, Options{})
			client := tp.dialUnread()
			client.send(c.path, c.token, 0, true)
			code, goesAway := client.next()
			if code != c.want || goesAway != c.goesAway {
				t.Errorf("%s, GOAWAY %v", code, goesAway)
			}
			if unknown := tp.metric("weir_proxy_connections_unknown"); (unknown == 0) != (c.token == "token-jane") {
				t.Errorf("%v connections count as unknown", unknown)
			}
			if c.goesAway || c.token != "token-jane" {
				return
			}
			// also on a connection on which a credential was accepted before
			client.send(path, "", 0, true)
			if code, goesAway := client.next(); code != "403" || !goesAway {
				t.Errorf("without the credential: %s, GOAWAY %v", code, goesAway)
			}
		})
	}
}

// budgetBytes returns the bytes in use at a level of a budget of connections.
func (tp *testProxy) budgetBytes(of, level string) int64 {
	return int64(tp.metric("weir_proxy_budget_bytes", of, level))
}

// Bounds of package conn.
const (
	fieldBytes        = 160
	smallHead         = 16 << 10
	streamBytes       = 20 << 10
	unknownHeadMemory = 16 << 20
	maxFields         = 10_000
	maxUnknownStreams = 100
	maxOverLimit      = 64
	frameSize         = 16 << 10
)

// TestHeadOfUnreadResponse checks that the proxy releases the head of a request while the client
// does not read the response. The response uses the memory budget of unread responses until its
// stream is reset.
func TestHeadOfUnreadResponse(t *testing.T) {
	const requests, fields = 50, 3000
	_, tp := start(t, apiserver.Options{}, Options{})
	tp.get("jane", "/version")
	client := tp.dialUnread()
	before := heapAfterGC()
	for range requests {
		client.send("/livez", "token-jane", fields, true)
		if code, _ := client.next(); code != "200" {
			t.Fatal(code)
		}
	}
	streams := func() int64 { return tp.budgetBytes("streams", "known") }
	tp.until("the responses wait for their client", func() bool { return streams() == requests*streamBytes })
	check.Equal(t, tp.budgetBytes("heads", "known"), 0, "heads of bytes count")
	for _, u := range tp.server.heads.Usage() {
		if u.Level == "known" && u.Peak < fields*fieldBytes {
			t.Errorf("one counted as %d bytes", u.Peak)
		}
	}
	// All heads together need 13 MB, and all other memory of the requests 0.4 MB.
	if grown := heapAfterGC() - before; grown > 6<<20 {
		t.Errorf("%d responses that are not read keep %d bytes", requests, grown)
	}
	for ended := 0; ended < requests; {
		frame, err := client.framer.ReadFrame()
		check.NoError(t, err)
		if _, ok := frame.(*http2.RSTStreamFrame); ok {
			ended++
		}
	}
	tp.until("the responses are given up", func() bool { return streams() == 0 })
}

// heapAfterGC returns the number of live heap bytes.
func heapAfterGC() int64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestTooLargeHeads checks that a request gets 429 if its head exceeds the memory for heads.
// Requests with heads of a usual size do not get 429.
func TestTooLargeHeads(t *testing.T) {
	_, tp := start(t, apiserver.Options{}, Options{})
	full := tp.server.heads.NewCharge(0, "") // a charge of an unknown connection
	full.Add(unknownHeadMemory)
	h1 := tp.dial("http/1.1")
	fmt.Fprintf(h1, "GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n%s\r\n", strings.Repeat("A: b\r\n", 50))
	if resp := h1.answer(); resp.StatusCode != http.StatusOK {
		t.Errorf("a usual head: %s", resp.Status)
	}
	large := tp.dial("http/1.1")
	// The connection has an accepted credential already, so that the server receives the head and
	// refuses only the request.
	if resp := large.send("GET", "/version", 0, "").answer(); resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	} else {
		_, _ = io.Copy(io.Discard, resp.Body)
	}
	fmt.Fprintf(large, "GET /version HTTP/1.1\r\nHost: x\r\n%s\r\n", strings.Repeat("A: b\r\n", 1000))
	if resp := large.answer(); resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
		t.Errorf("a large head: %s %v", resp.Status, resp.Header)
	}
	tp.says(http.StatusOK, `weir_proxy_budget_refused_total{budget="heads",level="unknown"} 1`, "jane", "/metrics")
}

// TestTooManyOnUnknownConnection checks that a connection without an accepted credential has its
// own bound of requests in progress.
func TestTooManyOnUnknownConnection(t *testing.T) {
	u, tp := start(t, apiserver.Options{}, Options{})
	u.setHanging(true)
	defer u.setHanging(false)
	client := tp.dialUnread()
	for range maxUnknownStreams + 1 {
		client.send("/api/v1/pods?watch=true", "token-joan", 0, true)
	}
	if code, goesAway := client.next(); code != "429" || !goesAway {
		t.Errorf("%s, GOAWAY %v", code, goesAway)
	}
}

// TestMemoryOfHeads checks that incomplete heads count against the memory for heads until their
// connection is closed, over HTTP/1.1 and HTTP/2. It also checks that the number of fields of a
// head is bounded.
func TestMemoryOfHeads(t *testing.T) {
	_, tp := start(t, apiserver.Options{}, Options{})
	for name, hold := range map[string]func() io.Closer{
		"HTTP/1.1": func() io.Closer {
			c := tp.dial("http/1.1")
			fmt.Fprint(c, "GET /livez HTTP/1.1\r\nHost: x\r\n"+strings.Repeat("a: b\r\n", 5000))
			return c
		},
		"HTTP/2": func() io.Closer {
			c := tp.dialUnread()
			c.send("/livez", "", 5000, false)
			return c
		},
	} {
		held := hold()
		tp.until(name+": the head counts", func() bool { return tp.budgetBytes("heads", "unknown") > 4500*fieldBytes })
		held.Close()
		tp.until(name+": it does not any more", func() bool { return tp.budgetBytes("heads", "unknown") == 0 })
	}
	c := tp.dial("http/1.1")
	fmt.Fprint(c, "GET /livez HTTP/1.1\r\nHost: x\r\n"+strings.Repeat("a:b\r\n", maxFields+1))
	c.ends("a head of too many fields")
}

// TestHealthWithAllConnectionsUsed checks that every new connection can make a health check while
// other clients occupy the maximum number of connections. These clients send requests and do not
// read the responses.
func TestHealthWithAllConnectionsUsed(t *testing.T) {
	_, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}, MaxConnections: 3, HealthListen: "127.0.0.1:0"})
	tp.client.CloseIdleConnections()
	watch := tp.dialUnread()
	watch.request("jane", "/api/v1/pods?watch=true&resourceVersion=0")
	for range 2 * maxOverLimit {
		tp.dialUnread().request("", "/livez")
		if resp := tp.dial("http/1.1").send("GET", "/livez", 0, "").answer(); resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status)
		}
	}
	watch.request("jane", "/livez")
	resp, err := http.Get(tp.server.HealthURL() + "/readyz")
	check.NoError(t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("/readyz of its own address: %s", resp.Status)
	}
}

// TestHealthListen checks that Options.HealthListen answers only health checks, and one request on
// each connection.
func TestHealthListen(t *testing.T) {
	_, tp := start(t, apiserver.Options{}, Options{HealthListen: "127.0.0.1:0"})
	for path, want := range map[string]int{"/livez": 200, "/readyz?verbose": 200, "/healthz": 200, "/metrics": 404, "/api/v1/pods": 404, "/": 404} {
		resp, err := http.Get(tp.server.HealthURL() + path)
		check.NoError(t, err)
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != want || !resp.Close || want == 200 && !strings.Contains(string(body), "ok") {
			t.Errorf("%s: %s %q, close %v", path, resp.Status, body, resp.Close)
		}
	}
	url := tp.server.HealthURL()
	check.NoError(t, tp.server.Close())
	if _, err := http.Get(url + "/livez"); err == nil {
		t.Error("it is served after the end")
	}
}

// TestHeadOfWatch checks that the head of a WATCH does not count as memory of heads any more when
// the proxy serves the WATCH. It checks heads of usual and of large size.
func TestHeadOfWatch(t *testing.T) {
	_, tp := startReady(t, apiserver.Options{Pods: 1}, Options{Resources: []string{"pods"}})
	for _, fill := range []string{"", strings.Repeat("x", 2*smallHead)} {
		lines := tp.watch("jane", "/api/v1/pods?watch=true&resourceVersion=0", "X-Fill", fill)
		tp.next(lines, "ADDED")
		for _, u := range tp.server.heads.Usage() {
			if u.Used != 0 {
				t.Errorf("%d bytes count as %s", u.Used, u.Level)
			}
		}
	}
}

// TestInvalidRequests checks a request that the HTTP server itself answers with 400, without a call
// of the handler. The head counts until the server resets the stream, because the client does not
// read the response. Another request on the connection does not change that.
func TestInvalidRequests(t *testing.T) {
	_, tp := start(t, apiserver.Options{}, Options{})
	tp.get("jane", "/version")
	client := tp.dialUnread()
	client.invalid = true
	client.send("/livez", "", 3000, true)
	if code, _ := client.next(); code != "400" {
		t.Fatal(code)
	}
	counted := tp.budgetBytes("heads", "unknown")
	client.invalid = false
	client.send("/livez", "token-jane", 0, true)
	if code, _ := client.next(); code != "200" {
		t.Fatal(code)
	}
	if now := tp.budgetBytes("heads", "known"); now != counted || counted < 3000*fieldBytes/2 {
		t.Errorf("%d bytes count, and then %d", counted, now)
	}
	for reset := uint32(0); reset != 1; {
		frame, err := client.framer.ReadFrame()
		check.NoError(t, err)
		if _, ok := frame.(*http2.RSTStreamFrame); ok {
			reset = frame.Header().StreamID
		}
	}
	tp.until("the head does not count", func() bool { return tp.budgetBytes("heads", "known") == 0 })
}

// TestGoAwayAfterRejection checks that a 401 also ends the connection of a caller that was accepted
// before, if the token is no longer accepted.
func TestGoAwayAfterRejection(t *testing.T) {
	for _, c := range []struct {
		code              int
		accepted, goesOff bool
	}{
		{http.StatusUnauthorized, false, true},
		{http.StatusUnauthorized, true, false}, // of a server behind the upstream
		{http.StatusForbidden, false, false},
	} {
		a := &responseWriter{accepted: true, major: 2, isAccepted: func() bool { return c.accepted }}
		check.Equal(t, a.endsConnection(c.code), c.goesOff, "%+v", c)
	}
}
