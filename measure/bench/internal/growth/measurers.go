package growth

import (
	"context"
	"errors"
	"io"

	"github.com/weirproject/weir/measure/bench/internal/figures"
	"github.com/weirproject/weir/measure/bench/internal/informers"
	"github.com/weirproject/weir/measure/bench/internal/servers"
)

// ofInformers measures informers.
type ofInformers struct {
	grower *informers.Grower
	point  func(n int) informers.Point
	dropIn bool
}

func opener(point func(n int) informers.Point) func(context.Context, Options) (measurer, error) {
	return func(_ context.Context, o Options) (measurer, error) {
		return &ofInformers{informers.NewGrower(o.Informers), point, o.Informers.DropIn}, nil
	}
}

func (m *ofInformers) measure(ctx context.Context, side string, n int) (figures.Values, error) {
	p := m.point(n)
	p.DropIn = m.dropIn
	return m.grower.Measure(ctx, side, p)
}

func (m *ofInformers) close() error { return m.grower.Close() }

// ofWatchers measures the watch cache, as the proxy has it.
type ofWatchers struct{ bench *servers.Bench }

var watcherFigures = []figures.Figure{
	figures.New("openCPUSeconds", "CPU to open them all", figures.Seconds),
	figures.New("cpuCores", "CPU, cores", figures.Number),
	figures.New("peakRSSBytes", "peak RSS", figures.Bytes),
	figures.New("rssGrowthBytes", "RSS grows by", figures.Bytes),
	figures.New("updatesPerSecond", "changes a second", figures.Number),
	figures.New("closed", "watches closed", figures.Count),
}

var errNoProxy = errors.New("no program is there that serves the watch cache")

func openWatchers(ctx context.Context, o Options) (measurer, error) {
	if o.Proxy == "" {
		return nil, errNoProxy
	}
	so := servers.Defaults()
	so.Config, so.Proxy, so.EtcdURL, so.Pods, so.Population = o.Config, o.Proxy, o.EtcdURL, o.Pods, o.Informers.Population
	so.Writes, so.Runs, so.Progress = o.Writes, 1, io.Discard
	if o.Duration > 0 {
		so.Duration = o.Duration
	}
	b, err := servers.Open(ctx, so)
	if err != nil {
		return nil, err
	}
	return &ofWatchers{b}, nil
}

func (m *ofWatchers) measure(ctx context.Context, side string, n int) (figures.Values, error) {
	return m.bench.Kubelets(ctx, side == Weir, n)
}

func (m *ofWatchers) close() error {
	m.bench.Close()
	return nil
}
