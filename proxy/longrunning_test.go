package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/proxy/internal/conn"
	"github.com/weirproject/weir/proxy/internal/seats"
)

// TestForwardedMemory checks that the memory of watches includes the buffers of a forwarded watch.
// It also includes the bytes that may have been read ahead while the client reads nothing.
func TestForwardedMemory(t *testing.T) {
	_, tp := start(t, apiserver.Options{Pods: 500}, Options{})
	limiter := tp.server.seats.Watches
	used := func() int64 { return limiter.Memory.Used() - int64(tp.server.connected())*conn.ConnectionBytes }
	// the upstream accepts jane's token, so that her next request is forwarded over HTTP/2
	tp.get("jane", "/api")
	c := tp.dial("h2")
	// the response does not fit into the client's window
	c.request("/api/v1/pods?watch=true&resourceVersion=0")
	tp.until("what is kept for it counts", func() bool {
		return used() == seats.WatchBytes+copyBuffer+readAhead && tp.server.keptForWatches() == readAhead
	})
	c.Close()
	tp.until("it has ended", func() bool { return used() == 0 })
}

// TestNothingIsReadAheadForStrangers checks that no read-ahead bytes are counted for a forwarded
// request of a caller whose token and certificate the proxy has not accepted. Such a request is
// forwarded over HTTP/1.1, which reads nothing ahead.
func TestNothingIsReadAheadForStrangers(t *testing.T) {
	_, tp := start(t, apiserver.Options{Pods: 500}, Options{})
	writes, goOn := make(chan struct{}), make(chan struct{})
	w := &brokenWriter{httptest.NewRecorder(), 0, func(int) error {
		close(writes)
		<-goOn
		return io.ErrClosedPipe
	}}
	r := httptest.NewRequest(http.MethodGet, "/api/v1/pods?watch=true&resourceVersion=0", nil).WithContext(tp.ctx)
	r.Header.Set("Authorization", "Bearer token-stranger")
	foreign, err := x509.ParseCertificate(newAuthority(t).Issue(t, "carol").Certificate[0])
	check.NoError(t, err)
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{foreign}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }() // the proxy breaks the answer off
		tp.server.ServeHTTP(w, r)
	}()
	<-writes
	check.Equal(t, tp.server.keptForWatches(), 0, "bytes")
	close(goOn)
	<-done
}

// TestBodiesOfWatches checks that the memory of watches includes the body of a forwarded WATCH,
// which is buffered for a retry.
func TestBodiesOfWatches(t *testing.T) {
	_, tp := start(t, apiserver.Options{Pods: 3}, Options{})
	limiter := tp.server.seats.Watches
	used := func() int64 {
		return limiter.Memory.Used() - tp.server.keptForWatches() - int64(tp.server.connected())*conn.ConnectionBytes
	}
	r, err := http.NewRequestWithContext(tp.ctx, http.MethodGet, tp.server.URL()+"/api/v1/pods?watch=true&resourceVersion=0", strings.NewReader(strings.Repeat("x", maxBuffered)))
	check.NoError(t, err)
	r.Header.Set("Authorization", "Bearer token-jane")
	resp, err := tp.client.Do(r)
	check.NoError(t, err)
	defer resp.Body.Close()
	if got := used(); resp.StatusCode != http.StatusOK || got != seats.WatchBytes+copyBuffer+maxBuffered {
		t.Errorf("%s, %d bytes", resp.Status, got)
	}
	resp.Body.Close()
	tp.until("it has ended", func() bool { return used() == 0 })
}

// TestHeadsOfWatches checks that the memory of watches includes their heads, which stay in memory
// as long as the watches last.
func TestHeadsOfWatches(t *testing.T) {
	_, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}, WatchMemory: 1 << 20})
	const watch = "/api/v1/pods?watch=true&resourceVersion=0"
	limiter := tp.server.seats.Watches
	long := []string{"Authorization", "Bearer token-jane", "X-Padding", strings.Repeat("x", 220<<10)}
	var many []string
	for i := range 1200 {
		many = append(many, fmt.Sprint("X-", i), "x")
	}
	for name, headers := range map[string][]string{"long": long, "many": append(many, "Authorization", "Bearer token-jane")} {
		var open []*http.Response
		for len(open) < 20 {
			resp := tp.open(tp.client, http.MethodGet, watch, headers...)
			if resp.StatusCode == http.StatusTooManyRequests {
				break
			}
			open = append(open, resp)
		}
		if len(open) < 2 || len(open) > 4 {
			t.Errorf("%s: %d watches fit", name, len(open))
		}
		for _, resp := range open {
			resp.Body.Close()
		}
		tp.until("they have ended", func() bool { return limiter.Count() == 0 })
	}
	check.Equal(t, limiter.Memory.Used()-int64(tp.server.connected())*conn.ConnectionBytes, 0, "bytes are left")
	usual := &http.Request{RequestURI: watch, Header: http.Header{"Authorization": {"Bearer " + strings.Repeat("x", 1200)}, "Accept": {"application/json"}}}
	check.Equal(t, extraHead(usual), 0, "a usual one takes bytes more than usual")
}
