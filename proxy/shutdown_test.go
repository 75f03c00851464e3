package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// shutDown starts a shutdown of the proxy. ended receives its error.
func (tp *testProxy) shutDown(delay time.Duration) (ended <-chan error) {
	done := make(chan error, 1)
	go func() { done <- tp.server.Shutdown(tp.ctx, delay) }()
	return done
}

// shutDownInSteps starts a shutdown whose delay the test controls. goOn(n) ends the n-th eighth of
// the delay, for n of 2, 4, 5 and 8. ended receives the error of the shutdown.
func (tp *testProxy) shutDownInSteps() (goOn func(eighths time.Duration), ended <-chan error) {
	over, done := map[time.Duration]chan struct{}{2: make(chan struct{}), 4: make(chan struct{}), 5: make(chan struct{}), 8: make(chan struct{})}, make(chan error, 1)
	go func() {
		done <- tp.server.shutDown(tp.ctx, time.Second, func(ctx context.Context, eighths time.Duration) {
			select {
			case <-over[eighths]:
			case <-ctx.Done():
			}
		})
	}()
	return func(eighths time.Duration) { close(over[eighths]) }, done
}

// comesTo waits until the shutdown reaches a phase.
func (tp *testProxy) comesTo(s shutdownPhase) {
	tp.t.Helper()
	tp.until("the next stage", func() bool { return shutdownPhase(tp.server.shutdownPhase.Load()) >= s })
}

// rest returns the remaining lines of a watch, which must end without an error.
func (tp *testProxy) rest(resp *http.Response) (lines []string) {
	tp.t.Helper()
	in := bufio.NewReader(resp.Body)
	for {
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) && line == "" {
			return lines
		}
		if err != nil {
			tp.t.Errorf("the watch broke off: %v after %q", err, line)
			return lines
		}
		lines = append(lines, line)
	}
}

// TestShutdown checks that the proxy is not ready during a shutdown, but continues to serve.
// Watches end without an error. If they allow bookmarks and are served from the cache, they end
// with a bookmark at the last change. Responses ask clients to close their connections.
func TestShutdown(t *testing.T) {
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}})
	const marked = "&allowWatchBookmarks=true"
	open := func(path string) *http.Response {
		return tp.open(tp.client, http.MethodGet, path, "Authorization", "Bearer token-jane")
	}
	here, plain := open("/api/v1/pods?watch=true&resourceVersion=0"+marked), open("/api/v1/pods?watch=true&resourceVersion=0")
	passed := open("/api/v1/nodes?watch=true&resourceVersion=0" + marked)
	if n := tp.server.mirror.Find(podsResource).Watching(); n != 2 {
		t.Fatalf("%d watches are served from here", n)
	}
	old := tp.dial("http/1.1")
	goOn, ended := tp.shutDownInSteps()
	tp.comesTo(phaseUnready)
	tp.says(http.StatusServiceUnavailable, "[-]shutdown failed", "jane", "/readyz")
	tp.want(http.StatusOK, "jane", "/livez")
	made, err := u.writer().CoreV1().Pods("default").Create(tp.ctx, pod("later"), metav1.CreateOptions{})
	check.NoError(t, err)
	goOn(2)
	tp.comesTo(phaseGoingAway)
	if resp := old.send("GET", "/api/v1/pods?resourceVersion=0", 0, "").answer(); resp.StatusCode != http.StatusOK || !resp.Close {
		t.Errorf("on an old connection: %s, closes %v", resp.Status, resp.Close)
	}
	if resp := tp.dial("http/1.1").send("POST", "/api/v1/nodes", 2, "{}").answer(); resp.StatusCode/100 == 5 || !resp.Close {
		t.Errorf("what is passed on, on a new connection: %s, closes %v", resp.Status, resp.Close)
	}
	late := tp.open(tp.clientWith(nil), http.MethodGet, "/api/v1/pods?watch=true"+marked+"&resourceVersion="+made.ResourceVersion, "Authorization", "Bearer token-jane")
	goOn(4)
	goOn(5)
	for name, resp := range map[string]*http.Response{"here": here, "late": late} {
		lines := tp.rest(resp)
		if last := len(lines) - 1; last < 0 || !strings.Contains(lines[last], "BOOKMARK") || !strings.Contains(lines[last], made.ResourceVersion) {
			t.Errorf("%s: %.300q", name, lines)
		} else if name == "here" && !strings.Contains(strings.Join(lines[:last], ""), `"name":"later"`) {
			t.Errorf("the bookmark is of what was not told: %.300q", lines)
		}
	}
	if lines := tp.rest(plain); strings.Contains(strings.Join(lines, ""), "BOOKMARK") {
		t.Errorf("%.300q", lines)
	}
	tp.rest(passed)
	goOn(8)
	check.NoError(t, <-ended)
}

