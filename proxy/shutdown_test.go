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
	"testing"
	"time"

	"golang.org/x/net/http2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/apiserver"
)

// shutDown begins to shut the proxy down. ended has its error.
func (f *fixture) shutDown(delay time.Duration) (ended <-chan error) {
	done := make(chan error, 1)
	go func() { done <- f.proxy.Shutdown(f.ctx, delay) }()
	return done
}

// shutDownInSteps begins a shutdown whose delay passes as the test wants: goOn lets so many eighths
// of it be over. ended has its error.
func (f *fixture) shutDownInSteps() (goOn func(eighths time.Duration), ended <-chan error) {
	over, done := map[time.Duration]chan struct{}{2: make(chan struct{}), 4: make(chan struct{}), 5: make(chan struct{}), 8: make(chan struct{})}, make(chan error, 1)
	go func() {
		done <- f.proxy.shutDown(f.ctx, time.Second, func(ctx context.Context, eighths time.Duration) {
			select {
			case <-over[eighths]:
			case <-ctx.Done():
			}
		})
	}()
	return func(eighths time.Duration) { close(over[eighths]) }, done
}

// comesTo waits until a shutdown has come so far.
func (f *fixture) comesTo(s shutdownPhase) {
	f.t.Helper()
	f.until("the next stage", func() bool { return shutdownPhase(f.proxy.shutdownPhase.Load()) >= s })
}

// rest returns the lines of a watch up to its end, which must be in good order.
func (f *fixture) rest(resp *http.Response) (lines []string) {
	f.t.Helper()
	in := bufio.NewReader(resp.Body)
	for {
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) && line == "" {
			return lines
		}
		if err != nil {
			f.t.Errorf("the watch broke off: %v after %q", err, line)
			return lines
		}
		lines = append(lines, line)
	}
}

