package soak

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/proxy"
)

// namespaces are the namespaces to which the test's writers write.
var namespaces = []string{"soak-a", "soak-b", "soak-c"}

// world has two API servers on one etcd, two proxies in front of them, and the network between
// them.
type world struct {
	t       *testing.T
	begun   time.Time
	seed    uint64
	cluster *cluster.Cluster
	servers []*cluster.APIServer
	line    *line // between informers, proxies and API servers
	steady  *line // between writers and API servers; never bad
	ca      []byte
	proxyCA []byte
	proxies []*proxy.Server
	asked   []*requests // requests of each proxy to the API servers

	problems []string // since the last call of tell
	failed   bool     // a problem must fail the test

	mu     sync.Mutex
	events []string // faults and other events, for the log
}

// patience is the patience of the world's line.
const patience = 8 * time.Second

// maxEvents bounds the recorded events.
const maxEvents = 60

// newWorld starts the servers and the proxies. They are stopped when the test ends.
func newWorld(t *testing.T, ctx context.Context, seed uint64) *world {
	t.Helper()
	w := &world{t: t, begun: time.Now(), seed: seed, line: newLine(seed, patience), steady: newLine(seed, patience)}
	var err error
	if w.cluster, err = cluster.Start(ctx, cluster.Options{Logf: t.Logf}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("the servers' logs are in", w.cluster.KeepLogs())
		}
		if err := w.cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	if _, err := w.cluster.AddAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	w.servers = w.cluster.APIServers()
	for _, s := range w.servers {
		w.ca = append(append(w.ca, s.Config().CAData...), '\n')
	}
	t.Cleanup(w.steady.close)
	t.Cleanup(w.line.close)
	admin := w.admin(0)
	for _, name := range namespaces {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := admin.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w.defineWidgets(ctx)
	for i := range 2 {
		w.startProxy(ctx, proxyName(i))
	}
	return w
}

func proxyName(i int) string { return fmt.Sprintf("proxy-%d", i+1) }

func (w *world) startProxy(ctx context.Context, name string) {
	w.t.Helper()
	log := slog.New(slog.NewTextHandler(&proxyLog{w: w, name: name}, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	asked, upstream := &requests{begun: w.begun, line: w.line, tap: newTap(w.begun)}, w.config(ways[0], name)
	upstream.Wrap(asked.wrap)
	w.asked = append(w.asked, asked)
	s, err := proxy.New(ctx, proxy.Options{
		Upstream: upstream, Resources: []string{"configmaps", widgets.Resource + "." + widgets.Version + "." + widgets.Group}, Log: log,
	})
	check.NoError(w.t, err)
	w.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			w.t.Error(err)
		}
	})
	check.NoError(w.t, s.Start())
	w.proxies = append(w.proxies, s)
	w.proxyCA = append(append(w.proxyCA, s.CAData()...), '\n')
}

// proxyLog records a proxy's log lines as events of the world.
type proxyLog struct {
	w    *world
	name string
}

func (l *proxyLog) Write(p []byte) (int, error) {
	l.w.note("%s: %s", l.name, bytes.TrimSpace(p))
	return len(p), nil
}

func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// ways are the two ways to reach the API servers: directly, and through the proxies.
var ways = []string{"direct", "proxy"}

// config returns a client configuration with its own relay on the bad line. way selects the relay's
// targets: both API servers, or both proxies.
func (w *world) config(way, name string) *rest.Config {
	w.t.Helper()
	targets, ca := w.addresses(), w.ca
	if way == "proxy" {
		targets, ca = nil, w.proxyCA
		for _, p := range w.proxies {
			targets = append(targets, strings.TrimPrefix(p.URL(), "https://"))
		}
	}
	return w.over(w.line, way+"/"+name, ca, targets)
}

func (w *world) over(l *line, name string, ca []byte, targets []string) *rest.Config {
	w.t.Helper()
	r, err := l.relay(name, targets...)
	check.NoError(w.t, err)
	cfg := w.cluster.Config()
	cfg.Host, cfg.CAData = "https://"+r.address(), ca
	return cfg
}

func (w *world) addresses() (out []string) {
	for _, s := range w.servers {
		out = append(out, s.Address())
	}
	return out
}

// steadyConfig returns a client configuration with its own relay to both API servers. The relay is
// on the steady line, so its connections are never cut.
func (w *world) steadyConfig(name string) *rest.Config {
	return w.over(w.steady, name, w.ca, w.addresses())
}

// admin returns a client of one API server, without a relay or a proxy.
func (w *world) admin(server int) *kubernetes.Clientset {
	w.t.Helper()
	client, err := kubernetes.NewForConfig(w.servers[server].Config())
	check.NoError(w.t, err)
	return client
}

func (w *world) dynamic(cfg *rest.Config) dynamic.Interface {
	w.t.Helper()
	client, err := dynamic.NewForConfig(cfg)
	check.NoError(w.t, err)
	return client
}

// note records a fault or another event.
func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, fmt.Sprintf("%8.3fs  %s", time.Since(w.begun).Seconds(), fmt.Sprintf(format, args...)))
	w.events = w.events[max(0, len(w.events)-maxEvents):]
}

// takeEvents returns the events since the previous call.
func (w *world) takeEvents() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	events := w.events
	w.events = nil
	return events
}

// progress prints a line to standard error while the test runs.
func (w *world) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "soak %4.0fs: %s\n", time.Since(w.begun).Seconds(), fmt.Sprintf(format, args...))
}
