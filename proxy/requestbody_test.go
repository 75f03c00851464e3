package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/apiserver"
)

// TestSlowBody: nobody waits for a body that nobody wants.
func TestSlowBody(t *testing.T) {
	u := startUpstream(t, apiserver.Options{Pods: 3})
	wait := defaultTimeouts
	wait.discard = 200 * time.Millisecond
	tp := startProxy(t, u, Options{Resources: []string{"pods"}, timeouts: wait})
	tp.ready()
	// A body that never comes, of a request that needs none.
	for _, path := range []string{"/api/v1/pods?resourceVersion=0", "/livez", "/metrics", "/api/v1/pods?watch=true"} {
		c := tp.dial("http/1.1").send("GET", path, 100, "x")
		if resp := c.answer(); resp.StatusCode != http.StatusRequestTimeout || !resp.Close {
			t.Errorf("%s: %s %v", path, resp.Status, resp.Header)
		}
		c.ends(path)
	}
	// One that is too long.
	c := tp.dial("http/1.1").send("GET", "/api/v1/pods?resourceVersion=0", 1<<20, strings.Repeat("x", 1<<17))
	if resp := c.answer(); resp.StatusCode != http.StatusOK {
		t.Error(resp.Status)
	}
	// One that comes, after which the connection is good for the next request.
	c = tp.dial("http/1.1").send("GET", "/api/v1/pods?resourceVersion=0", 4, "body")
	resp := c.answer()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Error(resp.Status, err)
	}
	if resp := c.send("GET", "/livez", 0, "").answer(); resp.StatusCode != http.StatusOK {
		t.Error(resp.Status)
	}
}

// drip is a request body of which a byte comes now and then.
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

// TestDrippedBody: a small body, which is read before anybody knows whose it is, comes as a whole
// in time, or its request gives up its seat.
func TestDrippedBody(t *testing.T) {
	u := startUpstream(t, apiserver.Options{})
	wait := defaultTimeouts
	wait.discard = 200 * time.Millisecond
	tp := startProxy(t, u, Options{timeouts: wait})
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	body := drip{ticker.C, tp.ctx.Done()}
	const path, length = "/api/v1/namespaces/default/pods", 2000
	// By HTTP/1.1.
	c := tp.dial("http/1.1").send("POST", path, length, "")
	dripping := make(chan struct{})
	go func() {
		defer close(dripping)
		_, _ = io.CopyN(c, body, length) // until the connection is closed
	}()
	if resp := c.answer(); resp.StatusCode != http.StatusRequestTimeout || !resp.Close {
		t.Errorf("HTTP/1.1: %s %v", resp.Status, resp.Header)
	}
	c.Close()
	<-dripping
	// By HTTP/2.
	req, err := http.NewRequestWithContext(tp.ctx, http.MethodPost, tp.server.URL()+path, io.LimitReader(body, length))
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = length
	req.Header.Set("Authorization", "Bearer token-jane")
	resp, err := tp.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestTimeout || resp.ProtoMajor != 2 {
		t.Errorf("HTTP/2: %s", resp.Status)
	}
	tp.until("its place is free", func() bool { return tp.server.flowControl.mutating.inUse() == 0 })
	if got := u.forwarded(path); len(got) > 0 {
		t.Errorf("%d were forwarded", len(got))
	}
}

// TestSlowWriter: a client that stops in the middle of what it writes does not hold what it writes
// to.
func TestSlowWriter(t *testing.T) {
	u := startUpstream(t, apiserver.Options{})
	wait := defaultTimeouts
	wait.discard = 50 * time.Millisecond
	tp := startProxy(t, u, Options{timeouts: wait})
	c := tp.dial("http/1.1")
	fmt.Fprintf(c, "POST /api/v1/namespaces/default/pods HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
	if _, err := u.writerPast().CoreV1().Pods("default").Create(tp.ctx, pod("other"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Close()
	tp.until("its place is free", func() bool { return tp.server.flowControl.mutating.inUse() == 0 })
}
