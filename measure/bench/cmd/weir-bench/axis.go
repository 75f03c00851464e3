package main

import (
	"context"
	"io"
	"slices"

	"github.com/weirproject/weir/measure/bench/internal/figures"
	"github.com/weirproject/weir/measure/bench/internal/informers"
	"github.com/weirproject/weir/measure/bench/internal/servers"
)

// axis is an amount that bench grow increases, such as the number of objects, and the figures that
// it measures at each point.
type axis struct {
	name   string
	label  string
	points []int

	figures []figures.Figure
	main    string // the key of the figure that the chart's titles compare
	sides   []string
	open    func(ctx context.Context, f *growFlags) (measurer, error)
	// scale returns the amount to which memory is proportional at a point. bench grow estimates the
	// memory at a point from the memory at the previous point and the ratio of both points' amounts.
	scale func(n int) int
}

// measurer measures one side, such as weir or client-go, at one point of an axis.
type measurer struct {
	measure func(ctx context.Context, side string, n int) (figures.Values, error)
	close   func() error
}

// The names of the sides.
const (
	sideWeir      = "weir"
	sideClientGo  = "clientgo"
	sideAPIServer = "kube-apiserver"
)

// The numbers of objects on the axis of handlers and on the axis of informers. Each number is the
// same at all points of its axis.
const (
	objectsOfHandlers  = 50_000
	objectsOfInformers = 1_000
)

// axes returns all axes. On the axis of watchers, kube-apiserver is a side only if cluster is set.
func axes(cluster bool) []axis {
	informerSides, watcherSides := []string{sideWeir, sideClientGo}, []string{sideWeir}
	if cluster {
		watcherSides = append(watcherSides, sideAPIServer)
	}
	itself := func(n int) int { return n }
	without := func(keys ...string) []figures.Figure {
		return slices.DeleteFunc(slices.Clone(informers.GrowthFigures), func(f figures.Figure) bool { return slices.Contains(keys, f.Key) })
	}
	return []axis{
		{
			name: "objects", label: "pods of one informer", points: []int{10_000, 50_000, 200_000, 500_000}, scale: itself,
			figures: without("mostLists", "goroutines", "delayP99Seconds"), main: "peakRSSBytes", sides: informerSides,
			open: openInformers(func(n int) informers.Point { return informers.Point{Objects: n} }),
		},
		{
			name: "informers", label: "informers of 1,000 pods", points: []int{1, 10, 100}, scale: itself,
			figures: without("goroutines", "eventsPerSecond", "cpuMicrosPerEvent", "getPackedNanos", "delayP99Seconds"), main: "heapBytes", sides: informerSides,
			open: openInformers(func(n int) informers.Point { return informers.Point{Objects: objectsOfInformers, Informers: n} }),
		},
		{
			name: "handlers", label: "handlers of one informer of 50,000 pods", points: []int{1, 10, 100, 1_000},
			figures: without("mostLists", "goroutines", "getPackedNanos"), main: "delayP99Seconds", sides: informerSides,
			scale: func(int) int { return 1 }, // the objects determine the memory
			open:  openInformers(func(n int) informers.Point { return informers.Point{Objects: objectsOfHandlers, Handlers: n} }),
		},
		{
			name: "fanout", label: "informers of 1,000 pods, each with as many handlers", points: []int{10, 100}, scale: itself,
			figures: without("mostLists", "getPackedNanos", "delayP99Seconds"), main: "goroutines", sides: informerSides,
			open: openInformers(func(n int) informers.Point {
				return informers.Point{Objects: objectsOfInformers, Informers: n, Handlers: n}
			}),
		},
		{
			name: "watchers", label: "watchers by node of the watch cache, 500 changes/s", points: []int{1, 10, 100, 1_000, 10_000}, scale: itself,
			figures: watcherFigures, main: "openCPUSeconds", sides: watcherSides, open: openWatchers,
		},
	}
}

// help returns the figures, one per line: the key in the JSON and the label.
func (a axis) help() string { return figures.Help("    %-20s %s\n", a.figures) }

// openInformers returns a function for the field open of an axis of informers.
func openInformers(point func(n int) informers.Point) func(context.Context, *growFlags) (measurer, error) {
	return func(_ context.Context, f *growFlags) (measurer, error) {
		grower := informers.NewGrower(f.Options)
		measure := func(ctx context.Context, side string, n int) (figures.Values, error) {
			p := point(n)
			p.DropIn = f.DropIn
			return grower.Measure(ctx, side, p)
		}
		return measurer{measure, grower.Close}, nil
	}
}

var watcherFigures = []figures.Figure{
	figures.New("openCPUSeconds", "CPU to open them all", figures.Seconds),
	figures.New("cpuCores", "CPU, cores", figures.Number),
	figures.New("peakRSSBytes", "peak RSS", figures.Bytes),
	figures.New("rssGrowthBytes", "RSS grows by", figures.Bytes),
	figures.New("updatesPerSecond", "changes a second", figures.Number),
	figures.New("closed", "watches closed", figures.Count),
}

// openWatchers returns a measurer of the proxy's watch cache.
func openWatchers(ctx context.Context, f *growFlags) (measurer, error) {
	o := servers.Defaults()
	o.Proxy, o.EtcdURL, o.Pods, o.Population, o.Writes, o.Runs, o.Progress = f.proxy, f.etcdURL, f.pods, f.Population, f.writes, 1, io.Discard
	if f.clusterChosen() {
		o.Config = f.Config
	}
	if f.Duration > 0 {
		o.Duration = f.Duration
	}
	b, err := servers.Open(ctx, o)
	if err != nil {
		return measurer{}, err
	}
	measure := func(ctx context.Context, side string, n int) (figures.Values, error) {
		return b.Kubelets(ctx, side == sideWeir, n)
	}
	return measurer{measure, func() error { b.Close(); return nil }}, nil
}
