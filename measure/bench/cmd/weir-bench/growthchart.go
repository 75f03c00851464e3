package main

import (
	"fmt"
	"html"
	"math"
	"strings"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/tools/chart"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// These are sizes in the chart. The chart has a column for each axis. A column has a panel for each
// figure of its axis.
const (
	panelWidth, panelHeight = 270.0, 150.0
	plotLeft, plotRight     = 66.0, 252.0
	plotTop, plotBottom     = 30.0, 122.0
	headHeight              = 64.0
)

var colourOf = map[string]string{sideWeir: "#1a7f37", sideClientGo: "#cf222e", sideAPIServer: "#9a6700"}

// chart returns all axes as one self-contained SVG. Both scales of a panel are logarithmic. A
// dotted line shows proportional growth: the line of a figure that grows in proportion is parallel
// to it.
func (r *growthReport) chart() string {
	rows := 0
	for _, g := range r.Axes {
		rows = max(rows, len(g.axis.figures))
	}
	width, height := panelWidth*float64(max(1, len(r.Axes))), headHeight+panelHeight*float64(rows)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="system-ui,sans-serif" font-size="11" role="img" aria-label="Growth">`+"\n%s\n",
		width, height, chart.Style)
	fmt.Fprintf(&b, `<rect class="b" width="%g" height="%g"/>`+"\n", width, height)
	x := plotLeft
	for _, side := range []string{sideWeir, sideClientGo, sideAPIServer} {
		fmt.Fprintf(&b, `<text x="%g" y="20" fill="%s" font-weight="600" font-size="13">%s</text>`+"\n", x, colourOf[side], side)
		x += 110
	}
	fmt.Fprintf(&b, `<text class="m" x="%g" y="20">dotted: proportional growth</text>`+"\n", x)
	for i, g := range r.Axes {
		fmt.Fprintf(&b, `<g transform="translate(%g,%g)"><text class="t" x="8" y="-14" font-weight="600">%s</text>`+"\n",
			panelWidth*float64(i), headHeight, html.EscapeString(g.axis.label))
		for j, f := range g.axis.figures {
			fmt.Fprintf(&b, `<g transform="translate(0,%g)">`+"\n", panelHeight*float64(j))
			g.draw(&b, f)
			b.WriteString("</g>\n")
		}
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// scale is a logarithmic scale, which maps values to positions.
type scale struct{ least, most, from, to float64 }

func (s scale) of(v float64) float64 {
	if s.most <= s.least {
		return (s.from + s.to) / 2
	}
	return s.from + (s.to-s.from)*math.Log(v/s.least)/math.Log(s.most/s.least)
}

// scales returns the scales of a figure. x reaches from the first point to the last. y reaches from
// one whole power of ten to another. y.most is 0 if the figure was not measured.
func (g grownAxis) scales(f figures.Figure) (x, y scale) {
	x = scale{math.Inf(1), 0, plotLeft, plotRight}
	y = scale{math.Inf(1), 0, plotBottom, plotTop}
	for _, p := range g.Points {
		x.least, x.most = min(x.least, float64(p.N)), max(x.most, float64(p.N))
		if v := p.Figures[f.Key]; v > 0 {
			y.least, y.most = min(y.least, v), max(y.most, v)
		}
	}
	if y.most > 0 {
		y.least = math.Pow(10, math.Floor(math.Log10(y.least)))
		y.most = math.Pow(10, math.Ceil(math.Log10(y.most)))
		if y.most <= y.least {
			y.most = 10 * y.least
		}
	}
	return x, y
}

// draw draws the panel of a figure.
func (g grownAxis) draw(b *strings.Builder, f figures.Figure) {
	x, y := g.scales(f)
	fmt.Fprintf(b, `<text class="t" x="8" y="18">%s</text>`+"\n", html.EscapeString(strings.TrimSpace(f.Label)))
	if y.most == 0 {
		return
	}
	for v := y.least; v <= y.most*1.001; v *= 10 {
		fmt.Fprintf(b, `<line class="g" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/><text class="m" x="%g" y="%.1f" text-anchor="end">%s</text>`+"\n",
			plotLeft, plotRight, y.of(v), y.of(v), plotLeft-6, y.of(v)+4, f.Unit.Text(v))
	}
	for _, n := range g.axis.points {
		fmt.Fprintf(b, `<text class="m" x="%.1f" y="%g" text-anchor="middle">%s</text>`+"\n", x.of(float64(n)), plotBottom+15, short(n))
	}
	for _, side := range g.axis.sides {
		g.line(b, f, side, x, y)
	}
}

// line draws the line of a side. From weir's first point it also draws a dotted line of
// proportional growth, up to the edge of the panel.
func (g grownAxis) line(b *strings.Builder, f figures.Figure, side string, x, y scale) {
	var path, dots strings.Builder
	for _, p := range g.Points {
		v := p.Figures[f.Key]
		if p.Side != side || v <= 0 {
			continue
		}
		at := fmt.Sprintf("%.1f,%.1f ", x.of(float64(p.N)), y.of(v))
		if path.Len() == 0 && side == sideWeir {
			if end := min(x.most/float64(p.N), y.most/v); end > 1 {
				fmt.Fprintf(b, `<path d="M%sL%.1f,%.1f" class="g" fill="none" stroke-width="1.5" stroke-dasharray="2 4"/>`+"\n",
					at, x.of(float64(p.N)*end), y.of(v*end))
			}
		}
		if path.Len() == 0 {
			path.WriteString("M" + at)
		} else {
			path.WriteString("L" + at)
		}
		fmt.Fprintf(&dots, `<circle cx="%.1f" cy="%.1f" r="2.6" fill="%s"><title>%s %s: %s</title></circle>`+"\n",
			x.of(float64(p.N)), y.of(v), colourOf[side], side, humanize.Count(int64(p.N)), f.Unit.Text(v))
	}
	if path.Len() > 0 {
		fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n%s", strings.TrimSpace(path.String()), colourOf[side], dots.String())
	}
}

// short returns a point as short text, such as 500k.
func short(n int) string {
	if n >= 1_000 && n%1_000 == 0 {
		return fmt.Sprintf("%dk", n/1_000)
	}
	return fmt.Sprint(n)
}
