package proxy

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/serve/watchcache"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestSlowBody checks that the proxy waits only for a limited time for a body that a request does
// not need.
func TestSlowBody(t *testing.T) {
	wait := timing(func(w *timeouts) { w.discard = 200 * time.Millisecond })
	_, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}, timeouts: wait})
	// These requests need no body, but announce one, which never arrives.
	for _, path := range []string{"/api/v1/pods?resourceVersion=0", "/livez", "/metrics", "/api/v1/pods?watch=true&resourceVersion=0"} {
		c := tp.dial("http/1.1").send("GET", path, 100, "x")
		if resp := c.answer(); resp.StatusCode != http.StatusRequestTimeout || !resp.Close {
			t.Errorf("%s: %s %v", path, resp.Status, resp.Header)
		}
		c.ends(path)
	}
	// A body that is too long for the proxy to read all of it.
	c := tp.dial("http/1.1").send("GET", "/api/v1/pods?resourceVersion=0", 1<<20, strings.Repeat("x", 1<<17))
	if resp := c.answer(); resp.StatusCode != http.StatusOK {
		t.Error(resp.Status)
	}
	// A body that arrives; the next request can use the connection.
	c = tp.dial("http/1.1").send("GET", "/api/v1/pods?resourceVersion=0", 4, "body")
	resp := c.answer()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Error(resp.Status, err)
	}
	if resp := c.send("GET", "/livez", 0, "").answer(); resp.StatusCode != http.StatusOK {
		t.Error(resp.Status)
	}
}

// TestRefusedBeforeItsBody checks requests, with and without credentials, that the proxy refuses
// before it reads their bodies. If the body does not arrive in time, the client gets 408, and the
// proxy closes the connection. Afterwards no such request counts as in progress.
func TestRefusedBeforeItsBody(t *testing.T) {
	u := startUpstream(t, apiserver.Options{})
	u.deny(func(s authorizationv1.SubjectAccessReviewSpec) bool {
		return s.ResourceAttributes != nil && s.ResourceAttributes.Verb == "impersonate"
	})
	wait := timing(func(w *timeouts) { w.discard = 200 * time.Millisecond })
	tp := startProxy(t, u, Options{timeouts: wait})
	carol := tp.authCA.Issue(t, "carol")
	for name, test := range map[string]struct {
		certificate *tls.Certificate
		headers     string
	}{
		"a stranger":      {newAuthority(t).Issue(t, "carol"), ""},
		"an impersonator": {carol, "Impersonate-User: joe\r\n"},
		"a long name":     {carol, "Impersonate-User: " + strings.Repeat("x", 4<<10) + "\r\n"},
		"groups, no user": {carol, "Impersonate-Group: staff\r\n"},
	} {
		for _, length := range []string{"Content-Length: 10", "Content-Length: 1000000", "Transfer-Encoding: chunked"} {
			c := tp.dial("http/1.1", *test.certificate)
			fmt.Fprintf(c, "POST /api/v1/namespaces/default/pods HTTP/1.1\r\nHost: x\r\n%s\r\n%s\r\n", length, test.headers)
			if resp := c.answer(); resp.StatusCode != http.StatusRequestTimeout || !resp.Close {
				t.Errorf("%s, %s: %s %v", name, length, resp.Status, resp.Header)
			}
			c.ends(name)
		}
	}
	tp.until("all seats are free", func() bool { return inUse(tp.server.seats.Writes) == 0 })
}

// drip is a request body that yields one byte per tick.
type drip struct {
	ticks <-chan time.Time
	ended <-chan struct{}
}

func (d drip) Read(p []byte) (int, error) {
	select {
	case <-d.ticks:
		p[0] = ' '
		return 1, nil
	case <-d.ended:
		return 0, io.ErrUnexpectedEOF
	}
}

// TestDrippedBody checks that the proxy refuses a request whose body arrives too slowly. A small
// body, which the proxy reads before authentication, must arrive within a fixed time. A larger body
// must arrive at a minimum pace.
func TestDrippedBody(t *testing.T) {
	wait := timing(func(w *timeouts) { w.discard, w.body = 200*time.Millisecond, 200*time.Millisecond })
	u, tp := start(t, apiserver.Options{}, Options{timeouts: wait})
	const path = "/api/v1/namespaces/default/pods"
	for _, length := range []int64{2000, 4 * maxBuffered, -1} {
		tp.dripHTTP1(path, length)
		tp.dripHTTP2(path, length)
		tp.until("its place is free", func() bool { return inUse(tp.server.seats.Writes) == 0 })
		if got := u.forwarded(path); len(got) > 0 && length > 0 && length <= maxBuffered {
			t.Errorf("%d of %d bytes were forwarded", len(got), length)
		}
	}
	if n := tp.server.upstream.failures.Load(); n > 0 {
		t.Errorf("%d are failures of the upstream", n)
	}
}

