package chart

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestBars checks that the longest bar ends at barRight, that the other bars are in proportion to
// their values, and that no label becomes a tag.
func TestBars(t *testing.T) {
	text := Chart{Title: `<a & "b">`, Unit: number}.Bars(Bar{Label: "as it is", Value: 200}, Bar{Label: `<script>alert(1)</script>`, Value: 50}, Bar{Label: strings.Repeat("ä", 100)})
	checkPicture(t, text)
	if strings.Contains(text, "<script") || strings.Contains(text, strings.Repeat("ä", maxLabel)) {
		t.Error(text)
	}
	var widths []float64
	for _, m := range regexp.MustCompile(`width="([0-9.]+)" height="18"`).FindAllStringSubmatch(text, -1) {
		v, err := strconv.ParseFloat(m[1], 64)
		check.NoError(t, err)
		widths = append(widths, v)
	}
	if len(widths) != 3 || widths[0] != barRight-barLeft || 4*widths[1] != widths[0] || widths[2] != 1 {
		t.Errorf("bars of %v", widths)
	}
}

// TestBarsOfTwo checks that the second value of a bar is drawn after the first, and that the text
// and the scale count both.
func TestBarsOfTwo(t *testing.T) {
	text := Chart{Title: "two", Unit: number}.Bars(Bar{Label: "one", Value: 30}, Bar{Label: "both", Value: 10, Other: 50})
	checkPicture(t, text)
	sixth := (barRight - barLeft) / 6
	for _, want := range []string{
		fmt.Sprintf(`x="%g" y="67" width="%.1f" height="18"`, barLeft, sixth),
		fmt.Sprintf(`x="%.1f" y="67.5" width="%.1f" height="17"`, barLeft+sixth, 5*sixth),
		fmt.Sprintf(`x="%.1f" y="81.0">60<`, barRight+8),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// TestZeroBars checks that bars without a positive value give a picture.
func TestZeroBars(t *testing.T) {
	checkPicture(t, Chart{Title: "zero", Unit: number}.Bars(Bar{Label: "a", Value: 0}))
}

// TestTimes checks the tags of time axes, from the start and as clock times.
func TestTimes(t *testing.T) {
	start := time.Date(2026, 11, 30, 22, 58, 30, 0, time.FixedZone("east", 3600))
	for _, test := range []struct {
		start   time.Time
		seconds float64
		want    string
	}{
		{seconds: 0, want: "0 s"},
		{seconds: 7, want: "0 s 1 s 2 s 3 s 4 s 5 s 6 s 7 s"},
		{seconds: 150, want: "0 s 30 s 1 min 1.5 min 2 min 2.5 min"},
		{seconds: 30 * 3600, want: "0 s 6 h 12 h 18 h 24 h 30 h"},
		{start: start, seconds: 20, want: "21:58:30 21:58:35 21:58:40 21:58:45 21:58:50"},
		{start: start, seconds: 600, want: "22:00 22:02 22:04 22:06 22:08"},
		{start: start, seconds: 4 * 3600, want: "22:00 23:00 Dec 1 01:00"},
		{start: start, seconds: 40 * 86400, want: "Dec 7 Dec 14 Dec 21 Dec 28 Jan 4"},
	} {
		at, tags, _ := Chart{Start: test.start}.times(test.seconds)
		if got := strings.Join(tags, " "); got != test.want {
			t.Errorf("%v s from %v: %s", test.seconds, test.start, got)
		}
		for _, x := range at {
			if x < 0 || x > test.seconds {
				t.Errorf("%v s from %v: a tag at %v", test.seconds, test.start, x)
			}
		}
	}
}
