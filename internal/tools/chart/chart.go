// Package chart draws charts as self-contained SVG, in the style of the HTML pages that contain
// them. It escapes the titles and labels. Pictures and pages follow the reader's colour scheme.
package chart

import (
	_ "embed"
	"fmt"
	"html"
	"math"
	"strings"
	"time"

	"github.com/weirproject/weir/internal/core/humanize"
)

// The measures of a picture, in SVG units. A text is wrapped or cut as in a wide font, because the
// reader's font is not known.
const (
	width, margin           = 760.0, 14.0
	titleSize, textSize     = 15.0, 12.0
	titleHeight, textHeight = 21.0, 16.0 // of a line of text
	plainWidth, boldWidth   = 0.6, 0.65  // of a character, in font sizes
)

//go:embed picture.css
var pictureStyle string

// Style is the style sheet of a picture. Its classes are b for the background, t for text, m for
// dim text, g for the grid, and c with a number for series and for dim lines. It follows the
// reader's colour scheme. Each text has a contrast of at least 4.5, as WCAG AA requires.
var Style = "<style>" + strings.TrimSpace(pictureStyle) + "</style>"

// Unit formats a value for people.
type Unit func(v float64) string

// Chart describes a picture. Its methods draw it. Only Title and Unit are required.
type Chart struct {
	Title  string    // the statement that the picture shows
	Unit   Unit      // of the values
	Values string    // the label of the axis of values
	Start  time.Time // when a line starts; the time axis then shows clock times in UTC
	Most   string    // the name of a line's largest value; "peak" if empty
	Source string    // the last lines: machine, versions, date and number of runs
}

// picture is an SVG under construction.
type picture struct {
	strings.Builder
	y float64 // where the next part starts
}

// begin starts a picture with the title and the label of the values.
func (c Chart) begin() *picture {
	p := &picture{}
	p.paragraph(c.Title, true)
	p.y += 4
	p.paragraph(c.Values, false)
	p.y += textHeight
	return p
}

// end returns the picture, which ends with its source.
func (c Chart) end(p *picture) string {
	p.paragraph(c.Source, false)
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="system-ui,sans-serif" font-size="%g" role="img">`+
		"\n<title>%s</title>\n%s\n"+`<rect class="b" width="100%%" height="100%%"/>`+"\n%s</svg>\n",
		width, math.Ceil(p.y+textHeight/2), textSize, html.EscapeString(c.Title), Style, p)
}

// text draws a text, from x and on the base line y unless the attributes change that.
func (p *picture) text(attributes string, x, y float64, text string) {
	fmt.Fprintf(p, `<text %s x="%.1f" y="%.1f">%s</text>`+"\n", attributes, x, y, html.EscapeString(text))
}

// paragraph draws a text over the whole width, as a heading or as dim text.
func (p *picture) paragraph(text string, heading bool) {
	attributes, character, height := `class="m"`, textSize*plainWidth, textHeight
	if heading {
		attributes, character, height = `class="t" font-weight="600" font-size="15"`, titleSize*boldWidth, titleHeight
	}
	for _, line := range humanize.Wrap(text, int((width-2*margin)/character)) {
		p.y += height
		p.text(attributes, margin, p.y, line)
	}
}

// scale maps values to positions.
type scale struct{ least, most, from, to float64 }

func (s scale) of(v float64) float64 {
	if s.most <= s.least {
		return s.from
	}
	return s.from + (s.to-s.from)*(v-s.least)/(s.most-s.least)
}

// tick draws a line of the grid at a value, and the value's text left of it.
func (p *picture) tick(x, y scale, v float64, text string) {
	fmt.Fprintf(p, `<line class="g" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`+"\n", x.from, x.to, y.of(v), y.of(v))
	p.text(`class="m" text-anchor="end"`, x.from-6, y.of(v)+4, text)
}

// The classes of Weir's series and of dim lines. Lower classes are those of other series. Classes
// differ in colour, in the dashes of their lines, and in the form of their points.
const weirs, dim = 4, 5

// classOf returns the class of series i in a chart with the given number of series. The last series
// is Weir's.
func classOf(i, of int) int {
	if i == of-1 {
		return weirs
	}
	return i % weirs
}

// line draws a line along an SVG path.
func (p *picture) line(class int, path string) {
	dashes := [...]string{"8 3", "2 3", "9 3 2 3", "5 3", "none", "1 4"}[class]
	fmt.Fprintf(p, `<path class="c%d" d="%s" fill="none" stroke="currentColor" stroke-width="2.2" stroke-dasharray="%s"/>`+"\n", class, path, dashes)
}

// point draws a point of a series, with a text that browsers show on hovering.
func (p *picture) point(class int, x, y float64, text string) {
	form := [...]string{"m-3,-3h6v6h-6z", "m0,-4l4,7h-8z", "m0,-4l4,4l-4,4l-4,-4z", "m0,4l4,-7h-8z", "m-3,0a3,3 0 1 0 6,0a3,3 0 1 0 -6,0z"}[class]
	fmt.Fprintf(p, `<path class="c%d" d="M%.1f,%.1f%s" fill="currentColor"><title>%s</title></path>`+"\n", class, x, y, form, html.EscapeString(text))
}

// name draws the name of a series, after a piece of its line of the given length.
func (p *picture) name(class int, x, y, long float64, name string) {
	p.line(class, fmt.Sprintf("M%.1f,%.1fh%g", x, y-4, long))
	p.text(fmt.Sprintf(`class="c%d" fill="currentColor" font-weight="600"`, class), x+long+6, y, name)
}

//go:embed page.css
var pageStyle string

// PageStyle returns the style sheet of a page with pictures and tables.
func PageStyle() string { return pageStyle }

// The measures of a bar chart, in SVG units.
const (
	barStep           = 26.0
	barLeft, barRight = 290.0, 650.0 // of the longest bar
	maxLabel          = 36           // characters of a label that fit
)

// Bar is one bar: a value with a label. Other is a further value, which is drawn after Value as an
// outlined bar. The bar's text is the sum.
type Bar struct {
	Label        string
	Value, Other float64
}

// Bars returns a chart of bars, the first one at the top. The first bar has a different colour from
// the other bars, because readers compare them with it.
func (c Chart) Bars(bars ...Bar) string {
	p := c.begin()
	x := scale{to: barRight - barLeft}
	for _, b := range bars {
		x.most = max(x.most, b.Value+b.Other)
	}
	for i, b := range bars {
		long, more := x.of(b.Value), x.of(b.Other)
		p.text(`class="t" text-anchor="end"`, barLeft-8, p.y+14, humanize.Cut(b.Label, maxLabel))
		fmt.Fprintf(p, `<rect class="c%d" x="%g" y="%g" width="%.1f" height="18" fill="currentColor"/>`+"\n",
			weirs*min(i, 1), barLeft, p.y, max(1, long))
		if more > 0 {
			fmt.Fprintf(p, `<rect class="c%d" x="%.1f" y="%g" width="%.1f" height="17" fill="currentColor" fill-opacity=".25" stroke="currentColor"/>`+"\n",
				weirs*min(i, 1), barLeft+max(1, long), p.y+0.5, more)
		}
		p.text(`class="m"`, barLeft+long+more+8, p.y+14, c.Unit(b.Value+b.Other))
		p.y += barStep
	}
	return c.end(p)
}
