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
	text := Bars(`<a & "b">`, number, []Bar{{Label: "as it is", Value: 200}, {Label: `<script>alert(1)</script>`, Value: 50}, {Label: strings.Repeat("ä", 100)}})
	checkXML(t, text)
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
	text := Bars("two", number, []Bar{{Label: "one", Value: 30}, {Label: "both", Value: 10, Other: 50}})
	checkXML(t, text)
	sixth := (barRight - barLeft) / 6
	for _, want := range []string{
		fmt.Sprintf(`<rect x="%g" y="66" width="%.1f" height="18"`, barLeft, sixth),
		fmt.Sprintf(`<rect x="%.1f" y="66.5" width="%.1f" height="17"`, barLeft+sixth, 5*sixth),
		fmt.Sprintf(`x="%.1f" y="80">60<`, barRight+8),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// TestClock checks the clock times of charts that span seconds, hours and days.
func TestClock(t *testing.T) {
	from := time.Date(2026, 11, 20, 8, 0, 7, 0, time.FixedZone("east", 3600))
	for every, want := range map[float64]string{
		1: "07:00:10 07:00:15 07:00:20 07:00:25 07:00:30 07:00:35 UTC", 60: "07:05 07:10 07:15 07:20 07:25 07:30 UTC",
		3600: "11-20 12:00 11-20 18:00 11-21 00:00 11-21 06:00 11-21 12:00 UTC", 86400: "11-25 12-03 12-11 12-19 UTC",
	} {
		text := Lines("t", from, number, []Line{NewLine("a", every, make([]float64, 31))})
		var tags []string
		for _, m := range regexp.MustCompile(`y="280"[^>]*>([^<]*)<`).FindAllStringSubmatch(text, -1) {
			tags = append(tags, m[1])
		}
		check.Equal(t, strings.Join(tags, " "), want, "every %v s", every)
	}
}

// TestBarsOfNothing checks that bars without a positive value, and no bars at all, give valid SVG.
func TestBarsOfNothing(t *testing.T) {
	checkXML(t, Bars("nothing", number, nil))
	checkXML(t, Bars("zero", number, []Bar{{Label: "a"}}))
}

// TestHours checks that long times are shown in minutes or hours.
func TestHours(t *testing.T) {
	for every, want := range map[float64]string{1: "5 s<", 60: "5 min<", 3600: "5 h<"} {
		if text := Lines("t", time.Time{}, number, []Line{NewLine("a", every, make([]float64, 31))}); !strings.Contains(text, want) {
			t.Errorf("every %v s: no %s in\n%s", every, want, text)
		}
	}
}
