package growth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/measure/bench/internal/figures"
	"github.com/weirproject/weir/measure/bench/internal/informers"
)

// Options say what to measure, and where.
type Options struct {
	// Informers has the server that lends its pods, and whether weir's side is the drop-in.
	Informers informers.Options
	// Config leads to a kube-apiserver for the watchers; nil: an embedded server with Pods pods is
	// the upstream of the watch cache, and nothing is compared with it. Writes and EtcdURL are those
	// of servers.Options.
	Config  *rest.Config
	Pods    int
	Writes  bool
	EtcdURL string
	Proxy   string // the program weir-proxy, for the watchers

	Duration time.Duration // for how long watchers are measured; 0: as long as is usual
	Memory   int64         // that a side may take, in bytes; 0: all that there is
	Progress io.Writer     // gets a line for each point
}

// Report is what was measured. The JSON names are a promise.
type Report struct {
	At    time.Time `json:"at"`
	CPUs  int       `json:"cpus"`
	Go    string    `json:"go"`
	Flags []string  `json:"flags,omitempty"` // that make it another one
	Axes  []Grown   `json:"axes"`
}

// Grown is an axis with what was measured at its points.
type Grown struct {
	Name   string  `json:"name"`
	Points []Point `json:"points"`

	axis Axis
}

// Point is what a side was measured to do at a point. Skipped says why it was not.
type Point struct {
	N       int            `json:"n"`
	Side    string         `json:"side"`
	Figures figures.Values `json:"figures,omitempty"`
	Skipped string         `json:"skipped,omitempty"`
}

// Run measures the axes. What fails at one point is skipped, so that an hour is not given up for
// it; the errors come behind.
func Run(ctx context.Context, axes []Axis, o Options) (*Report, error) {
	report := &Report{At: time.Now().UTC().Truncate(time.Second), CPUs: runtime.GOMAXPROCS(0), Go: runtime.Version()}
	var failed []error
	for _, a := range axes {
		grown, err := a.run(ctx, o)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		failed = append(failed, err)
		report.Axes = append(report.Axes, grown)
	}
	return report, errors.Join(failed...)
}

func (a Axis) run(ctx context.Context, o Options) (out Grown, err error) {
	out = Grown{Name: a.Name, axis: a}
	m, err := a.open(ctx, o)
	if err != nil {
		return out, fmt.Errorf("%s: %w", a.Name, err)
	}
	defer func() { err = errors.Join(err, m.close()) }()
	for i, n := range a.Points {
		for _, side := range a.sides {
			p := Point{N: n, Side: side, Skipped: out.tooMuch(side, n, o.memory())}
			if p.Skipped == "" {
				var failed error
				if p.Figures, failed = m.measure(ctx, side, n); failed != nil {
					err = errors.Join(err, fmt.Errorf("%s: %w", a.Name, failed))
					p.Skipped = "it failed"
				}
			}
			if ctx.Err() != nil {
				return out, ctx.Err()
			}
			out.Points = append(out.Points, p)
			what := p.Skipped
			if p.Figures != nil {
				what = figures.Headline(p.Figures, a.figures)
			}
			fmt.Fprintf(o.Progress, "%s %d/%d  %9s  %-14s  %s\n", a.Name, i+1, len(a.Points), humanize.Count(int64(n)), side, what)
		}
	}
	return out, err
}

// usableShare is the share of the memory that a side may take: other processes need the rest.
const usableShare = 0.8

func (o Options) memory() float64 {
	if o.Memory > 0 {
		return float64(o.Memory)
	}
	return usableShare * available()
}

// tooMuch says why a side is not measured at a point: by what it took at the one before.
func (g *Grown) tooMuch(side string, n int, memory float64) string {
	for i := len(g.Points) - 1; i >= 0; i-- {
		p := g.Points[i]
		if p.Side != side {
			continue
		}
		if p.Figures == nil {
			return p.Skipped
		}
		grows := p.Figures["peakRSSBytes"]
		if by, ok := p.Figures["rssGrowthBytes"]; ok { // the rest is there for one as for many
			grows = by
		}
		needs := p.Figures["peakRSSBytes"] + grows*(float64(g.axis.scale(n))/float64(g.axis.scale(p.N))-1)
		if memory > 0 && needs > memory {
			return fmt.Sprintf("it would take about %s", humanize.Bytes(int64(needs)))
		}
		return ""
	}
	return ""
}
