package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/tools/chart"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// nameOf contains the names of the sides for people.
var nameOf = map[string]string{sideWeir: weir, sideClientGo: clientGo, sideAPIServer: sideAPIServer}

// chart returns all axes as one self-contained SVG, with a section for each axis that was measured.
// The title of the first section is that of the chart.
func (r *growthReport) chart() string {
	c := chart.Chart{Source: r.text()}
	var sections []chart.Section
	for _, g := range r.Axes {
		if s := g.section(); len(s.Panels) > 0 {
			sections = append(sections, s)
		}
	}
	if len(sections) > 0 {
		c.Title, sections[0].Title = sections[0].Title, ""
	}
	return c.Panels([]string{clientGo, sideAPIServer, weir}, sections...)
}

// text returns the text below the chart and the table.
func (r *growthReport) text() string {
	return r.source(strings.Join(append([]string{"One run of each point, client-go with LIST, informers from a stub server"}, r.Flags...), ", "))
}

// growthSides are the sides in the order of their names in the chart.
var growthSides = []string{sideClientGo, sideAPIServer, sideWeir}

// section returns the panels of an axis: one for each figure that is above 0 at a point.
func (g grownAxis) section() chart.Section {
	noun, _, _ := strings.Cut(g.axis.label, " ")
	s := chart.Section{Title: g.point(), Axis: noun, At: g.axis.points}
	for _, f := range g.axis.figures {
		p := chart.Panel{Title: strings.TrimSpace(f.Label), Unit: f.Unit.Text}
		measured := false
		for _, side := range growthSides {
			values := make([]float64, len(s.At))
			for i, n := range g.axis.points {
				values[i] = g.at(side, n)[f.Key]
				measured = measured || values[i] > 0
			}
			p.Series = append(p.Series, values)
		}
		if measured {
			s.Panels = append(s.Panels, p)
		}
	}
	return s
}

// point returns a sentence with the values of an axis' main figure, at the largest point at which
// all sides have it.
func (g grownAxis) point() string {
	f := g.axis.figures[max(0, slices.IndexFunc(g.axis.figures, func(f figures.Figure) bool { return f.Key == g.axis.main }))]
	for _, n := range slices.Backward(g.axis.points) {
		var values []string
		for _, side := range growthSides {
			if v, ok := g.at(side, n)[f.Key]; ok {
				values = append(values, nameOf[side]+" "+f.Unit.Text(v))
			}
		}
		if len(values) == len(g.axis.sides) {
			label := strings.TrimSpace(f.Label)
			return fmt.Sprintf("%s%s, with %s %s: %s", strings.ToUpper(label[:1]), label[1:], humanize.Count(int64(n)), g.axis.label, strings.Join(values, ", "))
		}
	}
	return "Growth with the number of " + g.axis.label
}
