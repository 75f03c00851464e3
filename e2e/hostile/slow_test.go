package hostile

import (
	"bufio"
	"context"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/http2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// connectionLimit returns the number of connections that attackers open. With -hostile.timed, it is
// the limit of file descriptors, minus the descriptors for well-behaved clients and other files. It
// is at most 12,000, because one address has a limited number of ports. Without -hostile.timed, it
// is 2,000.
func connectionLimit() int {
	const short = 2000
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || !*timed {
		return short
	}
	return int(min(limit.Cur-min(limit.Cur/2, clientCount+2000), 12_000))
}

// silentConnections opens connections that never start a TLS handshake. It also opens connections
// that never send a request after the handshake.
func (a *attackers) silentConnections(ctx context.Context) {
	a.each(ctx, 500, func(ctx context.Context, _ int) {
		conn, err := a.victim.connect(ctx, a.from)
		if err != nil {
			return
		}
		defer conn.Close()
		a.notes.connected()
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		_, _ = conn.Read(make([]byte, 1)) // returns when the server closes the connection
	})
	a.each(ctx, 500, func(ctx context.Context, _ int) {
		if c, err := a.openHTTP2(ctx); err == nil {
			defer c.close()
			c.wait(ctx)
		}
	})
}

// unfinishedHeads opens 1,000 connections. On each it sends a part of an HTTP/1.1 request head.
func (a *attackers) unfinishedHeads(ctx context.Context) {
	begun := "GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 255<<10)
	a.each(ctx, 1000, func(ctx context.Context, _ int) { a.sendHTTP1(ctx, begun, 0) })
}

// slowBytes sends many HTTP/1.1 request heads and HTTP/2 request bodies, each at one byte per
// second.
func (a *attackers) slowBytes(ctx context.Context) {
	begun := "GET /livez HTTP/1.1\r\nHost: localhost\r\nX: "
	a.each(ctx, 200, func(ctx context.Context, _ int) { a.sendHTTP1(ctx, begun, time.Second) })
	block := head("POST", "/api/v1/namespaces/default/pods", field{"content-type", "application/json"})
	a.each(ctx, 10, func(ctx context.Context, _ int) {
		c, err := a.openHTTP2(ctx)
		if err != nil {
			return
		}
		defer c.close()
		open := make([]uint32, 0, manyStreams)
		for range manyStreams {
			stream, err := c.request(block, false)
			if err != nil {
				return
			}
			open = append(open, stream)
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		every(ctx, time.Second, func() {
			for _, stream := range open {
				if c.write(func(f *http2.Framer) error { return f.WriteData(stream, false, []byte(" ")) }) != nil {
					cancel()
				}
			}
		})
	})
}

// sendHTTP1 sends the start of a request, and then one byte per period. If period is 0, it sends no
// further bytes. It returns when the server answers or closes the connection, or when ctx ends.
func (a *attackers) sendHTTP1(ctx context.Context, begun string, period time.Duration) {
	conn, err := a.dial(ctx, "http/1.1")
	if err != nil {
		return
	}
	defer conn.NetConn().Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = conn.NetConn().Close() })()
	if _, err := conn.Write([]byte(begun)); err != nil {
		return
	}
	if period > 0 {
		a.running.Go(func() {
			every(ctx, period, func() {
				if _, err := conn.Write([]byte("x")); err != nil {
					cancel()
				}
			})
		})
	}
	if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
		a.notes.received(strconv.Itoa(resp.StatusCode))
		_ = resp.Body.Close()
	}
}

// churn changes 50 pods per second, so that watches have events to send.
func (a *attackers) churn(ctx context.Context) {
	a.once(ctx, 1, func(ctx context.Context, _ int) {
		set, err := kubernetes.NewForConfig(shared.Config())
		if err != nil {
			return
		}
		i := 0
		every(ctx, 20*time.Millisecond, func() {
			pod := pods.Pod(i % podCount)
			change := []byte(`{"metadata":{"annotations":{"change":"` + strconv.Itoa(i) + `"}}}`)
			i++
			// Ignore an error: another change follows.
			_, _ = set.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, change, metav1.PatchOptions{})
		})
	})
}