// TestShutdown: while the proxy is about to end it is not ready, and serves; watches end in good
// order, those from here with a bookmark of everything they have told, and answers say that their
// connection ends.
func TestShutdown(t *testing.T) {
	u := startUpstream(t, apiserver.Options{Pods: 3})
	f := startProxy(t, u, Options{Resources: []string{"pods"}})
	f.ready()
	const marked = "&allowWatchBookmarks=true"
	open := func(path string) *http.Response {
		return f.open(f.client, http.MethodGet, path, "Authorization", "Bearer token-jane")
	}
	here, plain := open("/api/v1/pods?watch=true"+marked), open("/api/v1/pods?watch=true")
	passed := open("/api/v1/nodes?watch=true" + marked)
	if n := f.proxy.resources.find(podsResource).watchers.Load(); n != 2 {
		t.Fatalf("%d watches are served from here", n)
	}
	old := f.dial("http/1.1")
	goOn, ended := f.shutDownInSteps()
	f.comesTo(phaseUnready)
	if code, body := f.get("jane", "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "[-]shutdown failed") {
		t.Errorf("/readyz: %d %s", code, body)
	}
	if code, body := f.get("jane", "/livez"); code != http.StatusOK {
		t.Errorf("/livez: %d %s", code, body)
	}
	made, err := u.writer().CoreV1().Pods("default").Create(f.ctx, pod("later"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	goOn(2)
	f.comesTo(phaseGoingAway)
	if resp := old.send("GET", "/api/v1/pods?resourceVersion=0", 0, "").answer(); resp.StatusCode != http.StatusOK || !resp.Close {
		t.Errorf("on an old connection: %s, closes %v", resp.Status, resp.Close)
	}
	if resp := f.dial("http/1.1").send("POST", "/api/v1/nodes", 2, "{}").answer(); resp.StatusCode/100 == 5 || !resp.Close {
		t.Errorf("what is passed on, on a new connection: %s, closes %v", resp.Status, resp.Close)
	}
	late := f.open(f.clientWith(nil), http.MethodGet, "/api/v1/pods?watch=true"+marked+"&resourceVersion="+made.ResourceVersion, "Authorization", "Bearer token-jane")
	goOn(4)
	goOn(5)
	for name, resp := range map[string]*http.Response{"here": here, "late": late} {
		lines := f.rest(resp)
		if last := len(lines) - 1; last < 0 || !strings.Contains(lines[last], "BOOKMARK") || !strings.Contains(lines[last], made.ResourceVersion) {
			t.Errorf("%s: %.300q", name, lines)
		} else if name == "here" && !strings.Contains(strings.Join(lines[:last], ""), `"name":"later"`) {
			t.Errorf("the bookmark is of what was not told: %.300q", lines)
		}
	}
	if lines := f.rest(plain); strings.Contains(strings.Join(lines, ""), "BOOKMARK") {
		t.Errorf("%.300q", lines)
	}
	f.rest(passed)
	goOn(8)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestShutdownOfLater: what comes to be cached while the proxy is about to end has its watches
// ended like all others.
func TestShutdownOfLater(t *testing.T) {
	u := startUpstream(t, apiserver.Options{Pods: 3})
	u.block("/api/v1/pods")
	f := startProxy(t, u, Options{Resources: []string{"pods"}})
	f.until("it lists", func() bool { u.mu.Lock(); defer u.mu.Unlock(); return u.kept > 0 })
	goOn, ended := f.shutDownInSteps()
	for _, eighths := range []time.Duration{2, 4, 5} {
		goOn(eighths)
	}
	f.until("watches end", func() bool {
		f.proxy.forwardedWatches.mu.Lock()
		defer f.proxy.forwardedWatches.mu.Unlock()
		return !f.proxy.forwardedWatches.until.IsZero()
	})
	res := f.proxy.resources.find(podsResource)
	if res.ready.Load() != nil {
		t.Fatal("it is cached already")
	}
	u.block("")
	f.until("it is cached", func() bool { return res.ready.Load() != nil })
	u.forwarded("")
	resp := f.open(f.client, http.MethodGet, "/api/v1/pods?watch=true&allowWatchBookmarks=true", "Authorization", "Bearer token-jane")
	if passed := u.forwarded("/api/v1/pods"); len(passed) > 0 {
		t.Fatal("it is not served from here")
	}
	if lines := f.rest(resp); len(lines) == 0 || !strings.Contains(lines[len(lines)-1], "BOOKMARK") {
		t.Errorf("%.300q", lines)
	}
	goOn(8)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestShutdownFinishes: what is under way when the delay is over finishes first, but for what lasts
// as long as its client likes.
func TestShutdownFinishes(t *testing.T) {
	u := startUpstream(t, apiserver.Options{Pods: 3})
	f := startProxy(t, u, Options{Resources: []string{"pods"}})
	f.ready()
	f.until("nobody is asked about", func() bool { // whose answer would not come
		u.mu.Lock()
		defer u.mu.Unlock()
		return len(u.requests) == 0
	})
	u.setHanging(true)
	follows := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(f.ctx, http.MethodGet, f.proxy.URL()+"/api/v1/namespaces/default/pods/p/log?follow=true", nil)
		if err == nil {
			var resp *http.Response
			if resp, err = f.client.Do(req); err == nil {
				err = fmt.Errorf("%s", resp.Status)
				resp.Body.Close()
			}
		}
		follows <- err
	}()
	created := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(f.ctx, http.MethodPost, f.proxy.URL()+"/api/v1/namespaces/default/pods",
			strings.NewReader(`{"metadata":{"name":"written"},"spec":{"containers":[{"name":"c","image":"i"}]}}`))
		if err == nil {
			req.Header.Set("Authorization", "Bearer token-jane")
			req.Header.Set("Content-Type", "application/json")
			var resp *http.Response
			if resp, err = f.client.Do(req); err == nil && resp.StatusCode != http.StatusCreated {
				err = fmt.Errorf("%s", resp.Status)
			}
			if err == nil {
				resp.Body.Close()
			}
		}
		created <- err
	}()
	f.until("both are under way", func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		uris := ""
		for _, q := range u.requests {
			uris += q.method + " " + q.uri + "\n"
		}
		return strings.Contains(uris, "/log?") && strings.Contains(uris, "POST /api/v1/namespaces/default/pods\n")
	})
	ended := f.shutDown(0)
	f.until("nothing but the write and the log is left", func() bool {
		conn, err := net.Dial("tcp", f.addr())
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
	if err := <-created; err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	<-follows
	if _, err := u.writerPast().CoreV1().Pods("default").Get(f.ctx, "written", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// TestShutdownUpgraded: no upgraded connection is waited for, whatever it is for: nobody knows when
// it might end.
func TestShutdownUpgraded(t *testing.T) {
	u := startUpstream(t, apiserver.Options{})
	f := startProxy(t, u, Options{})
	over := make(chan struct{})
	defer close(over)
	u.setFault(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			writeStatus(w, http.StatusForbidden)
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		<-over
	})
	// The upstream of the tests has faults where a path ends so.
	for _, path := range []string{"/api/v1/reviews?watch=true", "/apis/example.com/v1/namespaces/n/screens/reviews", "/api/v1/namespaces/n/pods/p/proxy/reviews"} {
		resp := f.open(f.http1(nil), http.MethodGet, path, "Authorization", "Bearer token-jane", "Connection", "Upgrade", "Upgrade", "websocket")
		if resp.StatusCode != http.StatusSwitchingProtocols {
			t.Fatal(path, resp.Status)
		}
	}
	select {
	case err := <-f.shutDown(0):
		if err != nil {
			t.Error(err)
		}
	case <-f.ctx.Done():
		t.Error("it waits for them")
	}
}

// TestShutdownAgain: a second shutdown ends the first at once.
func TestShutdownAgain(t *testing.T) {
	u := startUpstream(t, apiserver.Options{Pods: 3})
	f := startProxy(t, u, Options{Resources: []string{"pods"}})
	f.ready()
	first := f.shutDown(time.Hour)
	f.comesTo(phaseUnready)
	if err := f.proxy.Shutdown(f.ctx, time.Hour); err != nil {
		t.Error(err)
	}
	if err := <-first; err != nil {
		t.Error(err)
	}
}

// TestGoawayFirst: an HTTP/2 client is told to make its next requests elsewhere before its watch
// ends.
func TestGoawayFirst(t *testing.T) {
	u := startUpstream(t, apiserver.Options{Pods: 3})
	f := startProxy(t, u, Options{Resources: []string{"pods"}})
	f.ready()
	framer := f.dial("h2").request("/api/v1/pods?watch=true")
	f.until("it watches", func() bool { return f.proxy.resources.find(podsResource).watchers.Load() == 1 })
	goOn, ended := f.shutDownInSteps()
	goOn(2)
	goOn(4)
	goaway, over := false, false
	for !over {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
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
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestGoawayChance: now and then an HTTP/2 client is asked to use another connection, and loses
// nothing of what it has open.
func TestGoawayChance(t *testing.T) {
	u := startUpstream(t, apiserver.Options{Pods: 3})
	f := startProxy(t, u, Options{Resources: []string{"pods"}, GoawayChance: MaxGoawayChance})
	f.ready()
	watch := f.watch("jane", "/api/v1/pods?watch=true")
	f.next(watch, "ADDED")
	connections := 0
	trace := &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		if !got.Reused {
			connections++
		}
	}}
	f.until("there were three more connections", func() bool {
		ctx := httptrace.WithClientTrace(f.ctx, trace)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.proxy.URL()+"/api/v1/pods?resourceVersion=0", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer token-jane")
		resp, err := f.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s, %v", resp.Status, err)
		}
		return connections >= 3
	})
	if _, err := u.writer().CoreV1().Pods("default").Create(f.ctx, pod("later"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.next(watch, "later")
	for _, chance := range []float64{-1, 0.5} {
		if _, err := New(context.Background(), Options{Upstream: u.config, GoawayChance: chance}); !errors.Is(err, ErrOptions) {
			t.Errorf("%v: %v", chance, err)
		}
	}
}
