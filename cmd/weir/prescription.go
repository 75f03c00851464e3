package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/tools/command"
)

// paperWidth is the width of text if the output is not a terminal.
const paperWidth = 80

// prescription prints a doctor's report as text.
type prescription struct {
	out   io.Writer
	width int // of paragraphs
	limit int // the width at which rows are cut off; 0 if there is no terminal
}

func newPrescription(out io.Writer) *prescription {
	p := &prescription{out: out, width: paperWidth}
	if width, _ := terminalSize(out); width > 0 {
		p.width, p.limit = width, width
	}
	return p
}

// print prints a report.
func (p *prescription) print(d *doctorPage) error {
	p.paragraph("", d.Headline)
	fmt.Fprintln(p.out)
	if len(d.Findings) == 0 {
		p.paragraph("", d.Nothing)
	}
	for i, f := range d.Findings {
		p.finding(i+1, f)
	}
	if len(d.Findings) > 0 && d.Covered != "" {
		fmt.Fprintln(p.out)
		p.paragraph("", d.Covered)
	}
	for _, text := range d.Skipped {
		p.paragraph("", text)
	}
	fmt.Fprintln(p.out)
	p.paragraph("", d.Summary)
	fmt.Fprintln(p.out)
	without := []string{"memory"}
	if len(d.Sizes) == 0 {
		without = append(without, "CPU", "sent")
	}
	if err := p.table(&d.Table, without); err != nil {
		return err
	}
	if d.Restart != nil {
		fmt.Fprintln(p.out)
		p.paragraph("", d.Restart.Text)
		if err := p.whatIf("", d.Restart); err != nil {
			return err
		}
	}
	note := cmp.Or(d.Note, sizesText(d.Sizes)+" "+d.Low)
	fmt.Fprintln(p.out)
	p.paragraph("", note)
	return nil
}

// finding prints a finding with its remedy and predictions.
func (p *prescription) finding(n int, f pageFinding) {
	p.paragraph(fmt.Sprintf("%d. ", n), f.Sentence)
	p.paragraph("   ", "Remedy: "+f.Remedy+".")
	p.change(f.Change)
	if f.Incident != "" {
		fmt.Fprintln(p.out, "   See "+incidentURL(f.Incident))
	}
	if f.WhatIf != nil {
		_ = p.whatIf("   ", f.WhatIf) // if this write failed, the next one fails too
	}
}

// change prints a line of code that the user should write, and the line's comment on the next line.
// It does not wrap the line, so that users can copy it.
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

// table prints a table. It omits the columns named in without, and moves the first cell of each row
// to the end. That cell is a long name, and a terminal may cut off the end of a row.
func (p *prescription) table(t *pageTable, without []string) error {
	var rows [][]string
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		var cells []string
		for i, cell := range row[1:] {
			if !slices.Contains(without, t.Head[i+1]) {
				cells = append(cells, cell)
			}
		}
		rows = append(rows, append(cells, row[0]))
	}
	return p.rows(rows)
}

// whatIf prints a table of predictions, indented.
func (p *prescription) whatIf(indent string, t *pageTable) error {
	if len(t.Rows) == 0 {
		return nil
	}
	var rows [][]string
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		rows = append(rows, append([]string{indent + row[0]}, row[1:]...))
	}
	return p.rows(rows)
}

// rows prints a table whose first row contains the names of the columns.
func (p *prescription) rows(rows [][]string) error {
	for i, head := range rows[0] {
		rows[0][i] = strings.ToUpper(head)
	}
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

// paragraph prints a lead and a text, wrapped between words. It indents the second and later lines
// by the width of the lead.
func (p *prescription) paragraph(lead, text string) {
	width := utf8.RuneCountInString(lead)
	for _, line := range humanize.Wrap(command.Printable(text), p.width-width) {
		fmt.Fprintln(p.out, lead+line)
		lead = strings.Repeat(" ", width)
	}
}
