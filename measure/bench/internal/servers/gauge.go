package servers

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// gauge reads a server's CPU time and memory.
type gauge interface {
	// cpu returns the CPU time that the server has used, minus the CPU time of the gauge's own
	// requests.
	cpu(context.Context) (time.Duration, error)
	// memory returns the server's current resident set size and the largest one that is known, in
	// bytes.
	memory(context.Context) (now, peak float64, err error)
	// every returns the time to wait between two calls of memory, so that they do not load the server.
	every() time.Duration
}

// newGauge returns a gauge that reads /proc if the server runs on this machine and /proc shows it.
// Otherwise the gauge reads the server's metrics.
func newGauge(ctx context.Context, t *target) gauge {
	at, err := url.Parse(t.config.Host)
	if err == nil {
		port, _ := strconv.Atoi(at.Port())
		if ip := net.ParseIP(at.Hostname()); ip != nil && ip.IsLoopback() || at.Hostname() == "localhost" {
			if p, ok := listening(port); ok && (t.name != nameAPIServer || t.is(ctx, p)) {
				return procGauge{p}
			}
		}
	}
	return &metricsGauge{target: t}
}

// is reports whether p is the process of the server. It compares the time at which p started with
// the start time that the server reports. If the times differ, p only forwards connections to the
// server, as ssh, docker-proxy and kubectl port-forward do.
func (t *target) is(ctx context.Context, p pid) bool {
	const tolerance = 1 // in seconds: Linux reports its boot time in whole seconds
	m, err := t.metrics(ctx, startMetric)
	if err != nil {
		return false
	}
	started, err := p.started()
	return err == nil && math.Abs(m[startMetric]-started) <= tolerance
}

// procGauge reads a process of this machine in /proc.
type procGauge struct{ process pid }

func (g procGauge) cpu(context.Context) (time.Duration, error)            { return g.process.cpu() }
func (g procGauge) memory(context.Context) (now, peak float64, err error) { return g.process.memory() }
func (g procGauge) every() time.Duration                                  { return 50 * time.Millisecond }

// metricsGauge reads /metrics. To answer, the server writes a few megabytes. The gauge subtracts
// the CPU time for that.
type metricsGauge struct {
	target *target

	mu   sync.Mutex
	cost time.Duration // of one request
	own  time.Duration // of all requests so far
}

const (
	cpuMetric  = "process_cpu_seconds_total"
	rssMetric  = "process_resident_memory_bytes"
	heapMetric = "go_memstats_heap_alloc_bytes"
	// startMetric is the time at which the process started, in seconds since 1970.
	startMetric = "process_start_time_seconds"
	gcMetric    = "go_gc_duration_seconds_count"
)

// cpu sends two requests. The difference of the CPU times in the answers is the cost of one
// request.
func (g *metricsGauge) cpu(ctx context.Context) (time.Duration, error) {
	var read [2]time.Duration
	for i := range read {
		m, err := g.target.metrics(ctx, cpuMetric)
		if err != nil {
			return 0, err
		}
		read[i] = time.Duration(m[cpuMetric] * float64(time.Second))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := read[0] - g.own
	g.cost = read[1] - read[0]
	g.own += 2 * g.cost
	return now, nil
}

func (g *metricsGauge) memory(ctx context.Context) (now, peak float64, err error) {
	m, err := g.target.metrics(ctx, rssMetric)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.own += g.cost
	return m[rssMetric], m[rssMetric], err
}

func (g *metricsGauge) every() time.Duration { return time.Second }

// spent returns the CPU time that the server uses while f runs, in seconds.
func (t *target) spent(ctx context.Context, f func()) float64 {
	before := figures.Must(t.gauge.cpu(ctx))
	f()
	return max(figures.Must(t.gauge.cpu(ctx))-before, 0).Seconds()
}

// cores returns the mean CPU usage of the server while f runs, in cores.
func (t *target) cores(ctx context.Context, f func()) float64 {
	begun := time.Now()
	cpu := t.spent(ctx, f)
	return cpu / time.Since(begun).Seconds()
}

// growth polls the resident set size of a server.
type growth struct {
	gauge         gauge
	before, least float64 // the current and the largest size when polling started
	cancel        context.CancelFunc
	polling       sync.WaitGroup

	mu   sync.Mutex
	peak float64
	err  error
}

// grow starts to poll the server's resident set size, until end is called. If the size exceeds
// limit, grow calls the function over once. If limit is 0, there is no limit.
func (t *target) grow(ctx context.Context, limit float64, over func()) *growth {
	g := &growth{gauge: t.gauge}
	var err error
	g.before, g.least, err = g.gauge.memory(ctx)
	figures.Check(err)
	g.peak = g.before
	ctx, g.cancel = context.WithCancel(ctx)
	g.polling.Go(func() {
		for pause(ctx, g.gauge.every()) == nil {
			if now := g.poll(ctx); limit > 0 && now > limit {
				over()
				limit = 0
			}
		}
	})
	return g
}

// poll reads the resident set size once and updates the peak. If the server itself reports a new
// peak, poll uses that peak, which is more exact than the polled sizes.
func (g *growth) poll(ctx context.Context) float64 {
	now, largest, err := g.gauge.memory(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		if ctx.Err() == nil {
			g.err = err
		}
		return 0
	}
	g.peak = max(g.peak, now)
	if largest > g.least {
		g.peak = max(g.peak, largest)
	}
	return now
}

// end stops polling.
func (g *growth) end() {
	g.cancel()
	g.polling.Wait()
}

// stop stops polling. It returns the largest growth since the start, and the largest size.
func (g *growth) stop(ctx context.Context) (grown, peak float64) {
	g.end()
	g.poll(ctx)
	figures.Check(g.err)
	return g.peak - g.before, g.peak
}

// samples are values of metrics by name and labels. The keys have the form of Prometheus' text
// format: process_cpu_seconds_total, or weir_proxy_upstream_requests_total{for="forwarded"}.
type samples map[string]float64

// parseMetrics reads metrics in Prometheus' text format. It returns only the metrics with the given
// names, because a page has thousands of metrics.
func parseMetrics(r io.Reader, names ...string) (samples, error) {
	page := expfmt.SampleDecoder{Dec: expfmt.NewDecoder(r, expfmt.NewFormat(expfmt.TypeTextPlain)), Opts: &expfmt.DecodeOptions{}}
	out := samples{}
	for {
		var family model.Vector
		switch err := page.Decode(&family); {
		case err == io.EOF:
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("metrics: %w", err)
		}
		for _, sample := range family {
			if slices.Contains(names, string(sample.Metric[model.MetricNameLabel])) {
				out[sample.Metric.String()] = float64(sample.Value)
			}
		}
	}
}

// sum returns the sum of a metric's values over all labels.
func (s samples) sum(name string) (sum float64) {
	for series, value := range s {
		if of, _, _ := strings.Cut(series, "{"); of == name {
			sum += value
		}
	}
	return sum
}
