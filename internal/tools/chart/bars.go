package chart

import (
	"fmt"
	"html"

	"github.com/weirproject/weir/internal/core/humanize"
)

// The measures of bars, in the picture's units.
const (
	barsTop, barStep = 40.0, 26.0
	barLeft          = 260.0 // the labels end here
	barRight         = 650.0 // behind is the longest one's value
	maxLabel         = 36    // letters of a label that there is room for
)

// Bar is a value that is drawn beside others.
type Bar struct {
	Label string
	Value float64
}

// Bars draws values as bars, from the first on downwards. The first is what the others are compared
// with: it has another colour.
func Bars(title string, unit Unit, bars []Bar) string {
	c := &picture{}
	for _, b := range bars {
		c.most = max(c.most, b.Value)
	}
	c.begin(title, barsTop+barStep*float64(len(bars)), 0)
	for i, b := range bars {
		y, long := barsTop+barStep*float64(i), 0.0
		if c.most > 0 {
			long = (barRight - barLeft) * b.Value / c.most
		}
		colour := colours[len(colours)-1]
		if i == 0 {
			colour = colours[0]
		}
		fmt.Fprintf(c, `<text class="t" x="%g" y="%g" text-anchor="end">%s</text>`,
			barLeft-8, y+14, html.EscapeString(humanize.Cut(b.Label, maxLabel)))
		fmt.Fprintf(c, `<rect x="%g" y="%g" width="%.1f" height="18" fill="%s"/>`,
			barLeft, y, max(1, long), colour)
		fmt.Fprintf(c, `<text class="m" x="%.1f" y="%g">%s</text>`+"\n",
			barLeft+long+8, y+14, html.EscapeString(unit(b.Value)))
	}
	c.WriteString("</svg>\n")
	return c.String()
}
