package main

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/tools/chart"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// labReport contains the results of weir lab. The JSON names and the names of figures are stable.
type labReport struct {
	setting
	Pods      int        `json:"pods"`           // of all incidents, except those that use fewer
	Real      bool       `json:"real,omitempty"` // on a kube-apiserver instead of the embedded server
	Incidents []replayed `json:"incidents"`
}

// replayed is an incident with the results of each side.
type replayed struct {
	incident `json:"-"`
	Name     string           `json:"name"`
	Pods     int              `json:"pods"`
	Sides    []figures.Traced `json:"sides"`
}

// writeTable writes a table for each incident, with at most 100 columns.
func (r *labReport) writeTable(w io.Writer) error {
	for n, i := range r.Incidents {
		if n > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w, strings.Join(humanize.Wrap(i.Name+": "+i.title(), tableWidth), "\n"))
		rows := append([][]string{append([]string{""}, i.Columns()...)}, i.Rows()...)
		if err := figures.Write(w, figures.Fit(rows), rows...); err != nil {
			return err
		}
		for _, line := range humanize.Wrap(r.Note(i), tableWidth) {
			fmt.Fprintln(w, line)
		}
	}
	_, err := fmt.Fprintf(w, "\none run of each side on %d CPUs, %s\n", r.CPUs, r.Go)
	return err
}

// tableWidth is the maximum length of a line on the terminal.
const tableWidth = 100

// Note returns what readers must know about the server on which the figures were measured, or "" if
// there is nothing to know.
func (r *labReport) Note(i replayed) string {
	if r.Real {
		return ""
	}
	return i.Embedded
}

// lines returns the lines of the incident's picture, one for each side.
func (i replayed) lines() []chart.Line {
	lines := make([]chart.Line, len(i.Sides))
	for n, s := range i.Sides {
		lines[n] = i.curve.lineOf(s.Label, s.Trace)
	}
	return lines
}

// title returns the title of the incident's picture.
func (i replayed) title() string {
	words := []string{"{pods}", humanize.Count(int64(i.Pods))}
	if i.clients != nil {
		words = append(words, "{clients}", humanize.Count(int64(i.clients(i.Pods))))
	}
	for _, l := range i.lines() {
		words = append(words, "{"+l.Label+"}", i.curve.unit.Text(l.Peak), "{last "+l.Label+"}", i.curve.unit.Text(l.At[len(l.At)-1]))
	}
	return strings.NewReplacer(words...).Replace(i.Title)
}

// chart returns a self-contained SVG of the incident.
func (r *labReport) chart(i replayed) string {
	return chart.Chart{
		Title: i.title(), Unit: i.curve.unit.Text, Values: i.curve.values, Most: i.curve.most, Source: r.source("One run of each side") + " " + r.Note(i),
	}.Lines(i.lines()...)
}

// writeCharts writes each incident's picture to NAME.svg in an existing directory.
func (r *labReport) writeCharts(dir string) error {
	for _, i := range r.Incidents {
		if err := os.WriteFile(filepath.Join(dir, i.Name+".svg"), []byte(r.chart(i)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// curve describes which values of a trace are drawn, and the label and the unit of their axis.
type curve struct {
	values string
	most   string // what a line's largest value is called; "peak" if empty
	unit   figures.Unit
	of     func(figures.Trace) []float64
}

var (
	residentMemory = curve{"resident memory (RSS)", "", figures.Bytes, func(t figures.Trace) []float64 { return t.RSSBytes }}
	liveHeap       = curve{"live heap after the last garbage collection", "", figures.Bytes, func(t figures.Trace) []float64 { return t.HeapBytes }}
	received       = curve{"objects received by the current WATCH", "", figures.Count, func(t figures.Trace) []float64 { return t.Events }}
	cpuSoFar       = curve{"CPU time of the API server since the start, total", "total", figures.Seconds, func(t figures.Trace) []float64 { return t.CPUSeconds }}
	callRate       = curve{"calls of a handler, per 100 ms", "", figures.Count, func(t figures.Trace) []float64 { return differences(t.Events) }}
)

// differences returns the difference between each value and the previous one. The first difference
// is 0.
func differences(total []float64) []float64 {
	out := make([]float64, len(total))
	for i := 1; i < len(total); i++ {
		out[i] = total[i] - total[i-1]
	}
	return out
}

// lineOf returns the line for a trace. It starts at the mark figures.Starts, if that exists.
func (c curve) lineOf(label string, t figures.Trace) chart.Line {
	at := c.of(t)
	for _, m := range t.Marks {
		if m.What == figures.Starts {
			at = at[min(int(m.Millis/t.EveryMillis), len(at)):]
			break
		}
	}
	return chart.NewLine(label, t.EveryMillis/1000, at)
}

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	// The text in a chart is escaped already.
	"chart": func(r *labReport, i replayed) template.HTML { return template.HTML(r.chart(i)) },
	"style": func() template.CSS { return template.CSS(chart.PageStyle()) },
	"count": func(n int) string { return humanize.Count(int64(n)) },
}).Parse(pageText))

// writePage writes the report as a self-contained HTML page.
func (r *labReport) writePage(w io.Writer) error { return pageTemplate.Execute(w, r) }

// Columns returns the labels of the figures, for the incident's table.
func (i replayed) Columns() (labels []string) {
	for _, f := range i.figures {
		labels = append(labels, f.Label)
	}
	return labels
}

// Rows returns the rows of the incident's table, one per side: its label and its figures.
func (i replayed) Rows() (rows [][]string) {
	for _, s := range i.Sides {
		row := []string{s.Label}
		for _, f := range i.figures {
			row = append(row, s.Figures.Cell(f.Key, f.Unit))
		}
		rows = append(rows, row)
	}
	return rows
}
