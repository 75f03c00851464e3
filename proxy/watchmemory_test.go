package proxy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/proxy/internal/mirror"
)

// TestWatchMemory lets watches use too much memory while pods keep changing. The proxy must
// disconnect a client that reads nothing. A client that reads must keep its watch.
func TestWatchMemory(t *testing.T) {
	u, tp := startReady(t, apiserver.Options{Pods: 500}, Options{Resources: []string{"pods"}, LogBytes: 10_000})
	const watch = "/api/v1/pods?watch=true&resourceVersion=0"
	lines := tp.watch("jane", watch)
	tp.next(lines, "ADDED")
	tp.dial("h2").request(watch) // more than fits into the client's window
	res := tp.resource("pods")
	tp.until("both watch", func() bool { return res.Watching() == 2 })
	l := tp.server.seats.Watches
	l.Memory.NewCharge(0, "").Add(l.Memory.Limit() - l.Memory.Used() - 10_000)
	ctx, cancel := context.WithCancel(tp.ctx)
	var writing sync.WaitGroup
	writing.Go(func() {
		pods := u.writerPast().CoreV1().Pods("default")
		for i := 0; ctx.Err() == nil; i++ {
			p := pod(fmt.Sprint("churn", i%300))
			p.Labels = map[string]string{"round": fmt.Sprint(i)}
			if _, err := pods.Update(tp.ctx, p, metav1.UpdateOptions{}); err != nil {
				_, _ = pods.Create(tp.ctx, p, metav1.CreateOptions{})
			}
		}
	})
	defer writing.Wait()
	defer cancel()
	go func() {
		for range lines { // this client reads everything
		}
	}()
	tp.until("it is let go", func() bool { return tp.server.mirror.Shed.Load() > 0 && res.Watching() == 1 })
}

// takeSlowly opens a watch over HTTP/2 and reads 8 KiB every 25 ms, until the test ends.
func (tp *testProxy) takeSlowly(path string) {
	tp.t.Helper()
	const step = 8 << 10
	framer := tp.dial("h2").request(path)
	var writing sync.Mutex
	go func() {
		for {
			frame, err := framer.ReadFrame()
			if err != nil {
				return
			}
			if ping, ok := frame.(*http2.PingFrame); ok && !ping.IsAck() {
				writing.Lock()
				_ = framer.WritePing(true, ping.Data)
				writing.Unlock()
			}
		}
	}()
	go func() {
		tick := time.NewTicker(25 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			writing.Lock()
			err := errors.Join(framer.WriteWindowUpdate(0, step), framer.WriteWindowUpdate(1, step))
			writing.Unlock()
			if err != nil {
				return
			}
		}
	}()
}

// change changes pods, and ConfigMaps less often, until the context ends.
func change(ctx context.Context, client kubernetes.Interface) {
	pods, maps := client.CoreV1().Pods("default"), client.CoreV1().ConfigMaps("default")
	for i := 0; ctx.Err() == nil; i++ {
		p := pod(fmt.Sprint("churn", i%500))
		p.Labels, p.Annotations = map[string]string{"round": fmt.Sprint(i)}, map[string]string{"long": strings.Repeat("x", 4<<10)}
		if _, err := pods.Update(context.Background(), p, metav1.UpdateOptions{}); err != nil {
			_, _ = pods.Create(context.Background(), p, metav1.CreateOptions{})
		}
		if i%3 > 0 {
			continue
		}
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("churn", i%300)}, Data: map[string]string{"round": fmt.Sprint(i)}}
		if _, err := maps.Update(context.Background(), m, metav1.UpdateOptions{}); err != nil {
			_, _ = maps.Create(context.Background(), m, metav1.CreateOptions{})
		}
	}
}

// keepChanging changes pods and ConfigMaps until the test ends.
func (tp *testProxy) keepChanging() {
	ctx, cancel := context.WithCancel(tp.ctx)
	var writing sync.WaitGroup
	writing.Go(func() { change(ctx, tp.upstream.writerPast()) })
	tp.t.Cleanup(func() {
		cancel()
		writing.Wait()
	})
}

// keptFor returns the number of bytes that are buffered for the watches of a resource.
func keptFor(res *mirror.Resource) int64 { return res.State().Session.Cache().BacklogBytes() }

// overMemory reports whether watches use more memory than allowed. If fill is set, it first charges
// all of the allowed memory.
func (tp *testProxy) overMemory(fill bool) bool {
	w := tp.server.seats.Watches
	if fill {
		w.Memory.NewCharge(0, "").Add(w.Memory.Limit() - w.Memory.Used() + 10_000)
	}
	return w.MemoryExcess() > 0
}

// TestStuckBehindSlow checks that the proxy disconnects a client that reads nothing, even if a slow
// client that watches another resource has a larger backlog.
func TestStuckBehindSlow(t *testing.T) {
	_, tp := startReady(t, apiserver.Options{Pods: 500}, Options{Resources: []string{"pods", "configmaps"}, LogBytes: 10_000})
	tp.takeSlowly("/api/v1/pods?watch=true&resourceVersion=0")
	tp.dial("h2").request("/api/v1/configmaps?watch=true&resourceVersion=0")
	pods, maps := tp.resource("pods"), tp.resource("configmaps")
	tp.until("both watch", func() bool { return pods.Watching() == 1 && maps.Watching() == 1 })
	tp.keepChanging()
	tp.until("both are slow, and more is kept for pods", func() bool { return keptFor(maps) > 20_000 && keptFor(pods) > keptFor(maps) })
	tp.until("who takes nothing is let go", func() bool { return tp.overMemory(true) && maps.Watching() == 0 })
	if tp.server.mirror.Shed.Load() == 0 {
		t.Error("it is not counted")
	}
}

// TestSlowIsShed checks that the proxy disconnects a slow client when the watches need too much
// memory and no client is stalled.
func TestSlowIsShed(t *testing.T) {
	_, tp := startReady(t, apiserver.Options{Pods: 500}, Options{Resources: []string{"pods"}, LogBytes: 10_000})
	tp.takeSlowly("/api/v1/pods?watch=true&resourceVersion=0")
	pods := tp.resource("pods")
	tp.until("it watches", func() bool { return pods.Watching() == 1 })
	tp.keepChanging()
	tp.until("it is slow", func() bool { return keptFor(pods) > 20_000 })
	tp.overMemory(true)
	tp.until("there is room", func() bool { return !tp.overMemory(false) })
	if pods.Watching() != 0 || tp.server.mirror.Shed.Load() != 1 {
		t.Errorf("%d were let go, %d are left", tp.server.mirror.Shed.Load(), pods.Watching())
	}
}
