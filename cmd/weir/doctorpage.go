package main

import (
	"fmt"
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

// doctorPage is doctor's report for people. Its method write writes it as HTML, and
// prescription.print prints it as text.
type doctorPage struct {
	Title    string
	Headline string   // one sentence: which client or resource caused the most work
	Summary  string   // a sentence about the totals
	Skipped  []string // sentences about the parts of the logs that were not read
	Charts   []markup
	Table    pageTable // of clients (logs) or of resources (server)
	Findings []pageFinding
	Nothing  string // replaces Findings if there are none
	Covered  string // which logs were read; follows the findings
	Restart  *pageTable
	Sizes    []doctor.Size
	Low      string // how precise predictions of little CPU are
	Model    *cost.Model
	Note     string
}

// pageFinding is a finding with its predictions. WhatIf is nil if there are none.
type pageFinding struct {
	doctor.Finding
	Sentence string
	WhatIf   *pageTable
}

// pageTable is a table. The first cell of each row is the row's name. Only a table of predictions
// has a Chart, and only the table of a restart has a Text.
type pageTable struct {
	Text  string
	Chart markup
	Head  []string
	Rows  [][]string
}

// newPage returns the report on logs.
func newPage(r *doctor.Report, read evidence.Counts, m *cost.Model, top int) *doctorPage {
	v := newVerdict(r, read)
	p := &doctorPage{
		Title: "Which clients cost this API server most", Headline: headlineText(r), Summary: totalsText(r), Skipped: v.Gaps, Nothing: v.nothing(), Covered: v.covered(),
		Charts: rateCharts(r), Sizes: r.Sizes, Low: lowText(r), Model: m,
	}
	p.Table.Head = []string{"client", "requests", "LISTs", "time", "WATCHes", "429", "CPU", "sent", "memory", "machines"}
	add := func(name string, t doctor.Totals, c cost.Cost, memory float64, machines string) {
		held := "-"
		if memory > 0 {
			held = humanize.Bytes(int64(memory))
		}
		p.Table.Rows = append(p.Table.Rows, slices.Concat([]string{name}, totalCells(t), costCells(c), []string{held, machines}))
	}
	for _, c := range r.Clients[:min(len(r.Clients), top)] {
		add(c.Client.String(), c.Totals, c.Cost, c.HeldBytes, humanize.Count(int64(c.Machines)))
	}
	if r.OthersClients > 0 {
		add("(clients that are not counted separately)", r.Others, cost.Cost{}, 0, "")
	}
	for _, f := range r.Findings {
		held := make([]float64, len(f.WhatIf))
		for i, one := range f.WhatIf {
			held[i] = one.HeldBytes
		}
		table := newPageTable("CPU of its requests", f.WhatIf, held)
		p.Findings = append(p.Findings, pageFinding{f, findingText(f), table})
	}
	if r.Restart != nil {
		p.Restart = &pageTable{}
		if table := newPageTable("CPU of a restart of all clients", r.Restart.Predictions, r.Restart.PeakBytes); table != nil {
			p.Restart = table
		}
		p.Restart.Text = restartText(r.Restart)
	}
	return p
}

// newPageTable returns a table of predictions and their memory, or nil if there are no predictions.
func newPageTable(title string, all []doctor.Prediction, memory []float64) *pageTable {
	if len(all) == 0 {
		return nil
	}
	t := &pageTable{Head: []string{"what if", "requests", "sent", "CPU", "memory", "proxy CPU"}}
	var bars []chart.Bar
	whose := ", of the API server"
	for i, one := range all {
		bars = append(bars, chart.Bar{Label: one.Remedy, Value: one.CPUSeconds, Other: one.ProxyCPUSeconds})
		proxy := ""
		if one.ProxyCPUSeconds > 0 {
			whose = ", of the API server (filled) and of weir-proxy (outlined)"
			proxy = humanize.Seconds(one.ProxyCPUSeconds)
		}
		t.Rows = append(t.Rows, []string{
			one.Remedy, humanize.Rounded(one.Requests), humanize.Bytes(int64(one.Bytes)),
			humanize.Seconds(one.CPUSeconds), humanize.Bytes(int64(memory[i])), proxy,
		})
	}
	t.Chart = markup(chart.Chart{Title: title + whose, Unit: humanize.Seconds}.Bars(bars...))
	return t
}

// newLivePage returns the report on a running server. The column READ has the number of objects
// that the server read for LISTs, and the column ENDED the number of WATCHes that ended.
func newLivePage(r *doctor.Live, top int) *doctorPage {
	p := &doctorPage{
		Title: "What costs this API server most", Headline: liveHeadline(r), Summary: liveText(r), Nothing: "Nothing stands out.",
		Note: "Metrics do not name clients. The audit log does: weir doctor AUDIT-LOG.",
	}
	p.Table.Head = []string{"resource", "objects", "lists", "read", "returned", "time", "watches", "ended", "events"}
	var bars []chart.Bar
	for i := range r.Resources {
		res := &r.Resources[i]
		if res.ListSeconds > 0 && len(bars) < top {
			bars = append(bars, chart.Bar{Label: command.Printable(res.Name), Value: res.ListSeconds})
		}
		if len(p.Table.Rows) == top || res.Objects+res.Lists+res.EndedWatches+res.WatchEvents == 0 {
			continue
		}
		spent := "0"
		if res.ListSeconds > 0 {
			spent = humanize.Seconds(res.ListSeconds)
		}
		count := func(n float64) string { return humanize.Count(int64(n)) }
		p.Table.Rows = append(p.Table.Rows, []string{
			res.Name, count(res.Objects), count(res.Lists), count(res.Read()), count(res.Returned()), spent,
			count(res.OpenWatches), count(res.EndedWatches), count(res.WatchEvents),
		})
	}
	if len(bars) > 0 {
		period := time.Duration(r.Seconds * float64(time.Second)).Round(time.Second)
		title := fmt.Sprintf("Time that LISTs took, in %s", period)
		p.Charts = append(p.Charts, markup(chart.Chart{Title: title, Unit: humanize.Seconds}.Bars(bars...)))
	}
	for _, f := range r.Findings {
		p.Findings = append(p.Findings, pageFinding{Finding: f, Sentence: f.Text + "."})
	}
	return p
}

// rateCharts returns charts of the request rates over time.
func rateCharts(r *doctor.Report) []markup {
	perSecond := func(label string, counts []uint32) chart.Line {
		at := make([]float64, max(len(counts), len(r.Rate.Requests))) // all charts span the same time
		for i, n := range counts {
			at[i] = float64(n) / r.Rate.Seconds
		}
		return chart.NewLine(label, r.Rate.Seconds, at)
	}
	c := chart.Chart{Title: "Requests a second", Unit: humanize.Number, Start: r.From}
	charts := []markup{markup(c.Lines(perSecond("refused, 429", r.Rate.Refused), perSecond("requests", r.Rate.Requests)))}
	if r.Totals.Lists > 0 {
		c.Title = "LISTs a second"
		charts = append(charts, markup(c.Lines(perSecond("LISTs", r.Rate.Lists))))
	}
	var busiest []chart.Line
	for _, b := range slices.Backward(r.Rate.Busiest) { // the first line, drawn last, is on top
		program, _, _ := strings.Cut(b.Client.String(), " (")
		busiest = append(busiest, chart.NewLine(command.Printable(program), r.Rate.Seconds, b.UnderWay))
	}
	if len(busiest) > 0 {
		c.Title = "LISTs in progress, of the clients whose LISTs took longest"
		charts = append(charts, markup(c.Lines(busiest...)))
	}
	return charts
}

func totalCells(t doctor.Totals) []string {
	return []string{
		humanize.Count(t.Requests), humanize.Count(t.Lists), humanize.Seconds(t.ListSeconds), humanize.Count(t.Watches),
		humanize.Count(t.Refused),
	}
}

// costCells returns the CPU time and the sent bytes of a client's LISTs. Both are "-" if c is zero:
// the cost is unknown, or the client sent no LISTs.
func costCells(c cost.Cost) []string {
	if c == (cost.Cost{}) {
		return []string{"-", "-"}
	}
	return []string{humanize.Seconds(c.CPUSeconds), humanize.Bytes(int64(c.Bytes))}
}
