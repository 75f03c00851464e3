package servers

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// Replay is an incident of servers: clients send requests to an API server, in several ways. Each
// way runs on separate servers. A trace records a server's memory and CPU time.
type Replay struct {
	Every time.Duration // between samples
	Ways  []Way

	prepare  func(*Options) // changes the options of an embedded server; nil: nothing
	ofAnswer bool           // trace the server that answers; otherwise the API server
}

// Way is one of the ways in which the clients of a Replay send requests.
type Way struct {
	Label string
	Proxy bool // the clients use weir's proxy

	load load
}

// load sends the requests of a way. It calls begin when the clients are ready; the measurement
// starts then. If it fails, it ends the attempt that calls it (see figures.Attempt).
type load func(ctx context.Context, t *trial, begin func()) Figures

// Run runs the ways one after the other and calls done for each. The figures of each way include:
//
//   - seconds: the duration
//   - cpuSeconds, allocBytes: the CPU time and the allocated bytes of the API server
//   - proxyCPUSeconds: the CPU time of the proxy, if there is one
//   - rssGrowthBytes, peakRSSBytes: of the server that answers the clients
//   - requests: LISTs and WATCHes that the API server received
func (r Replay) Run(ctx context.Context, o Options, done func(figures.Traced)) error {
	if r.prepare != nil {
		r.prepare(&o)
	}
	for _, w := range r.Ways {
		f, traced, err := r.run(ctx, o, w)
		if err != nil {
			return fmt.Errorf("%s: %w", w.Label, err)
		}
		done(figures.Traced{Label: w.Label, Figures: f, Trace: *traced})
	}
	return nil
}

func (r Replay) run(ctx context.Context, o Options, w Way) (f Figures, traced *figures.Trace, err error) {
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	b, err := Open(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	defer b.Close()
	use := func(asked *target) error {
		return figures.Attempt(func() { f, traced = r.trace(ctx, b.newTrial(asked), w) })
	}
	if w.Proxy {
		err = b.withProxy(ctx, use)
	} else {
		err = use(b.direct)
	}
	return f, traced, err
}

// trace runs the load of a way and traces the server.
func (r Replay) trace(ctx context.Context, t *trial, w Way) (Figures, *figures.Trace) {
	of := t.direct
	if r.ofAnswer {
		of = t.target
	}
	var (
		before spending
		begun  time.Time
		grown  *growth
		tracer *figures.Tracer
	)
	defer func() {
		tracer.Stop()
		if grown != nil {
			grown.end()
		}
	}()
	f := w.load(ctx, t, func() {
		grown = t.grow(ctx, 0, nil)
		tracer = figures.StartTrace(max(r.Every, of.gauge.every()), of.sampler(ctx, &t.told))
		tracer.Mark(figures.Starts)
		before = t.spending(ctx)
		begun = time.Now()
	})
	figures.Require(grown != nil, errNotBegun)
	f["seconds"] = time.Since(begun).Seconds()
	t.spending(ctx).since(before, f)
	f["rssGrowthBytes"], f["peakRSSBytes"] = grown.stop(ctx)
	return f, tracer.Stop()
}

// errNotBegun is the error of a load that did not call begin. Nothing was measured then.
var errNotBegun = errors.New("the load has not begun")

// sampler returns a function that samples the server. If the function cannot read a value, the
// sample contains the last value that was read.
func (t *target) sampler(ctx context.Context, told *atomic.Int64) func() figures.Sample {
	last := figures.Sample{HeapBytes: -1}
	return func() figures.Sample {
		if resident, _, err := t.gauge.memory(ctx); err == nil {
			last.RSSBytes = resident
		}
		if cpu, err := t.gauge.cpu(ctx); err == nil {
			last.CPU = cpu
		}
		last.Events = float64(told.Load())
		return last
	}
}

const allocMetric = "go_memstats_alloc_bytes_total"

// spending is what the servers have used so far.
type spending struct {
	cpu, proxy      time.Duration
	alloc, requests float64
}

func (t *trial) spending(ctx context.Context) (c spending) {
	c.alloc, c.requests = figures.Must(t.direct.metrics(ctx, allocMetric))[allocMetric], float64(t.requests.Load())
	if t.weir() {
		m := figures.Must(t.metrics(ctx, upstreamMetric))
		c.requests, c.proxy = m[ofCallers]+m[ofItsOwn], figures.Must(t.gauge.cpu(ctx))
	}
	c.cpu = figures.Must(t.direct.gauge.cpu(ctx))
	return c
}

// since writes to f how much the servers have used since an earlier time. before is the spending at
// that time.
func (c spending) since(before spending, f Figures) {
	f["cpuSeconds"] = max(c.cpu-before.cpu, 0).Seconds()
	f["allocBytes"] = c.alloc - before.alloc
	f["requests"] = c.requests - before.requests
	if c.proxy > 0 {
		f["proxyCPUSeconds"] = max(c.proxy-before.proxy, 0).Seconds()
	}
}
