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

// gauge reads what a server uses.
type gauge interface {
	// cpu is the CPU time that the server has used, without what asking about it takes.
	cpu(context.Context) (time.Duration, error)
	// memory is its resident set now, and the largest that is known of, in bytes.
	memory(context.Context) (now, peak float64, err error)
	// every is how often memory may be read without the reading being a load.
	every() time.Duration
}

// newGauge reads from /proc where the server runs on this machine and may be seen, else from its
// metrics.
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

// is reports whether the server says that it was started when the process was. If not, the process
// forwards connections to it, as ssh, docker-proxy and kubectl port-forward do.
func (t *target) is(ctx context.Context, p pid) bool {
	const tolerance = 1 // second: Linux reports the start of the machine in whole ones
	m, err := t.metrics(ctx, startMetric)
	if err != nil {
		return false
	}
	started, err := p.started()
	return err == nil && math.Abs(m[startMetric]-started) <= tolerance
}

// procGauge reads from /proc.
type procGauge struct{ process pid }

func (g procGauge) cpu(context.Context) (time.Duration, error)            { return g.process.cpu() }
func (g procGauge) memory(context.Context) (now, peak float64, err error) { return g.process.memory() }
func (g procGauge) every() time.Duration                                  { return 50 * time.Millisecond }

// metricsGauge reads from /metrics, which makes the server write a few megabytes: what that takes
// is not counted.
type metricsGauge struct {
	target *target

	mu   sync.Mutex
	cost time.Duration // of asking once
	own  time.Duration // of asking, so far
}

const (
	cpuMetric  = "process_cpu_seconds_total"
	rssMetric  = "process_resident_memory_bytes"
	heapMetric = "go_memstats_heap_alloc_bytes"
	// startMetric is when a process was started, in seconds since 1970.
	startMetric = "process_start_time_seconds"
	gcMetric    = "go_gc_duration_seconds_count"
)

// cpu asks twice: what lies between the two answers is the cost of one asking.
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

// spent measures the CPU time that the server uses while f runs, in seconds.
func (t *target) spent(ctx context.Context, f func()) float64 {
	before := figures.Must(t.gauge.cpu(ctx))
	f()
	return max(figures.Must(t.gauge.cpu(ctx))-before, 0).Seconds()
}

// cores measures the CPU that the server uses while f runs, in cores.
func (t *target) cores(ctx context.Context, f func()) float64 {
	begun := time.Now()
	cpu := t.spent(ctx, f)
	return cpu / time.Since(begun).Seconds()
}

// growth polls the resident set of a server.
type growth struct {
	gauge         gauge
	before, least float64 // resident when it began, and the largest until then
	cancel        context.CancelFunc
	polling       sync.WaitGroup

	mu   sync.Mutex
	peak float64
	err  error
}

// grow begins to poll the server's resident set, until end. When it passes limit (0: none), over is
// called, once.
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

// poll reads the resident set. A peak above the one there was before is more exact than what
// polling sees.
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

// end ends the polling.
func (g *growth) end() {
	g.cancel()
	g.polling.Wait()
}

// stop ends the polling and returns by how much the resident set has grown at most, and to how
// much.
func (g *growth) stop(ctx context.Context) (grown, peak float64) {
	g.end()
	g.poll(ctx)
	figures.Check(g.err)
	return g.peak - g.before, g.peak
}

// samples are values of a page of metrics, by name and labels as the page has them:
// process_cpu_seconds_total, or weir_proxy_upstream_requests_total{for="forwarded"}.
type samples map[string]float64

// parseMetrics reads a page in Prometheus' text format and keeps the metrics of the given names,
// which are a few out of thousands.
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

// sum returns the sum of the values of a metric over all labels.
func (s samples) sum(name string) (sum float64) {
	for series, value := range s {
		if of, _, _ := strings.Cut(series, "{"); of == name {
			sum += value
		}
	}
	return sum
}
