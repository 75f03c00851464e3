package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/testing/check"
)

// buildProxy builds weir-proxy from this source tree and returns its path.
func buildProxy(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weir-proxy")
	out, err := exec.Command("go", "build", raceFlag, "-o", path, "github.com/weirproject/weir/proxy/cmd/weir-proxy").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// tiny returns options for a measurement that takes little time.
func tiny(proxy string, pods int) Options {
	o := Defaults()
	o.Pods, o.Proxy, o.Runs = pods, proxy, 1
	o.Cheap, o.Duration, o.Follow, o.Patience = 50*time.Millisecond, 300*time.Millisecond, 100*time.Millisecond, time.Minute
	o.Kubelets, o.Watchers, o.Herd, o.SlowProtobuf, o.SlowJSON, o.Crowd, o.Stalled = 12, 3, 5, 2, 1, 15, 3
	o.ReadRate, o.SlowBytes = 600, 1e6
	return o
}

// TestRun measures a proxy in front of an embedded server, with all child processes. It checks that
// the figures exist and are possible, but not that they are good.
func TestRun(t *testing.T) {
	const pods = 120
	o := tiny(buildProxy(t), pods)
	var progress strings.Builder
	o.Progress = &progress
	b, err := Open(t.Context(), o)
	check.NoError(t, err)
	defer b.Close()
	if b.Pods() != pods {
		t.Errorf("%d pods, want %d", b.Pods(), pods)
	}
	results := map[string]Result{}
	for _, s := range Scenarios() {
		r, err := b.Run(t.Context(), s)
		check.NoError(t, err)
		for _, f := range s.figures {
			if _, ok := r.Weir[f.Key]; !ok && !strings.HasPrefix(f.Key, "closedAfterSeconds") {
				t.Errorf("%s: no %s", s.Name, f.Key)
			}
		}
		if len(r.APIServer) > 0 || len(r.Ratio) > 0 {
			t.Errorf("%s: there is no kube-apiserver, and it measured %v", s.Name, r.APIServer)
		}
		if !strings.Contains(progress.String(), s.Name+" 1/1  weir ") {
			t.Errorf("%s: no progress", s.Name)
		}
		results[s.Name] = r
	}
	f, err := b.Kubelets(t.Context(), true, 2)
	check.NoError(t, err)
	results["two"] = Result{Weir: f}
	for _, want := range []struct {
		scenario, figure string
		value            float64
	}{
		{"hold", "objects", pods}, {"label", "objects", 20}, {"initial", "events", pods + 1}, {"slowlists", "broken", 0},
		{"slowlists", "readers", 3}, {"slowreader", "unfinished50", 0}, {"slowreader", "gaps50", 0}, {"slowreader", "gaps2000", 0},
		{"kubelets", "closed", 0}, {"everybody", "closed", 0}, {"crowd", "closed", 0}, {"crowd", "watchers", 18}, {"two", "watchers", 2},
		{"stalled", "missed", 0}, {"stalled", "stalled", 3}, {"herd", "upstream", 0},
	} {
		if got := results[want.scenario].Weir[want.figure]; got != want.value {
			t.Errorf("%s: %s is %v, want %v", want.scenario, want.figure, got, want.value)
		}
	}
	for _, above := range []struct{ scenario, figure string }{
		{"hold", "heapBytes"}, {"hold", "rssBytes"}, {"list", "wireBytes"}, {"list", "gzipWireBytes"}, {"kubelets", "events"}, {"everybody", "events"},
		{"crowd", "events"}, {"stalled", "p99Seconds"}, {"stalled", "p99SecondsStalled"},
	} {
		if got := results[above.scenario].Weir[above.figure]; got <= 0 {
			t.Errorf("%s: %s is %v", above.scenario, above.figure, got)
		}
	}
}

func TestProxyThatDoesNotStart(t *testing.T) {
	k, err := newKubeconfig(&rest.Config{Host: "http://127.0.0.1:1"})
	check.NoError(t, err)
	defer k.remove()
	if _, err := startProxy(t.Context(), filepath.Join(t.TempDir(), "missing"), k); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	self, err := os.Executable() // a program that does not support the flags
	check.NoError(t, err)
	if _, err := startProxy(t.Context(), self, k); err == nil || !strings.Contains(err.Error(), "the proxy did not start") {
		t.Errorf("got %v", err)
	}
}

func TestWritesHaveToBeAllowed(t *testing.T) {
	b := &Bench{apiserver: true}
	for _, s := range Scenarios() {
		if err := b.Allows(s); errors.Is(err, ErrNoWrites) != slices.Contains([]string{"slowreader", "kubelets", "everybody", "crowd", "stalled"}, s.Name) {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
	if _, err := b.Run(t.Context(), kubelets); !errors.Is(err, ErrNoWrites) {
		t.Errorf("got %v", err)
	}
}

// TestMetricsGauge checks that the gauge of a remote server subtracts the cost of its own requests
// for metrics, which is 10 ms of CPU time each.
func TestMetricsGauge(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		cpu := 0.1 + 0.01*float64(asked)
		asked++
		fmt.Fprintf(w, "%s %v\n%s 4096\n", cpuMetric, cpu, rssMetric)
	}))
	defer server.Close()
	s, err := newTarget(t.Context(), nameAPIServer, &rest.Config{Host: server.URL})
	check.NoError(t, err)
	defer s.close()
	g := &metricsGauge{target: s}
	s.gauge = g
	spent := s.spent(t.Context(), func() {
		now, peak, err := g.memory(t.Context())
		if now != 4096 || peak != 4096 || err != nil {
			t.Errorf("%v and %v bytes, %v", now, peak, err)
		}
	})
	if spent > 1e-9 {
		t.Errorf("%v s", spent)
	}
}

