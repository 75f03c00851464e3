package lab

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirproject/weir/bench/internal/figures"
	"github.com/weirproject/weir/bench/internal/trace"
)

func TestNiceStep(t *testing.T) {
	for _, tt := range []struct{ atLeast, want float64 }{
		{0, 1}, {1, 1}, {1.1, 2}, {2.2, 2.5}, {3, 5}, {6, 10}, {0.03, 0.05}, {120e6, 200e6}, {999, 1000},
	} {
		if got := niceStep(tt.atLeast); got < tt.want*0.999 || got > tt.want*1.001 {
			t.Errorf("at least %v: %v, want %v", tt.atLeast, got, tt.want)
		}
	}
}

// TestDrawKeepsPeaks: a line is thinned out, and its one high value is drawn all the same.
func TestDrawKeepsPeaks(t *testing.T) {
	at := make([]float64, 10*mostPoints)
	at[777] = 100
	c := &chart{seconds: 1, most: 100}
	path := c.path(line{every: 1 / float64(len(at)-1), at: at, peak: 100})
	if n := strings.Count(path, "L") + strings.Count(path, "M"); n > mostPoints {
		t.Errorf("%d points", n)
	}
	if highest := fmt.Sprintf(",%.1f", top); !strings.Contains(path, highest) {
		t.Errorf("no point at the top, %s", highest)
	}
}

// TestDrawSeparatesLabels: names of lines with the same peak do not lie on each other, and stay in
// the picture.
func TestDrawSeparatesLabels(t *testing.T) {
	var lines []line
	for i := range 5 {
		lines = append(lines, line{label: "side " + strconv.Itoa(i), every: 1, at: []float64{1, float64(1 + i%2)}, peak: float64(1 + i%2)})
	}
	var ys []float64
	for _, m := range regexp.MustCompile(`y="([0-9.]+)"[^>]*>side`).FindAllStringSubmatch(draw("a title", figures.Count, lines), -1) {
		y, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		ys = append(ys, y)
	}
	if len(ys) != len(lines) {
		t.Fatalf("%d labels", len(ys))
	}
	for i, y := range ys {
		if y < top || y+14 > height || i > 0 && y-ys[i-1] < labelHeight-0.1 {
			t.Errorf("labels at %v", ys)
			break
		}
	}
}

// TestTitlesFit: a title of 13 units a line, some 7 a letter, ends before the picture does.
func TestTitlesFit(t *testing.T) {
	for _, i := range Incidents() {
		if title := i.title(500_000); left+7*float64(len(title)) > width {
			t.Errorf("%q is too long", title)
		}
	}
}

func TestDrawEscapes(t *testing.T) {
	text := draw(`<a & "b">`, figures.Bytes, []line{{label: "<side>", every: 1, at: []float64{1, 2}, peak: 2}})
	if strings.Contains(text, "<side>") || strings.Contains(text, "<a &") {
		t.Error(text)
	}
	checkXML(t, text)
}

// TestLineOf: a line begins where the informer starts.
func TestLineOf(t *testing.T) {
	trace := trace.Trace{EveryMillis: 100, Events: []float64{0, 0, 0, 5, 5, 9}, Marks: []trace.Mark{{Millis: 210, What: trace.Starts}}}
	got := callRate.lineOf("a", trace)
	if diff := cmp.Diff([]float64{0, 5, 0, 4}, got.at); diff != "" || got.peak != 5 {
		t.Errorf("peak %v, %s", got.peak, diff)
	}
	if got := got.seconds(); got < 0.299 || got > 0.301 {
		t.Errorf("%v s", got)
	}
}
