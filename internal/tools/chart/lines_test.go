package chart

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
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

// TestDrawKeepsPeaks checks that a line with more than maxPoints values still shows its one high
// value.
func TestDrawKeepsPeaks(t *testing.T) {
	at := make([]float64, 10*maxPoints)
	at[777] = 100
	path := NewLine("a", 1/float64(len(at)-1), at).path(scale{most: 1, to: 9}, scale{most: 100, to: 20})
	if n := strings.Count(path, ","); n > maxPoints {
		t.Errorf("%d points", n)
	}
	if highest := ",20.0"; !strings.Contains(path, highest) {
		t.Errorf("no point at the top, %s", highest)
	}
}

// TestDrawKeepsOrder checks that the names of lines with equal peaks are in the order of the lines.
func TestDrawKeepsOrder(t *testing.T) {
	var lines []Line
	for i := range 20 {
		lines = append(lines, Line{Label: fmt.Sprintf("side %02d", i), Every: 1, At: []float64{1, 1}, Peak: 1})
	}
	names := regexp.MustCompile(`side [0-9]+`).FindAllString(Chart{Title: "a title", Unit: number}.Lines(lines...), -1)
	if !slices.IsSorted(names) || len(names) < len(lines) {
		t.Errorf("%v", names)
	}
}

// TestTotal checks that the largest value of cumulative values is called their total.
func TestTotal(t *testing.T) {
	text := Chart{Title: "a title", Unit: number, Most: "total"}.Lines(NewLine("a", 1, []float64{0, 7}))
	if !strings.Contains(text, ">total 7<") || strings.Contains(text, "peak") {
		t.Error(text)
	}
}

func TestDrawEscapes(t *testing.T) {
	text := Chart{Title: `<a & "b">`, Unit: number}.Lines(Line{Label: "<side>", Every: 1, At: []float64{1, 2}, Peak: 2})
	if strings.Contains(text, "<side>") || strings.Contains(text, "<a &") {
		t.Error(text)
	}
	checkPicture(t, text)
}
