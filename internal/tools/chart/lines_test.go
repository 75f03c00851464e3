package chart

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
)

func number(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }

// checkXML checks that a picture is valid XML, so that it can also be a separate file.
func checkXML(t *testing.T, text string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
	}
}

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
	c := &picture{seconds: 1, most: 100}
	path := c.path(Line{Every: 1 / float64(len(at)-1), At: at, Peak: 100})
	if n := strings.Count(path, "L") + strings.Count(path, "M"); n > maxPoints {
		t.Errorf("%d points", n)
	}
	if highest := fmt.Sprintf(",%.1f", top); !strings.Contains(path, highest) {
		t.Errorf("no point at the top, %s", highest)
	}
}

// TestDrawKeepsOrder checks that the names of lines with equal peaks are in the order of the lines.
func TestDrawKeepsOrder(t *testing.T) {
	var lines []Line
	for i := range 20 {
		lines = append(lines, Line{Label: fmt.Sprintf("side %02d", i), Every: 1, At: []float64{1, 1}, Peak: 1})
	}
	names := regexp.MustCompile(`side [0-9]+`).FindAllString(Lines("a title", time.Time{}, number, lines), -1)
	if !slices.IsSorted(names) || len(names) < len(lines) {
		t.Errorf("%v", names)
	}
}

// TestDrawSeparatesLabels checks that the names of lines with equal peaks do not overlap, and stay
// inside the picture.
func TestDrawSeparatesLabels(t *testing.T) {
	var lines []Line
	for i := range 5 {
		lines = append(lines, Line{Label: "side " + strconv.Itoa(i), Every: 1, At: []float64{1, float64(1 + i%2)}, Peak: float64(1 + i%2)})
	}
	var ys []float64
	for _, m := range regexp.MustCompile(`y="([0-9.]+)"[^>]*>side`).FindAllStringSubmatch(Lines("a title", time.Time{}, number, lines), -1) {
		y, err := strconv.ParseFloat(m[1], 64)
		check.NoError(t, err)
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

func TestDrawEscapes(t *testing.T) {
	text := Lines(`<a & "b">`, time.Time{}, number, []Line{{Label: "<side>", Every: 1, At: []float64{1, 2}, Peak: 2}})
	if strings.Contains(text, "<side>") || strings.Contains(text, "<a &") {
		t.Error(text)
	}
	checkXML(t, text)
}
