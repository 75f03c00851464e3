package proxy

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/time/rate"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/serve/watchcache"
	"github.com/weirproject/weir/internal/testing/check"
)

// roundTripper is a transport that a test implements as a function.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// passTo returns an upstream that forwards requests to a handler.
func passTo(t *testing.T, h http.HandlerFunc) *upstream {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	return passToServer(t, server)
}

// passToServer returns an upstream that forwards requests to a server.
func passToServer(t *testing.T, server *httptest.Server) *upstream {
	t.Helper()
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	o := Options{}.withDefaults()
	u, err := newUpstream(&rest.Config{Host: server.URL, BearerToken: ownToken, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}, &o)
	check.NoError(t, err)
	t.Cleanup(u.close)
	u.refuse = func(a *responseWriter, r *http.Request, why error) { watchcache.WriteError(a, r, why) }
	ignore := func(*http.Request, [sha256.Size]byte) {}
	u.onAccepted, u.onMissed, u.onDenied = ignore, ignore, func([sha256.Size]byte) {}
	u.isFrontProxyHeader = func(string) bool { return false }
	return u
}

// TestConnectionsOfUnknownTokens checks that accepted callers do not share HTTP/2 connections with
// unknown ones. kube-apiserver closes an HTTP/2 connection after a request with unknown
// credentials, and requests in progress on the connection may be lost.
func TestConnectionsOfUnknownTokens(t *testing.T) {
	var mu sync.Mutex
	by := map[string]map[string]bool{} // connections by token
	u := passTo(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		who := r.Header.Get("Authorization")
		if by[who] == nil {
			by[who] = map[string]bool{}
		}
		by[who][r.RemoteAddr] = true
		if who == "Bearer jane" {
			return
		}
		if r.ProtoMajor == 2 {
			w.Header().Set("Connection", "close")
		}
		w.WriteHeader(http.StatusUnauthorized)
	})
	ask := func(who string) {
		r := httptest.NewRequest(http.MethodGet, "/version", nil)
		if who != "" {
			r.Header.Set("Authorization", who)
		}
		u.serve(httptest.NewRecorder(), r, &forwarding{answer: &responseWriter{}})
	}
	ask("Bearer jane")
	mu.Lock()
	clear(by)
	mu.Unlock()
	for range 5 {
		for _, who := range []string{"Bearer jane", "Bearer junk", ""} {
			ask(who)
		}
	}
	check.Equal(t, len(by["Bearer jane"]), 1, "who is known came by connections")
	for _, who := range []string{"Bearer junk", ""} {
		for at := range by[who] {
			if by["Bearer jane"][at] {
				t.Errorf("%q came by a connection of jane's", who)
			}
		}
	}
}

// TestReadAhead checks that the transports announce a window of readAhead bytes to the upstream.
// The upstream can send no more bytes of a response that the client does not read.
func TestReadAhead(t *testing.T) {
	var window atomic.Uint32
	server := httptest.NewUnstartedServer(nil)
	server.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": func(_ *http.Server, c *tls.Conn, _ http.Handler) {
		if _, err := io.CopyN(io.Discard, c, int64(len(http2.ClientPreface))); err != nil {
			return
		}
		if frame, err := http2.NewFramer(io.Discard, c).ReadFrame(); err == nil {
			if settings, ok := frame.(*http2.SettingsFrame); ok {
				told, _ := settings.Value(http2.SettingInitialWindowSize)
				window.Store(told)
			}
		}
	}}
	u := passToServer(t, server)
	for name, rt := range map[string]http.RoundTripper{"with the caller's credentials": u.anonymous, "by impersonation": u.impersonating} {
		window.Store(0)
		if resp, err := rt.RoundTrip(httptest.NewRequest(http.MethodGet, server.URL, nil)); err == nil {
			resp.Body.Close()
			t.Errorf("%s: %s from a server that closes the connection", name, resp.Status)
		}
		check.Equal(t, window.Load(), readAhead, "%s: bytes", name)
	}
}

// TestBufferedBodies checks that a transport can send a body of up to maxBuffered bytes again. It
// must do so if the upstream closes the connection and reports that it did not process the request.
func TestBufferedBodies(t *testing.T) {
	u := passTo(t, func(http.ResponseWriter, *http.Request) {})
	for _, size := range []int{1, maxBuffered, maxBuffered + 1} {
		want := strings.Repeat("x", size)
		send := roundTripper(func(r *http.Request) (*http.Response, error) {
			if again := r.GetBody != nil; again != (size <= maxBuffered) {
				t.Errorf("%d bytes: can be sent again: %v", size, again)
				return nil, http.ErrNotSupported
			}
			bodies := []io.Reader{r.Body}
			if r.GetBody != nil {
				again, err := r.GetBody()
				if err != nil {
					return nil, err
				}
				bodies = append(bodies, again)
			}
			for _, body := range bodies {
				if raw, err := io.ReadAll(body); err != nil || string(raw) != want {
					t.Errorf("%d bytes: %d bytes were sent, %v", size, len(raw), err)
				}
			}
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
		})
		u.anonymous, u.anonymousUpgrade = send, send
		r := httptest.NewRequest(http.MethodPost, "/api/v1/namespaces/mine/pods", strings.NewReader(want))
		u.serve(httptest.NewRecorder(), r, &forwarding{answer: &responseWriter{}})
	}
}

