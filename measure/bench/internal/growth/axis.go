package growth

import (
	"context"
	"slices"

	"github.com/weirproject/weir/measure/bench/internal/figures"
	"github.com/weirproject/weir/measure/bench/internal/informers"
)

// Axis is an amount that grows, with what is measured at each of its points.
type Axis struct {
	Name   string
	Label  string
	Points []int

	figures []figures.Figure
	sides   []string
	open    func(ctx context.Context, o Options) (measurer, error)
	// scale returns the amount that memory grows with at a point. What a side took at one point
	// then says what it takes at the next.
	scale func(n int) int
}

// measurer measures one side at one point of an axis.
type measurer interface {
	measure(ctx context.Context, side string, n int) (figures.Values, error)
	close() error
}

// The names of the sides.
const (
	Weir      = "weir"
	ClientGo  = "clientgo"
	APIServer = "kube-apiserver"
)

// The amounts that stay the same on the axes on which something else grows.
const (
	objectsOfHandlers  = 50_000
	objectsOfInformers = 1_000
)

// Axes returns all axes. kube-apiserver is a side of the watchers only if o.Config is set.
func Axes(o Options) []Axis {
	watcherSides := []string{Weir}
	if o.Config != nil {
		watcherSides = append(watcherSides, APIServer)
	}
	itself := func(n int) int { return n }
	of := informers.GrowthFigures
	return []Axis{
		{
			Name: "objects", Label: "pods of one informer", Points: []int{10_000, 50_000, 200_000, 500_000}, scale: itself,
			figures: without(of, "mostLists", "goroutines", "delayP99Seconds"), sides: []string{Weir, ClientGo},
			open: opener(func(n int) informers.Point { return informers.Point{Objects: n} }),
		},
		{
			Name: "informers", Label: "informers of 1,000 pods", Points: []int{1, 10, 100}, scale: itself,
			figures: only(of, "syncSeconds", "cpuSeconds", "peakRSSBytes", "heapBytes", "mostLists"), sides: []string{Weir, ClientGo},
			open: opener(func(n int) informers.Point { return informers.Point{Objects: objectsOfInformers, Informers: n} }),
		},
		{
			Name: "handlers", Label: "handlers of one informer of 50,000 pods", Points: []int{1, 10, 100, 1_000},
			figures: without(of, "mostLists", "goroutines", "getPackedNanos"), sides: []string{Weir, ClientGo},
			scale: func(int) int { return 1 }, // the objects are what takes memory
			open:  opener(func(n int) informers.Point { return informers.Point{Objects: objectsOfHandlers, Handlers: n} }),
		},
		{
			Name: "fanout", Label: "informers of 1,000 pods, each with as many handlers", Points: []int{10, 100}, scale: itself,
			figures: without(of, "mostLists", "getPackedNanos", "delayP99Seconds"), sides: []string{Weir, ClientGo},
			open: opener(func(n int) informers.Point {
				return informers.Point{Objects: objectsOfInformers, Informers: n, Handlers: n}
			}),
		},
		{
			Name: "watchers", Label: "watchers by node of the watch cache, 500 changes/s", Points: []int{1, 10, 100, 1_000, 10_000}, scale: itself,
			figures: watcherFigures, sides: watcherSides, open: openWatchers,
		},
	}
}

// Named returns the axes of the given names, in the order of all, or all of them if no name is
// given. A name that no axis has is an error.
func Named(all []Axis, names ...string) ([]Axis, error) {
	return figures.Choose("axis", all, func(a Axis) string { return a.Name }, names...)
}

// AtMost returns the axis without the points above n.
func (a Axis) AtMost(n int) Axis {
	a.Points = slices.DeleteFunc(slices.Clone(a.Points), func(p int) bool { return p > n })
	return a
}

// Help returns the figures, one a line: the key that JSON has, and what it is.
func (a Axis) Help() string { return figures.Help("    %-20s %s\n", a.figures) }

func without(all []figures.Figure, keys ...string) []figures.Figure {
	return slices.DeleteFunc(slices.Clone(all), func(f figures.Figure) bool { return slices.Contains(keys, f.Key) })
}

func only(all []figures.Figure, keys ...string) []figures.Figure {
	return slices.DeleteFunc(slices.Clone(all), func(f figures.Figure) bool { return !slices.Contains(keys, f.Key) })
}
