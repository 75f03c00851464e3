package proxy

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
)

// balancer is a TCP load balancer. It connects each client to the next backend whose /readyz
// succeeds. Like kube-proxy, it does not move open connections. If it cannot reach the chosen
// backend, it does not try another one.
type balancer struct {
	net.Listener
	health  *http.Client
	running sync.WaitGroup

	mu       sync.Mutex
	backends []string // addresses
	ready    []bool
	next     int
	refused  int // number of connections without a reachable backend
}

// probeEvery is the time between two probes of a backend.
const probeEvery = 100 * time.Millisecond

// startBalancer starts a balancer, and stops it when the test ends. cfg says how to verify the
// backends' certificates.
func startBalancer(t *testing.T, ctx context.Context, cfg *rest.Config, backends ...string) *balancer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	b := &balancer{Listener: l, health: cluster.HTTPClient(t, cfg), backends: backends, ready: make([]bool, len(backends))}
	ctx, cancel := context.WithCancel(ctx)
	t.Cleanup(func() {
		cancel()
		l.Close()
		b.running.Wait()
	})
	for i := range backends {
		b.running.Go(func() { b.probe(ctx, i) })
	}
	b.running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			b.running.Go(func() { b.pipe(ctx, conn) })
		}
	})
	return b
}

// probe checks again and again whether one backend is ready, each time over a new connection.
func (b *balancer) probe(ctx context.Context, i int) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		ready := false
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+b.backends[i]+"/readyz", nil)
		if err == nil {
			req.Close = true
			if resp, err := b.health.Do(req); err == nil {
				ready = resp.StatusCode == http.StatusOK
				resp.Body.Close()
			}
		}
		b.mu.Lock()
		b.ready[i] = ready
		b.mu.Unlock()
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// isReady reports whether a backend may be chosen for connections.
func (b *balancer) isReady(i int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ready[i]
}

// choose returns the backend for the next connection. It returns "" if no backend is ready.
func (b *balancer) choose() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range b.backends {
		b.next = (b.next + 1) % len(b.backends)
		if b.ready[b.next] {
			return b.backends[b.next]
		}
	}
	return ""
}

// pipe copies the data of one connection in both directions until the connection ends.
func (b *balancer) pipe(ctx context.Context, client net.Conn) {
	defer client.Close()
	server, err := new(net.Dialer).DialContext(ctx, "tcp", b.choose())
	if err != nil {
		b.mu.Lock()
		b.refused++
		b.mu.Unlock()
		return
	}
	defer server.Close()
	defer context.AfterFunc(ctx, func() {
		client.Close()
		server.Close()
	})()
	var both sync.WaitGroup
	carry := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_ = to.(*net.TCPConn).CloseWrite()
	}
	both.Go(func() { carry(server, client) })
	both.Go(func() { carry(client, server) })
	both.Wait()
}
