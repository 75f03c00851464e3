package growth

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/golden"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// byHand is a side that takes bytes in proportion, and fails at one point.
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
	if side == ClientGo {
		each = 1000
	}
	return figures.Values{"peakRSSBytes": each * float64(n), "syncSeconds": 0.5}, nil
}

func (m *byHand) close() error {
	m.closed = true
	return nil
}

func axisOf(m *byHand, points ...int) Axis {
	return Axis{
		Name: "beads", Label: "beads <on> a string", Points: points, sides: []string{Weir, ClientGo}, scale: func(n int) int { return n },
		figures: []figures.Figure{
			figures.New("peakRSSBytes", "peak RSS", figures.Bytes), figures.New("syncSeconds", "time", figures.Seconds), figures.New("none", "never there", figures.Count),
		},
		open: func(context.Context, Options) (measurer, error) { return m, nil },
	}
}

// TestRunSkips: what would take too much memory is not tried, and what fails does not end the rest.
func TestRunSkips(t *testing.T) {
	m := &byHand{fails: 40}
	_, err := Run(t.Context(), []Axis{axisOf(m, 10, 40, 100, 200)}, Options{Memory: 150_000, Progress: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "burnt down") {
		t.Errorf("error %v", err)
	}
	if !m.closed || !slices.Equal(m.measured, []int{10, 10, 40, 40}) {
		t.Errorf("measured %v, closed %v", m.measured, m.closed)
	}
	m = &byHand{}
	r, err := Run(t.Context(), []Axis{axisOf(m, 10, 100, 200)}, Options{Memory: 150_000, Progress: io.Discard})
	check.NoError(t, err)
	if !slices.Equal(m.measured, []int{10, 10, 100, 100, 200}) {
		t.Errorf("measured %v", m.measured)
	}
	points := r.Axes[0].Points
	if last := points[len(points)-1]; last.Side != ClientGo || last.Skipped != "it would take about 200 KB" {
		t.Errorf("last point %+v", last)
	}
	r.CPUs, r.Flags = 2, []string{"--dropin"}
	var table, chart bytes.Buffer
	check.NoError(t, r.WriteTable(&table))
	golden.Check(t, "table", table.String())
	check.NoError(t, r.WriteChart(&chart))
	golden.Check(t, "chart.svg", chart.String())
	for d := xml.NewDecoder(&chart); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestTooMuch: what a side holds however much there is does not grow.
func TestTooMuch(t *testing.T) {
	a := axisOf(&byHand{}, 1, 10)
	for _, test := range []struct {
		figures figures.Values
		want    string
	}{
		{figures.Values{"peakRSSBytes": 3e9}, "it would take about 30.0 GB"},
		{figures.Values{"peakRSSBytes": 3e9, "rssGrowthBytes": 1e8}, ""},
		{figures.Values{"peakRSSBytes": 3e9, "rssGrowthBytes": 1e9}, "it would take about 12.0 GB"},
	} {
		g := Grown{axis: a, Points: []Point{{N: 1, Side: Weir, Figures: test.figures}}}
		check.Equal(t, g.tooMuch(Weir, 10, 10e9), test.want, "%v", test.figures)
	}
}

func TestNamed(t *testing.T) {
	all := Axes(Options{})
	some, err := Named(all, "handlers", "objects")
	if err != nil || len(some) != 2 || some[0].Name != "objects" || some[1].Name != "handlers" {
		t.Errorf("%v, %v", some, err)
	}
	if _, err := Named(all, "weeds"); err == nil {
		t.Error("there are no weeds")
	}
	if few := all[0].AtMost(50_000); !slices.Equal(few.Points, []int{10_000, 50_000}) || len(all[0].Points) != 4 {
		t.Errorf("%v of %v", few.Points, all[0].Points)
	}
}

func TestAvailable(t *testing.T) {
	_, err := os.Stat("/proc/meminfo")
	if got := available(); (got > 1<<20) != (err == nil) {
		t.Errorf("%v bytes are available", got)
	}
}