// TestHeap checks that the heap is read from a profile, or from metrics if the server refuses
// profiles.
func TestHeap(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		collections := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/metrics":
				collections++
				fmt.Fprintf(w, "%s %d\n%s %d\n", heapMetric, 1000-collections, gcMetric, collections)
			case refuses:
				http.Error(w, "no", http.StatusForbidden)
			default:
				io.WriteString(w, "# HeapAlloc = 4096\n")
			}
		}))
		s, err := newTarget(t.Context(), nameEmbedded, &rest.Config{Host: server.URL})
		check.NoError(t, err)
		want := 4096.0
		if refuses {
			want = 996 // after three more garbage collections
		}
		check.Equal(t, s.heap(t.Context()), want, "refuses: %v, heap", refuses)
		s.close()
		server.Close()
	}
}

func TestProxyThatHasNotAnsweredItself(t *testing.T) {
	for page, ok := range map[string]bool{
		"weir_proxy_served_total{verb=\"list\"} 900\nweir_proxy_served_total{verb=\"watch\"} 95\nweir_proxy_upstream_requests_total{for=\"forwarded\"} 5\n": true,
		"weir_proxy_served_total{verb=\"list\"} 5\nweir_proxy_upstream_requests_total{for=\"forwarded\"} 1\n":                                               false,
		"weir_proxy_upstream_requests_total{for=\"forwarded\"} 1\n":                                                                                         false,
		"weir_proxy_upstream_requests_total{for=\"forwarded\"} 0\n":                                                                                         true,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, page) }))
		s, err := newTarget(t.Context(), nameWeir, &rest.Config{Host: server.URL})
		check.NoError(t, err)
		if err := s.answeredItself(t.Context(), io.Discard); (err == nil) != ok || err != nil && !errors.Is(err, errPassedOn) {
			t.Errorf("%q: %v", page, err)
		}
		s.close()
		server.Close()
	}
}

// gaugeOf is a gauge that returns the sizes of a list one after the other. At the end of the list
// it repeats the last size.
type gaugeOf struct {
	procGauge
	now, peak []float64
}

func (g *gaugeOf) memory(context.Context) (now, peak float64, err error) {
	now, peak = g.now[0], g.peak[0]
	if len(g.now) > 1 {
		g.now, g.peak = g.now[1:], g.peak[1:]
	}
	return now, peak, nil
}

func TestGrowth(t *testing.T) {
	for name, c := range map[string]struct {
		now, peak   []float64
		grown, most float64
	}{
		"nothing happens":              {[]float64{5}, []float64{9}, 0, 5},
		"seen between":                 {[]float64{5, 8, 6}, []float64{9, 9, 9}, 3, 8},
		"only the kernel has seen it":  {[]float64{5, 6}, []float64{9, 12}, 7, 12},
		"it had been as large already": {[]float64{5, 4}, []float64{9, 9}, 0, 5},
	} {
		g := &gaugeOf{now: c.now, peak: c.peak}
		growing := (&target{gauge: g}).grow(t.Context(), 0, nil)
		growing.poll(t.Context())
		if grown, most := growing.stop(t.Context()); grown != c.grown || most != c.most {
			t.Errorf("%s: grown by %v to %v", name, grown, most)
		}
	}
}

func TestGrowthBeyondItsLimit(t *testing.T) {
	over := make(chan struct{})
	g := &gaugeOf{now: []float64{5, 6, 11, 12}, peak: []float64{5, 6, 11, 12}}
	growing := (&target{gauge: g}).grow(t.Context(), 10, func() { close(over) })
	<-over
	if _, most := growing.stop(t.Context()); most < 11 {
		t.Errorf("%v", most)
	}
}
