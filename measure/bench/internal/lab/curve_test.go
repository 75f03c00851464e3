package lab

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// Where titles of pictures begin, and where these end.
const titleLeft, titleRight = 70.0, 760.0

// TestTitlesFit: a title of 13 units a line, some 7 a letter, ends before the picture does.
func TestTitlesFit(t *testing.T) {
	for _, i := range Incidents() {
		if title := (Replayed{Incident: i, Pods: 500_000}).title(); titleLeft+7*float64(len(title)) > titleRight {
			t.Errorf("%q is too long", title)
		}
	}
}

// TestLineOf: a line begins where the informer starts.
func TestLineOf(t *testing.T) {
	trace := figures.Trace{EveryMillis: 100, Events: []float64{0, 0, 0, 5, 5, 9}, Marks: []figures.Mark{{Millis: 210, What: figures.Starts}}}
	got := callRate.lineOf("a", trace)
	if diff := cmp.Diff([]float64{0, 5, 0, 4}, got.At); diff != "" || got.Peak != 5 {
		t.Errorf("peak %v, %s", got.Peak, diff)
	}
	check.Equal(t, got.Every, 0.1, "a point every s")
}
