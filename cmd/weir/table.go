package main

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/tools/command"
)

// table prints aligned rows before the next rows are known, which text/tabwriter cannot do. A
// column is as wide as its widest cell so far; fit announces cells. A table is not safe for
// concurrent use.
type table struct {
	out    io.Writer
	limit  int // runes to a line; 0: no limit
	widths []int
	line   strings.Builder
}

const gap = "  "

// fit makes the columns wide enough for these cells.
func (p *table) fit(cells ...string) {
	cells = printable(cells)
	for i, cell := range cells {
		if i == len(p.widths) {
			p.widths = append(p.widths, 0)
		}
		p.widths[i] = max(p.widths[i], utf8.RuneCountInString(cell))
	}
}

// row prints a row, up to the limit. It replaces characters that would move a terminal's cursor,
// because cells have names that clients chose.
func (p *table) row(cells ...string) error {
	p.fit(cells...)
	cells = printable(cells)
	p.line.Reset()
	for i, cell := range cells {
		if i > 0 {
			p.line.WriteString(gap)
		}
		p.line.WriteString(cell)
		if i < len(cells)-1 {
			p.line.WriteString(strings.Repeat(" ", p.widths[i]-utf8.RuneCountInString(cell)))
		}
	}
	line := p.line.String()
	if p.limit > 0 {
		line = humanize.Cut(line, p.limit)
	}
	_, err := io.WriteString(p.out, strings.TrimRight(line, " ")+"\n")
	return err
}

func printable(cells []string) []string {
	cells = slices.Clone(cells)
	for i, cell := range cells {
		cells[i] = command.Printable(cell)
	}
	return cells
}