// TestAnswerToPartOfBody checks that a client that does not send its whole body gets 408, even if
// the upstream has answered the received part. If the client did not fail, the proxy forwards an
// answer that the upstream sends before it has read the whole body.
func TestAnswerToPartOfBody(t *testing.T) {
	for _, failure := range []error{nil, os.ErrDeadlineExceeded} {
		sent := httptest.NewRequest(http.MethodPost, "/api/v1/namespaces/default/pods", nil)
		sent.Body = &requestBody{ReadCloser: http.NoBody, failure: failure}
		fw := &forwarding{sent: sent, answer: &responseWriter{}}
		answer := &http.Response{StatusCode: http.StatusBadRequest, Body: http.NoBody, Request: sent.WithContext(context.WithValue(t.Context(), forwardingKey{}, fw))}
		if err := modifyResponse(answer); (failure == nil) != (err == nil) || err != nil && watchcache.StatusOf(err).Code != http.StatusRequestTimeout {
			t.Errorf("%v: %v", failure, err)
		}
	}
}

// dripHTTP1 sends a request over HTTP/1.1 whose body arrives byte by byte, and checks that the
// proxy refuses it. length is the Content-Length of the body; -1 means that it is unknown.
func (tp *testProxy) dripHTTP1(path string, length int64) {
	tp.t.Helper()
	c := tp.dial("http/1.1")
	if length > 0 {
		c.send("POST", path, int(length), "")
	} else {
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer token-jane\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n", path, 1<<20)
	}
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	dripping := make(chan struct{})
	go func() {
		defer close(dripping)
		_, _ = io.Copy(c, drip{ticker.C, tp.ctx.Done()}) // until the server closes the connection
	}()
	if resp := c.answer(); resp.StatusCode != http.StatusRequestTimeout || !resp.Close {
		tp.t.Errorf("HTTP/1.1, %d bytes: %s %v", length, resp.Status, resp.Header)
	}
	c.Close()
	<-dripping
}

