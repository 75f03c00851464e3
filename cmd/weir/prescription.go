package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/tools/command"
	"github.com/weirproject/weir/measure/doctor"
	"github.com/weirproject/weir/measure/doctor/cost"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

// paperWidth is the width of sentences if there is no terminal.
const paperWidth = 80

// prescription prints a doctor's report for people.
type prescription struct {
	out   io.Writer
	width int // of sentences
	limit int // the width at which rows are cut off; 0 if there is no terminal
}

func newPrescription(out io.Writer) *prescription {
	p := &prescription{out: out, width: paperWidth}
	if width := terminalWidth(out); width > 0 {
		p.width, p.limit = width, width
	}
	return p
}

// print prints the totals, the clients with most requests, and the findings.
func (p *prescription) print(r *doctor.Report, read evidence.Counts, top int) error {
	p.paragraph("", totalsText(r))
	v := newVerdict(r, read)
	for _, text := range v.Gaps {
		p.paragraph("", text)
	}
	fmt.Fprintln(p.out)
	if err := p.table(r, top); err != nil {
		return err
	}
	fmt.Fprintln(p.out)
	if len(r.Findings) == 0 {
		p.paragraph("", v.nothing())
		return p.predictions(r)
	}
	p.findings(r.Findings, findingText)
	fmt.Fprintln(p.out)
	p.paragraph("", v.covered())
	return p.predictions(r)
}

// findings prints the findings with their remedies.
func (p *prescription) findings(all []doctor.Finding, text func(doctor.Finding) string) {
	for i, f := range all {
		p.paragraph(fmt.Sprintf("%d. ", i+1), text(f))
		p.paragraph("   ", "Remedy: "+f.Remedy+".")
		p.change(f.Change)
		if f.Incident != "" {
			fmt.Fprintln(p.out, "   See "+incidentURL(f.Incident))
		}
		p.whatIf(f.WhatIf)
	}
}

// change prints the line to write, and its comment below. It does not break the line, so that users
// can copy it.
func (p *prescription) change(line string) {
	if line == "" {
		return
	}
	line = command.Printable(line)
	for _, mark := range []string{" // ", " # "} {
		line = strings.Replace(line, mark, "\n         "+mark, 1)
	}
	fmt.Fprintln(p.out, "   Write: "+line)
}

// totalsText describes the totals of the log.
func totalsText(r *doctor.Report) string {
	t := r.Totals
	text := fmt.Sprintf("%s to %s UTC, requests: %s, of those LISTs: %s (%s in all), WATCHes: %s, refused (429): %s, failed (5xx): %s.",
		r.From.Format(reportTime), r.To.Format(reportTime), humanize.Count(t.Requests), humanize.Count(t.Lists),
		humanize.Seconds(t.ListSeconds), humanize.Count(t.Watches), humanize.Count(t.Refused), humanize.Count(t.Failed))
	most, at := uint32(0), 0
	for i, n := range r.Rate.Lists {
		if n > most {
			most, at = n, i
		}
	}
	if most > 0 {
		width := time.Duration(r.Rate.Seconds * float64(time.Second))
		text += fmt.Sprintf(" Most LISTs: %s in the %g s from %s.", humanize.Count(int64(most)), r.Rate.Seconds,
			r.From.Add(time.Duration(at)*width).Format(reportTime))
	}
	return text
}

// findingText returns a sentence that describes a finding.
func findingText(f doctor.Finding) string {
	text := f.Text + "."
	if f.Client != (doctor.Client{}) {
		text = f.Client.String() + " " + text
	}
	if f.Objects > 0 {
		text += fmt.Sprintf(" That is %s objects.", humanize.Count(f.Objects))
	}
	return text
}

// table prints the clients with most requests. Their names are last, because the end of a row may
// be cut off.
func (p *prescription) table(r *doctor.Report, top int) error {
	head := []string{"REQUESTS", "LISTS", "TIME", "WATCHES", "429"}
	costs := func(c cost.Cost) []string { return nil }
	if len(r.Sizes) > 0 {
		head, costs = append(head, "CPU", "SENT"), costCells
	}
	rows := [][]string{append(head, "MACHINES", "CLIENT")}
	for _, c := range r.Clients[:min(len(r.Clients), top)] {
		row := append(totalCells(c.Totals), costs(c.Cost)...)
		rows = append(rows, append(row, humanize.Count(int64(c.Machines)), c.Client.String()))
	}
	if r.OthersClients > 0 {
		row := append(totalCells(r.Others), costs(cost.Cost{})...)
		rows = append(rows, append(row, "", "(clients that are not counted separately)"))
	}
	return p.rows(rows)
}

// rows prints a table.
func (p *prescription) rows(rows [][]string) error {
	t := &table{out: p.out, limit: p.limit}
	for _, row := range rows {
		t.fit(row...)
	}
	for _, row := range rows {
		if err := t.row(row...); err != nil {
			return err
		}
	}
	return nil
}

func totalCells(t doctor.Totals) []string {
	return []string{
		humanize.Count(t.Requests), humanize.Count(t.Lists), humanize.Seconds(t.ListSeconds), humanize.Count(t.Watches),
		humanize.Count(t.Refused),
	}
}

// paragraph prints a text after a lead, broken between words. It indents the further lines by the
// width of the lead.
func (p *prescription) paragraph(lead, text string) {
	indent := strings.Repeat(" ", utf8.RuneCountInString(lead))
	line := lead
	for i, word := range strings.Fields(command.Printable(text)) {
		switch {
		case i == 0:
			line += word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > p.width:
			fmt.Fprintln(p.out, line)
			line = indent + word
		default:
			line += " " + word
		}
	}
	fmt.Fprintln(p.out, line)
}
