package chart

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weirproject/weir/internal/core/humanize"
)

// The measures of panels, in SVG units.
const (
	panelsInRow             = 3
	panelWidth, panelHeight = (width - margin) / panelsInRow, 168.0
	panelLeft, panelRight   = 70.0, panelWidth - 16 // of the plot, in the panel
	panelTop, panelBottom   = 28.0, 120.0
	maxDecades              = 5 // that have a line of the grid
)

// Section is a group of panels with the same horizontal axis.
type Section struct {
	Title  string
	Axis   string // the label of the horizontal axis
	At     []int  // the values on it, from the smallest to the largest, above 0
	Panels []Panel
}

// Panel is a small chart of one figure. Both scales are logarithmic. Series[i] contains the values
// of series i at the section's At; 0 if there is none. At least one value is above 0.
type Panel struct {
	Title  string
	Unit   Unit
	Series [][]float64
}

// Panels returns a chart with sections of panels. The last of the named series is Weir's. A dotted
// line from Weir's first point shows proportional growth: the line of a figure that grows in
// proportion is parallel to it. Each panel has its own unit.
func (c Chart) Panels(names []string, sections ...Section) string {
	p := c.begin()
	x := margin
	for i, name := range names {
		p.name(classOf(i, len(names)), x, p.y, 30, name)
		p.point(classOf(i, len(names)), x+15, p.y-4, name)
		x += 36 + textSize*boldWidth*float64(len(name)+2)
	}
	p.name(dim, x, p.y, 30, "proportional growth; all axes: log")
	for _, s := range sections {
		p.y += textHeight
		p.paragraph(s.Title, true)
		p.y += textHeight / 2
		for i, panel := range s.Panels {
			if i > 0 && i%panelsInRow == 0 {
				p.y += panelHeight
			}
			s.draw(p, panel, margin/2+panelWidth*float64(i%panelsInRow))
		}
		p.y += panelHeight
	}
	return c.end(p)
}

// thousands shortens numbers on a horizontal axis, as in 500k.
var thousands = strings.NewReplacer(",000,000", "M", ",000", "k")

// draw draws a panel whose left edge is at from. Its scales map decimal logarithms.
func (s Section) draw(p *picture, panel Panel, from float64) {
	log := func(n int) float64 { return math.Log10(float64(n)) }
	x := scale{log(s.At[0]), log(s.At[len(s.At)-1]), from + panelLeft, from + panelRight}
	values := slices.DeleteFunc(slices.Concat(panel.Series...), func(v float64) bool { return v <= 0 })
	y := scale{math.Floor(math.Log10(slices.Min(values))), math.Ceil(math.Log10(slices.Max(values))), p.y + panelBottom, p.y + panelTop}
	y.most = max(y.most, y.least+1)
	p.text(`class="t" font-weight="600"`, from+margin/2, p.y+14, panel.Title)
	for v := y.least; v <= y.most; v += math.Ceil((y.most - y.least) / maxDecades) {
		p.tick(x, y, v, panel.Unit(math.Pow(10, v)))
	}
	for _, n := range s.At {
		p.text(`class="m" text-anchor="middle"`, x.of(log(n)), y.from+18, thousands.Replace(humanize.Count(int64(n))))
	}
	p.text(`class="m" text-anchor="middle"`, (x.from+x.to)/2, y.from+34, s.Axis+" (log)")
	for i, values := range panel.Series {
		class, path := classOf(i, len(panel.Series)), ""
		for j, v := range values {
			if v <= 0 {
				continue
			}
			n, v := log(s.At[j]), math.Log10(v)
			if end := min(x.most-n, y.most-v); path == "" && class == weirs {
				p.line(dim, fmt.Sprintf("M%.1f,%.1f L%.1f,%.1f", x.of(n), y.of(v), x.of(n+end), y.of(v+end)))
			}
			path += fmt.Sprintf("%.1f,%.1f ", x.of(n), y.of(v))
			p.point(class, x.of(n), y.of(v), humanize.Count(int64(s.At[j]))+": "+panel.Unit(values[j]))
		}
		p.line(class, strings.TrimSpace("M"+path))
	}
}