// TestShutdownOfLater checks that the watch of a resource that the proxy caches only during the
// shutdown also ends with a bookmark.
func TestShutdownOfLater(t *testing.T) {
	u := startUpstream(t, apiserver.Options{Pods: 3})
	u.block("/api/v1/pods")
	tp := startProxy(t, u, Options{Resources: []string{"pods"}})
	tp.until("it lists", func() bool { u.mu.Lock(); defer u.mu.Unlock(); return u.kept > 0 })
	goOn, ended := tp.shutDownInSteps()
	for _, eighths := range []time.Duration{2, 4, 5} {
		goOn(eighths)
	}
	tp.until("watches end", func() bool {
		tp.server.forwardedWatches.mu.Lock()
		defer tp.server.forwardedWatches.mu.Unlock()
		return !tp.server.forwardedWatches.until.IsZero()
	})
	res := tp.server.mirror.Find(podsResource)
	if res.Serving() != nil {
		t.Fatal("it is cached already")
	}
	u.block("")
	tp.until("it is cached", func() bool { return res.Serving() != nil })
	u.forwarded("")
	resp := tp.open(tp.client, http.MethodGet, "/api/v1/pods?watch=true&resourceVersion=0&allowWatchBookmarks=true", "Authorization", "Bearer token-jane")
	u.wantForwarded(0, "/api/v1/pods")
	if lines := tp.rest(resp); len(lines) == 0 || !strings.Contains(lines[len(lines)-1], "BOOKMARK") {
		t.Errorf("%.300q", lines)
	}
	goOn(8)
	check.NoError(t, <-ended)
}

// TestShutdownFinishes checks that the shutdown waits for requests in progress after the delay. It
// does not wait for logs, which last until their clients end them.
func TestShutdownFinishes(t *testing.T) {
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}})
	tp.until("no review is in progress", func() bool { // a review in progress would hang, too
		u.mu.Lock()
		defer u.mu.Unlock()
		return len(u.requests) == 0
	})
	u.setHanging(true)
	follows := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(tp.ctx, http.MethodGet, tp.server.URL()+"/api/v1/namespaces/default/pods/p/log?follow=true", nil)
		if err == nil {
			var resp *http.Response
			if resp, err = tp.client.Do(req); err == nil {
				err = fmt.Errorf("%s", resp.Status)
				resp.Body.Close()
			}
		}
		follows <- err
	}()
	created := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(tp.ctx, http.MethodPost, tp.server.URL()+"/api/v1/namespaces/default/pods",
			strings.NewReader(`{"metadata":{"name":"written"},"spec":{"containers":[{"name":"c","image":"i"}]}}`))
		if err == nil {
			req.Header.Set("Authorization", "Bearer token-jane")
			req.Header.Set("Content-Type", "application/json")
			var resp *http.Response
			if resp, err = tp.client.Do(req); err == nil && resp.StatusCode != http.StatusCreated {
				err = fmt.Errorf("%s", resp.Status)
			}
			if err == nil {
				resp.Body.Close()
			}
		}
		created <- err
	}()
	tp.until("both are under way", func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		uris := ""
		for _, q := range u.requests {
			uris += q.method + " " + q.uri + "\n"
		}
		return strings.Contains(uris, "/log?") && strings.Contains(uris, "POST /api/v1/namespaces/default/pods\n")
	})
	ended := tp.shutDown(0)
	tp.until("nothing but the write and the log is left", func() bool {
		conn, err := net.Dial("tcp", tp.addr())
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	select {
	case err := <-ended:
		t.Fatalf("it ended before the write did: %v", err)
	case err := <-created:
		t.Fatalf("the write ended without an answer: %v", err)
	default:
	}
	u.setHanging(false)
	check.NoError(t, <-created)
	check.NoError(t, <-ended)
	<-follows
	if _, err := u.writerPast().CoreV1().Pods("default").Get(tp.ctx, "written", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// TestShutdownUpgraded checks that the shutdown does not wait for upgraded connections, because
// they may never end.
func TestShutdownUpgraded(t *testing.T) {
	u, tp := start(t, apiserver.Options{}, Options{})
	over := make(chan struct{})
	defer close(over)
	u.upgradeUntil(over)
	for _, path := range []string{"/api/v1/reviews?watch=true", "/apis/example.com/v1/namespaces/n/screens/reviews", "/api/v1/namespaces/n/pods/p/proxy/reviews"} {
		if resp := tp.openWebSocket(path); resp.StatusCode != http.StatusSwitchingProtocols {
			t.Fatal(path, resp.Status)
		}
	}
	// A shutdown that waited for the connections would not return before the test's deadline.
	check.NoError(t, errors.Join(<-tp.shutDown(0), tp.ctx.Err()))
}

// TestShutdownStalledUpgrade checks that the shutdown does not wait for an upgraded connection
// whose client reads nothing.
func TestShutdownStalledUpgrade(t *testing.T) {
	u, tp := start(t, apiserver.Options{}, Options{})
	var written atomic.Int64
	u.upgrade(func(conn net.Conn) {
		var err error
		for block := make([]byte, 64<<10); err == nil; written.Add(1) {
			_, err = conn.Write(block)
		}
	})
	if resp := tp.openWebSocket("/api/v1/namespaces/n/pods/p/proxy/reviews"); resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(resp.Status)
	}
	last, same := int64(0), 0
	tp.until("nothing goes on", func() bool {
		if n := written.Load(); n == 0 || n != last {
			last, same = n, 0
		} else {
			same++
		}
		return same == 50
	})
	// A shutdown that waited for the connection would not return before the test's deadline.
	check.NoError(t, errors.Join(<-tp.shutDown(0), tp.ctx.Err()))
}

// TestShutdownAgain checks that a second shutdown ends the first immediately.
func TestShutdownAgain(t *testing.T) {
	_, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}})
	first := tp.shutDown(time.Hour)
	tp.comesTo(phaseUnready)
	check.NoError(t, tp.server.Shutdown(tp.ctx, time.Hour))
	check.NoError(t, <-first)
}

