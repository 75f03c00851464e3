package servers

import (
	"bufio"
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
func (t *target) spent(ctx context.Context, f func() error) (float64, error) {
	before, err := t.gauge.cpu(ctx)
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := t.gauge.cpu(ctx)
	return max(after-before, 0).Seconds(), err
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

// grow begins to poll the server's resident set, until stop. When it passes limit (0: none), over
// is called, once.
func (t *target) grow(ctx context.Context, limit float64, over func()) (*growth, error) {
	g := &growth{gauge: t.gauge}
	var err error
	if g.before, g.least, err = g.gauge.memory(ctx); err != nil {
		return nil, err
	}
	g.peak = g.before
	ctx, g.cancel = context.WithCancel(ctx)
	g.polling.Go(func() {
		tick := time.NewTicker(g.gauge.every())
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if now := g.poll(ctx); limit > 0 && now > limit {
				over()
				limit = 0
			}
		}
	})
	return g, nil
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

// stop ends the polling and says how much more was resident at most than in the beginning, and how
// much that was.
func (g *growth) stop(ctx context.Context) (grown, peak float64, err error) {
	g.cancel()
	g.polling.Wait()
	g.poll(ctx)
	return g.peak - g.before, g.peak, g.err
}

// samples are values of a page of metrics, by name and labels as they stand there:
// process_cpu_seconds_total, or weir_proxy_upstream_requests_total{for="forwarded"}.
type samples map[string]float64

// maxMetricLine bounds a line of a page of metrics, in bytes.
const maxMetricLine = 1 << 20

// parseMetrics reads a page in Prometheus' text format and keeps the metrics of the given names,
// which are a few out of thousands. A line that is not a sample is an error.
func parseMetrics(r io.Reader, names ...string) (samples, error) {
	out := samples{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxMetricLine)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		end := seriesEnd(line)
		series, rest := line[:end], strings.Fields(line[end:])
		if name, _, _ := strings.Cut(series, "{"); name == "" || len(rest) == 0 || len(rest) > 2 {
			return nil, fmt.Errorf("metrics: no sample: %.80q", line)
		} else if !slices.Contains(names, name) {
			continue
		}
		value, err := strconv.ParseFloat(rest[0], 64)
		if err != nil {
			return nil, fmt.Errorf("metrics: no number: %.80q", line)
		}
		out[series] = value
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return out, nil
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

// seriesEnd returns where the name and the labels of a line end. A label's value may contain
// anything.
func seriesEnd(line string) int {
	quoted, braced := false, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			braced = true
		case c == '}':
			return i + 1
		case !braced && (c == ' ' || c == '\t'):
			return i
		}
	}
	return len(line)
}
