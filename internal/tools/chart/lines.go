package chart

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirproject/weir/internal/core/humanize"
)

// The measures of a line chart, in SVG units.
const (
	left, right            = 76.0, 556.0
	plotHeight             = 220.0
	labelLine, labelHeight = 22.0, 34.0 // of a name: its piece of line; its text
	maxName                = 20         // characters of a line's name that fit
	maxPoints              = 400        // of a line; the eye cannot separate more
	gridLines, maxTimeTags = 5, 7
)

// Line is one line of a chart. At contains its values, at intervals of Every seconds. Peak is the
// largest value.
type Line struct {
	Label string
	Every float64
	At    []float64
	Peak  float64

	class int
}

// NewLine returns a line through these points.
func NewLine(label string, every float64, at []float64) Line {
	return Line{Label: label, Every: every, At: at, Peak: slices.Max(append(slices.Clone(at), 0))}
}

// Lines returns a chart of lines over time. The last line is Weir's.
func (c Chart) Lines(lines ...Line) string {
	seconds, most := 0.0, 0.0
	for _, l := range lines {
		seconds, most = max(seconds, l.Every*float64(len(l.At)-1)), max(most, l.Peak)
	}
	step := niceStep(most / gridLines)
	most = step * math.Max(1, math.Ceil(most/step))
	p := c.begin()
	x := scale{most: seconds, from: left, to: right}
	y := scale{most: most, from: p.y + max(plotHeight, labelHeight*float64(len(lines))), to: p.y}
	for v := 0.0; v <= most*1.001; v += step {
		p.tick(x, y, v, c.Unit(v))
	}
	lines = slices.Clone(lines)
	for i := range lines {
		lines[i].class = classOf(i, len(lines))
		p.line(lines[i].class, lines[i].path(x, y))
	}
	label := y.to // the names at the right, the line with the highest peak first
	for n, l := range slices.SortedStableFunc(slices.Values(lines), func(a, b Line) int { return cmp.Compare(b.Peak, a.Peak) }) {
		label = min(max(label, y.of(l.Peak)+4), y.from-float64(len(lines)-n-1)*labelHeight-12)
		p.name(l.class, right+8, label, labelLine, humanize.Cut(l.Label, maxName))
		p.text(`class="m"`, right+labelLine+14, label+textHeight-1, cmp.Or(c.Most, "peak")+" "+c.Unit(l.Peak))
		label += labelHeight
	}
	p.y = y.from + 20
	at, tags, name := c.times(seconds)
	for i, t := range at {
		p.text(`class="m" text-anchor="middle"`, x.of(t), p.y, tags[i])
	}
	p.y += 18
	p.text(`class="m" text-anchor="middle"`, (left+right)/2, p.y, name)
	p.y += 6
	return c.end(p)
}

// path returns the SVG path of a line, of at most maxPoints points. Each point is the largest of
// several consecutive values, so that no peak is lost.
func (l Line) path(x, y scale) string {
	each := max(1, (len(l.At)+maxPoints-1)/maxPoints)
	path, at := "M", 0.0
	for values := range slices.Chunk(l.At, each) {
		path += fmt.Sprintf("%.1f,%.1f ", x.of(at), y.of(slices.Max(values)))
		at += float64(each) * l.Every
	}
	return strings.TrimSpace(path)
}

// steps are the intervals between the tags of a time axis. Times that are longer than maxTimeTags
// months have a step of ten months.
var steps = []time.Duration{
	time.Second / 10, time.Second / 5, time.Second / 2, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour,
	6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 2 * 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour,
}

// times returns the tags of the time axis with their positions in seconds, and the axis' label.
func (c Chart) times(seconds float64) (at []float64, tags []string, name string) {
	start, long := c.Start.UTC(), time.Duration(seconds*float64(time.Second))
	step, name := 10*steps[len(steps)-1], "time since the start"
	if i := slices.IndexFunc(steps, func(s time.Duration) bool { return s*maxTimeTags >= long }); i >= 0 {
		step = steps[i]
	}
	if !c.Start.IsZero() {
		name = "time (UTC), from " + start.Format("2006-01-02 15:04")
	}
	for t := start.Add(step - 1).Truncate(step); !t.After(start.Add(long)); t = t.Add(step) {
		tag := strings.TrimSuffix(t.Format("15:04:05"), ":00")
		if c.Start.IsZero() {
			tag = humanize.Duration(t.Sub(start))
		} else if tag == "00:00" {
			tag = t.Format("Jan 2")
		}
		at, tags = append(at, t.Sub(start).Seconds()), append(tags, tag)
	}
	return at, tags, name
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
