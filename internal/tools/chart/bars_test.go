package chart

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestBars checks that the longest bar ends at barRight, that the other bars are in proportion to
// their values, and that no label becomes a tag.
func TestBars(t *testing.T) {
	text := Bars(`<a & "b">`, number, []Bar{{"as it is", 200}, {`<script>alert(1)</script>`, 50}, {strings.Repeat("ä", 100), 0}})
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

// TestBarsOfNothing checks that bars without a positive value, and no bars at all, give valid SVG.
func TestBarsOfNothing(t *testing.T) {
	checkXML(t, Bars("nothing", number, nil))
	checkXML(t, Bars("zero", number, []Bar{{"a", 0}}))
}

// TestHours checks that long times are shown in minutes or hours.
func TestHours(t *testing.T) {
	for every, want := range map[float64]string{1: "5 s<", 60: "5 min<", 3600: "5 h<"} {
		if text := Lines("t", number, []Line{NewLine("a", every, make([]float64, 31))}); !strings.Contains(text, want) {
			t.Errorf("every %v s: no %s in\n%s", every, want, text)
		}
	}
}