// TestFailureIsLogged checks that the proxy logs why the upstream does not answer, at most once per
// failureLogInterval. It must not send that error to the caller.
func TestFailureIsLogged(t *testing.T) {
	u := passTo(t, func(http.ResponseWriter, *http.Request) { t.Error("a request came") })
	const cause = "dial tcp 10.0.0.1:6443: connection refused"
	fail := roundTripper(func(*http.Request) (*http.Response, error) { return nil, errors.New(cause) })
	u.anonymous, u.anonymousUpgrade = fail, fail
	var log bytes.Buffer
	u.log = slog.New(slog.NewTextHandler(&log, nil))
	for _, first := range []bool{true, false, true} { // all within failureLogInterval
		if first {
			u.logLimit = rate.Sometimes{Interval: deadline}
		}
		w := httptest.NewRecorder()
		u.serve(w, httptest.NewRequest(http.MethodGet, "/version", nil), &forwarding{answer: &responseWriter{ResponseWriter: w}})
		if body := w.Body.String(); w.Code != http.StatusServiceUnavailable || strings.Contains(body, "10.0.0.1") || !strings.Contains(body, "does not respond") {
			t.Errorf("%d %s", w.Code, body)
		}
	}
	if got := strings.Count(log.String(), cause); got != 2 || !strings.Contains(log.String(), "path=/version") {
		t.Errorf("logged %d times:\n%s", got, log.String())
	}
}

// TestReadsAreSentAgain checks that the proxy sends a read once more if its connection breaks, and
// repeats no other request. If there is no answer, the client gets 503, or 429 for some WATCHes.
func TestReadsAreSentAgain(t *testing.T) {
	u := passTo(t, func(http.ResponseWriter, *http.Request) { t.Error("a request came") })
	reset := &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	watch := "/api/v1/pods?watch=true&resourceVersion="
	for _, tt := range []struct {
		method, target string
		header         http.Header
		err            error
		sent, code     int
	}{
		{http.MethodGet, "/version", nil, reset, 2, http.StatusServiceUnavailable},
		{http.MethodGet, "/version", nil, io.EOF, 2, http.StatusServiceUnavailable},
		{http.MethodHead, "/version", nil, errors.New("http2: client connection lost"), 2, http.StatusServiceUnavailable},
		{http.MethodGet, watch + "7", nil, reset, 2, http.StatusTooManyRequests},
		{http.MethodGet, watch + "7", nil, refused, 1, http.StatusTooManyRequests},
		{http.MethodGet, watch + "&sendInitialEvents=true", nil, refused, 1, http.StatusTooManyRequests},
		{http.MethodGet, watch, nil, refused, 1, http.StatusServiceUnavailable},
		{http.MethodGet, watch + "0", nil, refused, 1, http.StatusServiceUnavailable},
		{http.MethodGet, "/version", nil, refused, 1, http.StatusServiceUnavailable},
		{http.MethodGet, "/version", http.Header{"Upgrade": {"websocket"}, "Connection": {"Upgrade"}}, reset, 1, http.StatusServiceUnavailable},
		{http.MethodDelete, "/api/v1/namespaces/a/pods/b", nil, reset, 1, http.StatusServiceUnavailable},
		{http.MethodPost, "/api/v1/namespaces/a/pods", nil, io.EOF, 1, http.StatusServiceUnavailable},
	} {
		sent := 0
		fail := roundTripper(func(*http.Request) (*http.Response, error) {
			sent++
			return nil, tt.err
		})
		u.anonymous, u.anonymousUpgrade = fail, fail
		r := httptest.NewRequest(tt.method, tt.target, nil)
		maps.Copy(r.Header, tt.header)
		var fs forwardedWatches
		w := httptest.NewRecorder()
		fw := &forwarding{answer: &responseWriter{ResponseWriter: w}}
		if q := r.URL.Query(); q.Has("watch") {
			fw.watch = fs.begin(w, func() {})
			fw.watch.setStart(request.QueryOf(r.URL))
		}
		u.serve(w, r, fw)
		if sent != tt.sent || w.Code != tt.code || (w.Header().Get("Retry-After") != "") != (tt.code == http.StatusTooManyRequests) {
			t.Errorf("%s %s %v: sent %d times, answered %d, Retry-After %q", tt.method, tt.target, tt.err, sent, w.Code, w.Header().Get("Retry-After"))
		}
	}
}

// TestConnectionHeader checks that a caller's Connection header cannot remove a header that
// identifies the caller. kube-apiserver ignores the Connection header.
func TestConnectionHeader(t *testing.T) {
	var got http.Header
	u := passTo(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Clone() })
	r := httptest.NewRequest(http.MethodGet, "/version", nil)
	r.Header.Set("Authorization", "Bearer junk")
	r.Header.Set("Impersonate-User", "joe")
	r.Header["Connection"] = []string{"Authorization, close", "impersonate-user"}
	u.serve(httptest.NewRecorder(), r, &forwarding{answer: &responseWriter{}})
	if got.Get("Authorization") != "Bearer junk" || got.Get("Impersonate-User") != "joe" {
		t.Errorf("%v came", got)
	}
}
