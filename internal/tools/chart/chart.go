// Package chart draws charts as self-contained SVG, in the style of the HTML pages that contain
// them. It escapes the titles and labels. Pictures and pages follow the reader's colour scheme.
package chart

import (
	"cmp"
	_ "embed"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirproject/weir/internal/core/humanize"
)

// The measures of a line chart, in SVG units.
const (
	width, height          = 760.0, 300.0
	left, right            = 70.0, 590.0
	top, bottom            = 40.0, 260.0
	labelHeight            = 32.0
	maxPoints              = 400 // of a line; the eye cannot separate more
	gridLines, maxTimeTags = 5, 8
	maxClockTags           = 8
	maxDateTags            = 5      // of clock times with dates, which are longer
	maxName                = 21     // characters of a line's name that fit
	manySeconds            = 600.0  // from here on, the time axis is in minutes
	manyMinutes            = 7200.0 // from here on, the time axis is in hours
)

// colours are the colours of the lines. The last colour is weir's.
var colours = []string{"#cf222e", "#9a6700", "#8250df", "#0969da", "#1a7f37"}

// Style is the style sheet of a picture. Its classes are b for the background, t for text, m for
// dim text and g for the grid. It follows the reader's colour scheme.
const Style = `<style>.b{fill:#fff}.t{fill:#24292f}.m{fill:#57606a}.g{stroke:#d0d7de}@media(prefers-color-scheme:dark){` +
	`.b{fill:#0d1117}.t{fill:#e6edf3}.m{fill:#8b949e}.g{stroke:#30363d}}</style>`

// Line is one line of a chart. At contains its values, at intervals of Every seconds. Peak is the
// largest value.
type Line struct {
	Label string
	Every float64
	At    []float64
	Peak  float64
}

// NewLine returns a line through these points.
func NewLine(label string, every float64, at []float64) Line {
	l := Line{Label: label, Every: every, At: at}
	for _, v := range at {
		l.Peak = max(l.Peak, v)
	}
	return l
}

// seconds returns the time that the line spans.
func (l Line) seconds() float64 { return l.Every * float64(max(0, len(l.At)-1)) }

// Unit formats a value for people.
type Unit func(v float64) string

// picture is an SVG under construction.
type picture struct {
	strings.Builder
	seconds, most float64   // the largest values of the axes
	from          time.Time // when the time axis starts; zero if unknown
}

// Lines returns a chart of lines over time. The last line is weir's. The time axis shows clock
// times in UTC, of lines that start at from; or, if from is zero, the time since the start.
func Lines(title string, from time.Time, unit Unit, lines []Line) string {
	c := &picture{from: from.UTC()}
	for _, l := range lines {
		c.seconds, c.most = max(c.seconds, l.seconds()), max(c.most, l.Peak)
	}
	step := niceStep(c.most / gridLines)
	c.most = step * math.Max(1, math.Ceil(c.most/step))
	c.begin(title, height, left)
	for v := 0.0; v <= c.most*1.001; v += step {
		fmt.Fprintf(c, `<line class="g" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/><text class="m" x="%g" y="%.1f" text-anchor="end">%s</text>`+"\n",
			left, right, c.y(v), c.y(v), left-8, c.y(v)+4, unit(v))
	}
	c.timeAxis()
	c.lines(unit, lines)
	c.WriteString("</svg>\n")
	return c.String()
}

