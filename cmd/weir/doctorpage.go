package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/tools/chart"
	"github.com/weirproject/weir/internal/tools/command"
	"github.com/weirproject/weir/measure/doctor"
	"github.com/weirproject/weir/measure/doctor/cost"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

// doctorPage is doctor's report as HTML. It needs nothing else, and has no script.
type doctorPage struct {
	Title, Summary string
	Skipped        []string // what was not read
	Nothing        string   // where nothing was found
	Covered        string   // behind what was found
	Charts         []markup
	Head           []string // of the table
	Rows           [][]string
	Findings       []pageFinding
	Restart        *pageTable
	Sizes          []doctor.Size
	Low            string // how good predictions of little CPU are
	Model          *cost.Model
	Note           string
}

// pageFinding is a finding, and a picture of what it costs.
type pageFinding struct {
	doctor.Finding
	Sentence string
	WhatIf   *pageTable
}

// pageTable is predictions, as a picture and as a table.
type pageTable struct {
	Text  string
	Chart markup
	Head  []string
	Rows  [][]string
}

// writePage writes the report on logs.
func writePage(w io.Writer, r *doctor.Report, read evidence.Counts, m *cost.Model, top int) error {
	v := newVerdict(r, read)
	p := doctorPage{
		Title: "Who makes this API server work", Summary: totalsText(r), Skipped: v.Gaps, Nothing: v.nothing(), Covered: v.covered(),
		Charts: rateCharts(r), Sizes: r.Sizes, Low: lowText(r), Model: m,
	}
	p.Head = []string{
		"client", "requests", "LISTs", "time", "WATCHes", "429", "CPU", "sent", "memory", "machines",
	}
	for _, c := range r.Clients[:min(len(r.Clients), top)] {
		row := append(append([]string{c.Client.String()}, totalCells(c.Totals)...), costCells(c.Cost)...)
		held := "-"
		if c.HeldBytes > 0 {
			held = humanize.Bytes(int64(c.HeldBytes))
		}
		p.Rows = append(p.Rows, append(row, held, humanize.Count(int64(c.Machines))))
	}
	if r.OthersClients > 0 {
		row := append([]string{"(clients that are not counted separately)"}, totalCells(r.Others)...)
		p.Rows = append(p.Rows, append(row, "", "", "", ""))
	}
	for _, f := range r.Findings {
		held := make([]float64, len(f.WhatIf))
		for i, one := range f.WhatIf {
			held[i] = one.HeldBytes
		}
		table := newPageTable("Server CPU of what it asks for", f.WhatIf, held)
		p.Findings = append(p.Findings, pageFinding{f, findingText(f), table})
	}
	if r.Restart != nil {
		const title = "Server CPU of a restart of everything"
		p.Restart = &pageTable{}
		if table := newPageTable(title, r.Restart.Predictions, r.Restart.PeakBytes); table != nil {
			p.Restart = table
		}
		p.Restart.Text = restartText(r.Restart)
	}
	return p.write(w)
}

// rateCharts returns the charts of what happened over time.
func rateCharts(r *doctor.Report) []markup {
	perSecond := func(label string, counts []uint32) chart.Line {
		at := make([]float64, len(counts))
		for i, n := range counts {
			at[i] = float64(n) / r.Rate.Seconds
		}
		return chart.NewLine(label, r.Rate.Seconds, at)
	}
	charts := []markup{markup(chart.Lines("Requests a second", humanize.Number, []chart.Line{
		perSecond("refused, 429", r.Rate.Refused), perSecond("requests", r.Rate.Requests),
	}))}
	if r.Totals.Lists > 0 {
		lists := []chart.Line{perSecond("LISTs", r.Rate.Lists)}
		charts = append(charts, markup(chart.Lines("LISTs a second", humanize.Number, lists)))
	}
	var busiest []chart.Line
	for _, b := range slices.Backward(r.Rate.Busiest) { // the last line is drawn on the others
		program, _, _ := strings.Cut(b.Client.String(), " (")
		busiest = append(busiest, chart.NewLine(command.Printable(program), r.Rate.Seconds, b.UnderWay))
	}
	if len(busiest) > 0 {
		const title = "LISTs under way, of those whose LISTs took longest"
		charts = append(charts, markup(chart.Lines(title, humanize.Number, busiest)))
	}
	return charts
}

// newPageTable returns predictions with their memory, or nil if there are none.
func newPageTable(title string, all []doctor.Prediction, memory []float64) *pageTable {
	if len(all) == 0 {
		return nil
	}
	t := &pageTable{Head: []string{"what if"}}
	for _, head := range predictionHead {
		t.Head = append(t.Head, strings.ReplaceAll(strings.ToLower(head), "cpu", "CPU"))
	}
	var bars []chart.Bar
	for i, one := range all {
		bars = append(bars, chart.Bar{Label: one.Remedy, Value: one.CPUSeconds})
		t.Rows = append(t.Rows, append([]string{one.Remedy}, predictionCells(one, memory[i])...))
	}
	t.Chart = markup(chart.Bars(title, humanize.Seconds, bars))
	return t
}

// writeLivePage writes the report on a running server.
func writeLivePage(w io.Writer, r *doctor.Live, top int) error {
	p := doctorPage{
		Title: "What makes this API server work", Summary: liveText(r), Nothing: "Nothing: no client costs much more than what it needs.",
		Note: "Metrics do not name clients. The audit log does: weir doctor AUDIT-LOG.",
	}
	rows := liveRows(r, top)
	for _, row := range rows { // names come first in a page
		name := row[len(row)-1]
		p.Rows = append(p.Rows, append([]string{name}, row[:len(row)-1]...))
	}
	for _, head := range p.Rows[0] {
		p.Head = append(p.Head, strings.ToLower(head))
	}
	p.Rows = p.Rows[1:]
	var bars []chart.Bar
	for i := range r.Resources {
		if res := &r.Resources[i]; res.ListSeconds > 0 && len(bars) < top {
			bars = append(bars, chart.Bar{Label: command.Printable(res.Name), Value: res.ListSeconds})
		}
	}
	if len(bars) > 0 {
		period := time.Duration(r.Seconds * float64(time.Second)).Round(time.Second)
		title := fmt.Sprintf("Time that LISTs took, in %s", period)
		p.Charts = append(p.Charts, markup(chart.Bars(title, humanize.Seconds, bars)))
	}
	for _, f := range r.Findings {
		p.Findings = append(p.Findings, pageFinding{Finding: f, Sentence: f.Text + "."})
	}
	return p.write(w)
}
