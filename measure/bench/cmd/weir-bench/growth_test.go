package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/golden"
	"github.com/weirproject/weir/internal/tools/command"
	"github.com/weirproject/weir/measure/bench/internal/figures"
	"github.com/weirproject/weir/measure/bench/internal/informers"
)

// byHand is a measurer whose memory is proportional to the point. It returns an error at one point.
type byHand struct {
	fails    int
	measured []int
	closed   bool
}

func (m *byHand) measure(_ context.Context, side string, n int) (figures.Values, error) {
	m.measured = append(m.measured, n)
	if n == m.fails {
		return nil, errors.New("the machine has burnt down")
	}
	each := 100.
	if side == sideClientGo {
		each = 1000
	}
	return figures.Values{"peakRSSBytes": each * float64(n), "syncSeconds": 0.5}, nil
}

func (m *byHand) close() error {
	m.closed = true
	return nil
}

func axisOf(m *byHand, points ...int) axis {
	return axis{
		name: "beads", label: "beads <on> a string", points: points, sides: []string{sideWeir, sideClientGo}, scale: func(n int) int { return n },
		figures: []figures.Figure{
			figures.New("peakRSSBytes", "peak RSS", figures.Bytes), figures.New("syncSeconds", "time", figures.Seconds), figures.New("none", "never there", figures.Count),
		},
		open: func(context.Context, *growFlags) (measurer, error) { return measurer{m.measure, m.close}, nil },
	}
}

// growing returns the flags of bench grow for a machine on which a side may use the given memory.
func growing(memory float64) *growFlags {
	return &growFlags{
		benchFlags: &benchFlags{ClusterFlags: command.NewClusterFlags(), Options: informers.Options{Progress: io.Discard, DropIn: true}},
		available:  func() float64 { return memory / usableShare },
	}
}

// TestRunSkips checks that points that would need too much memory are skipped, and that a point
// that fails does not end the measurement.
func TestRunSkips(t *testing.T) {
	m := &byHand{fails: 40}
	_, err := growing(150_000).measure(t.Context(), []axis{axisOf(m, 10, 40, 100, 200)})
	if err == nil || !strings.Contains(err.Error(), "burnt down") {
		t.Errorf("error %v", err)
	}
	if !m.closed || !slices.Equal(m.measured, []int{10, 10, 40, 40}) {
		t.Errorf("measured %v, closed %v", m.measured, m.closed)
	}
	m = &byHand{}
	r, err := growing(150_000).measure(t.Context(), []axis{axisOf(m, 10, 100, 200)})
	check.NoError(t, err)
	if !slices.Equal(m.measured, []int{10, 10, 100, 100, 200}) {
		t.Errorf("measured %v", m.measured)
	}
	points := r.Axes[0].Points
	if last := points[len(points)-1]; last.Side != sideClientGo || last.Skipped != "it would need about 200 KB" {
		t.Errorf("last point %+v", last)
	}
	r.setting = setting{At: time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC), CPUs: 2, MemoryBytes: 24 << 30, Go: "go1.26.8", ClientGo: "v0.37.2", Server: embeddedServer}
	var table bytes.Buffer
	check.NoError(t, r.writeTable(&table))
	golden.Check(t, "growth.table", table.String())
	golden.Check(t, "growth.svg", r.chart())
	checkXML(t, r.chart())
}

// TestTooMuch checks the estimate of the memory at the next point. If a side reports separately the
// memory that grows with the point, only this memory is scaled.
func TestTooMuch(t *testing.T) {
	a := axisOf(&byHand{}, 1, 10)
	for _, test := range []struct {
		figures figures.Values
		want    string
	}{
		{figures.Values{"peakRSSBytes": 3e9}, "it would need about 30.0 GB"},
		{figures.Values{"peakRSSBytes": 3e9, "rssGrowthBytes": 1e8}, ""},
		{figures.Values{"peakRSSBytes": 3e9, "rssGrowthBytes": 1e9}, "it would need about 12.0 GB"},
	} {
		g := grownAxis{axis: a, Points: []growthPoint{{N: 1, Side: sideWeir, Figures: test.figures}}}
		check.Equal(t, g.tooMuch(sideWeir, 10, 10e9), test.want, "%v", test.figures)
	}
}

// TestChosenAxes checks that --only selects axes, in their usual order, and that --most selects
// points.
func TestChosenAxes(t *testing.T) {
	f := growing(0)
	f.only, f.most = []string{"handlers", "objects"}, 50_000
	some, err := f.chosenAxes()
	check.NoError(t, err)
	if len(some) != 2 || some[0].name != "objects" || some[1].name != "handlers" || !slices.Equal(some[0].points, []int{10_000, 50_000}) {
		t.Errorf("%+v", some)
	}
}

func TestAvailable(t *testing.T) {
	_, err := os.Stat("/proc/meminfo")
	if got := availableMemory(); (got > 1<<20) != (err == nil) {
		t.Errorf("%v bytes are available", got)
	}
}