// begin draws the background and the title.
func (c *picture) begin(title string, height, at float64) {
	title = html.EscapeString(title)
	fmt.Fprintf(c, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="system-ui,sans-serif" font-size="13" role="img" aria-label="%s">`+"\n%s\n",
		width, height, title, Style)
	fmt.Fprintf(c, `<rect class="b" width="%g" height="%g"/><text class="t" x="%g" y="22" font-weight="600">%s</text>`+"\n", width, height, at, title)
}

func (c *picture) x(seconds float64) float64 {
	if c.seconds == 0 {
		return left
	}
	return left + (right-left)*seconds/c.seconds
}

func (c *picture) y(v float64) float64 { return bottom - (bottom-top)*v/c.most }

// clockSteps are the intervals between two clock times of a time axis.
var clockSteps = []time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// clockAxis draws clock times in UTC at round times. Times of several days have the date.
func (c *picture) clockAxis() {
	span := time.Duration(c.seconds * float64(time.Second))
	step, tags := clockSteps[len(clockSteps)-1], time.Duration(maxClockTags)
	if span > 24*time.Hour {
		tags = maxDateTags
	}
	for _, s := range slices.Backward(clockSteps) {
		if s*tags >= span {
			step = s
		}
	}
	for step*tags < span {
		step *= 2
	}
	layout := "15:04"
	switch {
	case step < time.Minute:
		layout = "15:04:05"
	case step >= 24*time.Hour:
		layout = "01-02"
	case span > 24*time.Hour:
		layout = "01-02 15:04"
	}
	for at := c.from.Add(step - 1).Truncate(step); at.Sub(c.from) <= span; at = at.Add(step) {
		fmt.Fprintf(c, `<text class="m" x="%.1f" y="280" text-anchor="middle">%s</text>`+"\n", c.x(at.Sub(c.from).Seconds()), at.Format(layout))
	}
	fmt.Fprintf(c, `<text class="m" x="%g" y="280">UTC</text>`+"\n", right+30)
}

func (c *picture) timeAxis() {
	if !c.from.IsZero() {
		c.clockAxis()
		return
	}
	unit, name := 1.0, "s"
	if c.seconds > manyMinutes {
		unit, name = 3600, "h"
	} else if c.seconds > manySeconds {
		unit, name = 60, "min"
	}
	step := niceStep(c.seconds / unit / maxTimeTags)
	for t := 0.0; t <= c.seconds/unit; t += step {
		fmt.Fprintf(c, `<text class="m" x="%.1f" y="280" text-anchor="middle">%g %s</text>`+"\n", c.x(t*unit), math.Round(t*100)/100, name)
	}
}

// lines draws the lines, and writes their names at the right, the line with the highest peak first.
func (c *picture) lines(unit Unit, lines []Line) {
	for i, l := range lines {
		fmt.Fprintf(c, `<path d="%s" fill="none" stroke="%s" stroke-width="2.2" stroke-linejoin="round"/>`+"\n", c.path(l), colourOf(i, len(lines)))
	}
	order := make([]int, len(lines))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(lines[b].Peak, lines[a].Peak) })
	y := top
	for n, i := range order {
		l := lines[i]
		y = max(y, c.y(l.Peak)+4)
		y = min(y, bottom-float64(len(order)-n-1)*labelHeight-12)
		fmt.Fprintf(c, `<text x="%g" y="%.1f" fill="%s" font-weight="600">%s</text><text class="m" x="%g" y="%.1f">peak %s</text>`+"\n",
			right+8, y, colourOf(i, len(lines)), html.EscapeString(humanize.Cut(l.Label, maxName)), right+8, y+14, unit(l.Peak))
		y += labelHeight
	}
}

// colourOf returns the colour of line i in a chart with the given number of lines. The last line is
// weir's.
func colourOf(i, of int) string {
	if i == of-1 {
		return colours[len(colours)-1]
	}
	return colours[i%(len(colours)-1)]
}

// path returns the SVG path of a line, of at most maxPoints points. Each point is the largest of
// several consecutive values, so that no peak is lost.
func (c *picture) path(l Line) string {
	each := max(1, (len(l.At)+maxPoints-1)/maxPoints)
	var b strings.Builder
	for i := 0; i < len(l.At); i += each {
		command := 'L'
		if i == 0 {
			command = 'M'
		}
		fmt.Fprintf(&b, "%c%.1f,%.1f ", command, c.x(float64(i)*l.Every), c.y(slices.Max(l.At[i:min(i+each, len(l.At))])))
	}
	return strings.TrimSpace(b.String())
}

// niceStep returns the smallest number that is at least atLeast and is 1, 2, 2.5 or 5 times a power
// of ten. It returns 1 if atLeast is not positive.
func niceStep(atLeast float64) float64 {
	if atLeast <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(atLeast)))
	for _, n := range []float64{1, 2, 2.5, 5} {
		if n*power >= atLeast {
			return n * power
		}
	}
	return 10 * power
}

//go:embed page.css
var pageStyle string

// PageStyle returns the style sheet of a page with pictures and tables.
func PageStyle() string { return pageStyle }

// The measures of a bar chart, in SVG units.
const (
	barsTop, barStep = 40.0, 26.0
	barLeft          = 260.0 // the labels end here
	barRight         = 650.0 // the longest bar ends here, and its value follows
	maxLabel         = 36    // characters of a label that fit
)

// Bar is one bar: a value with a label. Other is a further value, which is drawn after Value as an
// outlined bar. The bar's text is the sum.
type Bar struct {
	Label        string
	Value, Other float64
}

// Bars returns a chart of bars, the first one at the top. The first bar has a different colour from
// the other bars, because readers compare them with it.
func Bars(title string, unit Unit, bars []Bar) string {
	c := &picture{}
	for _, b := range bars {
		c.most = max(c.most, b.Value+b.Other)
	}
	c.begin(title, barsTop+barStep*float64(len(bars)), 0)
	for i, b := range bars {
		y, long, more := barsTop+barStep*float64(i), 0.0, 0.0
		if c.most > 0 {
			long, more = (barRight-barLeft)*b.Value/c.most, (barRight-barLeft)*b.Other/c.most
		}
		colour := colours[len(colours)-1]
		if i == 0 {
			colour = colours[0]
		}
		fmt.Fprintf(c, `<text class="t" x="%g" y="%g" text-anchor="end">%s</text>`,
			barLeft-8, y+14, html.EscapeString(humanize.Cut(b.Label, maxLabel)))
		fmt.Fprintf(c, `<rect x="%g" y="%g" width="%.1f" height="18" fill="%s"/>`,
			barLeft, y, max(1, long), colour)
		if more > 0 {
			fmt.Fprintf(c, `<rect x="%.1f" y="%g" width="%.1f" height="17" fill="%s" fill-opacity=".25" stroke="%[4]s"/>`,
				barLeft+max(1, long), y+0.5, more, colour)
		}
		fmt.Fprintf(c, `<text class="m" x="%.1f" y="%g">%s</text>`+"\n",
			barLeft+long+more+8, y+14, html.EscapeString(unit(b.Value+b.Other)))
	}
	c.WriteString("</svg>\n")
	return c.String()
}
