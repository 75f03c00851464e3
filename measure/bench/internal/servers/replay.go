package servers

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// Replay is an incident of servers: what clients do to an API server, in several ways, each on
// servers of its own, which are traced.
type Replay struct {
	Every time.Duration // between samples
	Ways  []Way

	prepare  func(*Options) // what it asks of an embedded server; nil: nothing
	ofAnswer bool           // trace the server that answers; else always the API server
}

// Way is one of the ways in which the clients of a Replay ask.
type Way struct {
	Label string
	Proxy bool // they ask weir's proxy

	load load
}

// load asks. It calls begin when everything is ready, and all is measured from there on. It ends
// its attempt if it fails.
type load func(ctx context.Context, t *trial, begin func()) Figures

// Run takes the ways in turn and calls done for each. Each has these figures too:
//
//   - seconds: how long it took
//   - cpuSeconds, allocBytes: what the API server used and allocated
//   - proxyCPUSeconds: what the proxy used, if there is one
//   - rssGrowthBytes, peakRSSBytes: of the server that answers
//   - requests: LISTs and WATCHes that have reached the API server
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

// trace puts the load on the server and traces it.
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

// errNotBegun is a load that has never said that it begins: there is nothing to be measured of it.
var errNotBegun = errors.New("the load has not begun")

// sampler samples a server. What cannot be read is as it was the last time.
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

// spending is what servers have used so far.
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

// since writes what was used since an earlier moment into f.
func (c spending) since(before spending, f Figures) {
	f["cpuSeconds"] = max(c.cpu-before.cpu, 0).Seconds()
	f["allocBytes"] = c.alloc - before.alloc
	f["requests"] = c.requests - before.requests
	if c.proxy > 0 {
		f["proxyCPUSeconds"] = max(c.proxy-before.proxy, 0).Seconds()
	}
}