// TestGoawayFirst checks that an HTTP/2 client receives GOAWAY before its watch ends, so that it
// sends its next requests to another replica.
func TestGoawayFirst(t *testing.T) {
	_, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}})
	framer := tp.dial("h2").request("/api/v1/pods?watch=true&resourceVersion=0")
	tp.until("it watches", func() bool { return tp.server.mirror.Find(podsResource).Watching() == 1 })
	goOn, ended := tp.shutDownInSteps()
	goOn(2)
	goOn(4)
	goaway, over := false, false
	for !over {
		frame, err := framer.ReadFrame()
		check.NoError(t, err)
		switch frame := frame.(type) {
		case *http2.GoAwayFrame:
			if goaway = frame.ErrCode == http2.ErrCodeNo && frame.LastStreamID >= 1; goaway {
				goOn(5)
			}
		case *http2.DataFrame:
			over = frame.StreamEnded()
		case *http2.RSTStreamFrame:
			t.Fatalf("the watch broke off: %v", frame.ErrCode)
		}
	}
	if !goaway {
		t.Error("no GOAWAY before the end of the watch")
	}
	goOn(8)
	check.NoError(t, <-ended)
}

// TestGoawayChance checks that the proxy occasionally asks an HTTP/2 client to use another
// connection, and that the client's open streams continue.
func TestGoawayChance(t *testing.T) {
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}, GoawayChance: MaxGoawayChance})
	watch := tp.watch("jane", "/api/v1/pods?watch=true&resourceVersion=0")
	tp.next(watch, "ADDED")
	connections := 0
	trace := &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		if !got.Reused {
			connections++
		}
	}}
	tp.until("there were three more connections", func() bool {
		ctx := httptrace.WithClientTrace(tp.ctx, trace)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, tp.server.URL()+"/api/v1/pods?resourceVersion=0", nil)
		check.NoError(t, err)
		req.Header.Set("Authorization", "Bearer token-jane")
		resp, err := tp.client.Do(req)
		check.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		if resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s, %v", resp.Status, err)
		}
		return connections >= 3
	})
	must(t)(u.writer().CoreV1().Pods("default").Create(tp.ctx, pod("later"), metav1.CreateOptions{}))
	tp.next(watch, "later")
	for _, chance := range []float64{-1, 0.5} {
		if _, err := New(context.Background(), Options{Upstream: u.config, GoawayChance: chance}); !errors.Is(err, ErrInvalidOptions) {
			t.Errorf("%v: %v", chance, err)
		}
	}
}
