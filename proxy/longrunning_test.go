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

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/proxy/internal/conn"
)

// TestForwardedMemory: what forwards a watch counts, and what may have been read ahead while its
// client takes nothing.
func TestForwardedMemory(t *testing.T) {
	u := startUpstream(t, apiserver.Options{Pods: 500})
	tp := startProxy(t, u, Options{})
	limiter := tp.server.flowControl.longRunning
	used := func() int64 { return limiter.memoryUsed() - int64(tp.server.connected())*conn.ConnectionBytes }
	tp.get("jane", "/api") // by HTTP/2 from now on
	c := tp.dial("h2")
	c.request("/api/v1/pods?watch=true&resourceVersion=0") // the state is more than it has room for
	tp.until("what is kept for it counts", func() bool { return used() == watchBytes+copyBuffer+readAhead && limiter.late() == readAhead })
	c.Close()
	tp.until("it has ended", func() bool { return used() == 0 })
}

// TestNothingIsReadAheadForStrangers: nor does it count as that, whatever certificate they show.
func TestNothingIsReadAheadForStrangers(t *testing.T) {
	u := startUpstream(t, apiserver.Options{Pods: 500})
	tp := startProxy(t, u, Options{})
	limiter := tp.server.flowControl.longRunning
	w := &blockedWriter{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
	r := httptest.NewRequest(http.MethodGet, "/api/v1/pods?watch=true&resourceVersion=0", nil).WithContext(tp.ctx)
	r.Header.Set("Authorization", "Bearer token-stranger")
	foreign, err := x509.ParseCertificate(newAuthority(t).Issue(t, "carol").Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{foreign}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }() // the answer is broken off
		tp.server.ServeHTTP(w, r)
	}()
	<-w.writes
	if n := limiter.late(); n != 0 {
		t.Errorf("%d bytes", n)
	}
	close(w.goOn)
	<-done
}

// blockedWriter is a client that takes nothing before goOn is closed, and fails then.
type blockedWriter struct {
	*httptest.ResponseRecorder
	writes, goOn chan struct{}
}

func (w *blockedWriter) Write([]byte) (int, error) {
	close(w.writes)
	<-w.goOn
	return 0, io.ErrClosedPipe
}

// TestSharesOfMemory: one user has at most half of the memory, and so have all unknown tokens
// together, of which each source leaves others as much as it has. Callers without a credential have
// an eighth.
func TestSharesOfMemory(t *testing.T) {
	const room = 96
	l := newLongRunningLimiter(&Options{MaxLongRunning: 10 * room, MaxWatchesPerUser: 10 * room, WatchMemory: room * watchBytes})
	l.connections, l.kept = func() int { return 0 }, func() int64 { return 0 }
	var slots []*longRunningSlot
	acquire := func(key string, of share, most int) (n int) {
		for ; n < most; n++ {
			p, err := l.acquire(fmt.Sprint(key, n), of, of.caller == "system", 0)
			if err != nil {
				break
			}
			slots = append(slots, p)
		}
		return n
	}
	newToken := func(source string) share { return share{levelNewTokens, source} }
	if n := acquire("token ", newToken("a"), room); n != room/4 {
		t.Errorf("%d of one source", n)
	}
	all := room / 4
	for i := range 10 {
		n := acquire(fmt.Sprint("token ", i), newToken(fmt.Sprint(i)), room)
		if n == 0 && i < 5 {
			t.Errorf("none of source %d", i)
		}
		all += n
	}
	if all > room/2 {
		t.Errorf("%d of all sources", all)
	}
	if n := acquire("", share{levelAnonymous, "a"}, room) + acquire("", share{levelAnonymous, "b"}, room); n > room/8 || n < 2 {
		t.Errorf("%d without a credential", n)
	}
	jane := &user.DefaultInfo{Name: "jane"}
	known, accepted := slots[0], slots[1]
	if err := known.identify(jane); err != nil {
		t.Error(err)
	}
	if accepted.accepted(); l.shares[userShare(accepted.user)] != watchBytes || l.shares[newToken("a")] != (room/4-2)*watchBytes {
		t.Errorf("accepted: %v", l.shares)
	}
	for _, p := range slots[1:] {
		p.release()
		p.release() // which does nothing
	}
	slots = slots[:1]
	if n := acquire("user jane", userShare(userKey(jane)), room); n != room/2-1 {
		t.Errorf("%d of jane", n)
	}
	if n := acquire("token ", newToken("a"), 1); n != 1 {
		t.Error("no place for a new token")
	}
	if err := slots[len(slots)-1].identify(jane); err == nil {
		t.Error("jane has more than half")
	}
	if n := acquire("node ", userShare("system"), room); n != room/2-1 { // all that there is
		t.Errorf("%d of the system", n)
	}
	for _, p := range slots {
		p.release()
	}
	if len(l.shares)+len(l.byUser)+l.total != 0 {
		t.Errorf("left: %v, %v", l.shares, l.byUser)
	}
}

// TestBodiesOfWatches: the body of a forwarded WATCH counts, which is kept for a retry.
func TestBodiesOfWatches(t *testing.T) {
	u := startUpstream(t, apiserver.Options{Pods: 3})
	tp := startProxy(t, u, Options{})
	limiter := tp.server.flowControl.longRunning
	used := func() int64 {
		return limiter.memoryUsed() - limiter.late() - int64(tp.server.connected())*conn.ConnectionBytes
	}
	r, err := http.NewRequestWithContext(tp.ctx, http.MethodGet, tp.server.URL()+"/api/v1/pods?watch=true&resourceVersion=0", strings.NewReader(strings.Repeat("x", maxBuffered)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer token-jane")
	resp, err := tp.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := used(); resp.StatusCode != http.StatusOK || got != watchBytes+copyBuffer+maxBuffered {
		t.Errorf("%s, %d bytes", resp.Status, got)
	}
	resp.Body.Close()
	tp.until("it has ended", func() bool { return used() == 0 })
}

// TestHeadsOfWatches: what the heads of watches take, which are kept as long as they last, counts.
func TestHeadsOfWatches(t *testing.T) {
	u := startUpstream(t, apiserver.Options{Pods: 3})
	tp := startProxy(t, u, Options{Resources: []string{"pods"}, WatchMemory: 1 << 20})
	tp.ready()
	const watch = "/api/v1/pods?watch=true&resourceVersion=0"
	limiter := tp.server.flowControl.longRunning
	long := []string{"Authorization", "Bearer token-jane", "X-Padding", strings.Repeat("x", 220<<10)}
	var many []string
	for i := range 1500 {
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
		tp.until("they have ended", func() bool { return limiter.count() == 0 })
	}
	if used := limiter.memoryUsed() - int64(tp.server.connected())*conn.ConnectionBytes; used != 0 {
		t.Errorf("%d bytes are left", used)
	}
	usual := &http.Request{RequestURI: watch, Header: http.Header{"Authorization": {"Bearer " + strings.Repeat("x", 1200)}, "Accept": {"application/json"}}}
	if n := extraHead(usual); n != 0 {
		t.Errorf("a usual one takes %d bytes more than usual", n)
	}
}