// dripHTTP2 is dripHTTP1 for HTTP/2.
func (tp *testProxy) dripHTTP2(path string, length int64) {
	tp.t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	req, err := http.NewRequestWithContext(tp.ctx, http.MethodPost, tp.server.URL()+path, drip{ticker.C, tp.ctx.Done()})
	check.NoError(tp.t, err)
	req.ContentLength = length
	req.Header.Set("Authorization", "Bearer token-jane")
	resp, err := tp.client.Do(req)
	check.NoError(tp.t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestTimeout || resp.ProtoMajor != 2 {
		tp.t.Errorf("HTTP/2, %d bytes: %s", length, resp.Status)
	}
}

// tricklingBody is a request body, and the connection over which it arrives. It yields a piece
// after each pause. Over HTTP/2, the body ends as soon as the deadline passes. Over HTTP/1, a read
// fails only if it is in progress at that time.
type tricklingBody struct {
	*httptest.ResponseRecorder
	http2    bool
	pause    time.Duration
	deadline time.Time
	broken   *time.Timer // the deadline of HTTP/2; nil for HTTP/1
	ended    atomic.Bool
}

func (b *tricklingBody) SetReadDeadline(t time.Time) error {
	b.deadline = t
	if b.broken != nil {
		b.broken.Stop()
		b.broken = nil
	}
	if b.http2 && !t.IsZero() {
		b.broken = time.AfterFunc(time.Until(t), func() { b.ended.Store(true) })
	}
	return nil
}

func (b *tricklingBody) Read(p []byte) (int, error) {
	if !b.deadline.IsZero() && time.Until(b.deadline) < b.pause {
		time.Sleep(time.Until(b.deadline))
		return 0, os.ErrDeadlineExceeded
	}
	time.Sleep(b.pause)
	if b.ended.Load() {
		return 0, os.ErrDeadlineExceeded
	}
	return len(p), nil
}

func (b *tricklingBody) Close() error { return nil }

// TestTrickledBody checks how long a client that sends a body slowly can occupy a seat, that is, a
// place among the requests in progress. If it sends more slowly than seatPace, a read of its body
// fails. A faster client can send the whole body, however slowly the upstream reads. The client of
// a long-running request, which has no seat, may be slow, but a read that takes longer than a
// minute fails.
func TestTrickledBody(t *testing.T) {
	const size, reads = 32 << 10, 1000
	for name, tt := range map[string]struct {
		length         int64
		seated         bool
		pause, between time.Duration // pauses of the client, and of the upstream
		whole          bool
	}{
		"a trickle":               {reads * size, true, 50 * time.Second, 0, false},
		"of unknown length":       {-1, true, 50 * time.Second, 0, false},
		"half the pace":           {reads * size, true, 2 * size * time.Second / seatPace, 0, false},
		"the pace":                {reads * size, true, size * time.Second / seatPace, 0, true},
		"a slow upstream":         {reads * size, true, time.Millisecond, 50 * time.Second, true},
		"late, of a small body":   {maxBuffered, true, 11 * time.Second, 0, false},
		"late, of a small stream": {maxBuffered, false, 11 * time.Second, 0, false},
		"a trickled stream":       {reads * size, false, 50 * time.Second, 0, true},
		"a stream that hangs":     {reads * size, false, 61 * time.Second, 0, false},
	} {
		for _, major := range []int{1, 2} {
			synctest.Test(t, func(t *testing.T) {
				client := &tricklingBody{ResponseRecorder: httptest.NewRecorder(), http2: major == 2, pause: tt.pause}
				r := &http.Request{ProtoMajor: major, ContentLength: tt.length, Body: client}
				s := &Server{opts: Options{timeouts: defaultTimeouts}}
				defer s.limitBody(client, r, tt.seated)()
				began, n := time.Now(), 0
				for ; n < reads; n++ {
					if _, err := r.Body.Read(make([]byte, size)); err != nil {
						break
					}
					time.Sleep(tt.between)
				}
				if whole := n == reads; whole != tt.whole || !whole && time.Since(began) > 5*time.Minute {
					t.Errorf("%s by HTTP/%d: %d of %d reads in %v", name, major, n, reads, time.Since(began))
				}
				if err := r.Body.(*requestBody).failed(); (err == nil) != tt.whole {
					t.Errorf("%s by HTTP/%d: failed: %v", name, major, err)
				}
			})
		}
	}
}

// blockingBody is a body whose reads block until it is closed.
type blockingBody struct {
	*httptest.ResponseRecorder
	reading, closed chan struct{}
}

func (b blockingBody) Read([]byte) (int, error) {
	close(b.reading)
	<-b.closed
	return 0, os.ErrDeadlineExceeded
}

func (b blockingBody) Close() error {
	close(b.closed)
	return nil
}

// closeNoter records that it was closed.
type closeNoter struct {
	io.Reader
	closed bool
}

func (c *closeNoter) Close() error {
	c.closed = true
	return nil
}

// TestUnwantedBodyOverHTTP2 checks that the proxy closes the body of a request that it answers
// itself. Otherwise net/http would store the body as long as a WATCH lasts.
func TestUnwantedBodyOverHTTP2(t *testing.T) {
	body := &closeNoter{Reader: strings.NewReader("x")}
	r := &http.Request{ProtoMajor: 2, ContentLength: 1, Body: body}
	if err := (&Server{}).discardBody(httptest.NewRecorder(), r); err != nil || !body.closed {
		t.Errorf("%v, closed: %v", err, body.closed)
	}
}

// TestClosedBody checks that a body that the transport closes does not count as a failure of the
// client. A transport closes the body, for instance, when the upstream disappears.
func TestClosedBody(t *testing.T) {
	client := blockingBody{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
	r := &http.Request{ContentLength: 4 * maxBuffered, Body: client}
	s := &Server{opts: Options{timeouts: defaultTimeouts}}
	defer s.limitBody(client, r, true)()
	read := make(chan error)
	go func() {
		_, err := r.Body.Read(make([]byte, 1))
		read <- err
	}()
	<-client.reading
	check.NoError(t, r.Body.Close())
	if err, failed := <-read, r.Body.(*requestBody).failed(); err == nil || failed != nil {
		t.Errorf("read: %v, failed: %v", err, failed)
	}
}

// TestSlowWriter checks that a client that stops in the middle of a request body does not block
// another client's write of the same resource.
func TestSlowWriter(t *testing.T) {
	wait := timing(func(w *timeouts) { w.discard = 50 * time.Millisecond })
	u, tp := start(t, apiserver.Options{}, Options{timeouts: wait})
	c := tp.dial("http/1.1")
	fmt.Fprintf(c, "POST /api/v1/namespaces/default/pods HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
	must(t)(u.writerPast().CoreV1().Pods("default").Create(tp.ctx, pod("other"), metav1.CreateOptions{}))
	c.Close()
	tp.until("its place is free", func() bool { return inUse(tp.server.seats.Writes) == 0 })
}

// TestAnswerBeforeBody checks an upstream that refuses a request before it has received the whole
// body. The transport may then still read the body. The transport must not use the client's
// connection for that, because the connection may already serve the next request.
func TestAnswerBeforeBody(t *testing.T) {
	u := startUpstream(t, apiserver.Options{})
	const path = "/api/v1/reviews"
	upstream := u.tls.Config.Handler
	u.tls.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == path {
			writeStatus(w, http.StatusForbidden)
			return
		}
		upstream.ServeHTTP(w, r)
	})
	tp := startProxy(t, u, Options{})
	tp.get("jane", "/api/v1/namespaces/default/pods/none") // the connection survives refusals
	for range 100 {
		body, rest := io.Pipe()
		r, err := http.NewRequestWithContext(tp.ctx, http.MethodPost, tp.server.URL()+path, body)
		check.NoError(t, err)
		r.ContentLength = 4 * maxBuffered
		r.Header.Set("Authorization", "Bearer token-jane")
		resp, err := tp.client.Do(r)
		check.NoError(t, err)
		if resp.ProtoMajor != 2 || resp.StatusCode != http.StatusForbidden {
			t.Fatal(resp.Proto, resp.Status)
		}
		resp.Body.Close()
		rest.Close()
	}
}
