// Package columns prints a table row by row, aligned although later rows are unknown.
package columns

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weirproject/weir/internal/command"
)

// Printer prints rows. A column is as wide as its widest cell so far, so rows are aligned after the
// widest cell; Fit announces cells in advance. It is not safe for concurrent use.
type Printer struct {
	out    io.Writer
	limit  int // runes per line; 0: no limit
	widths []int
	line   strings.Builder
}

const gap = "  "

// New returns a printer that limits the width of a line; 0: no limit.
func New(out io.Writer, limit int) *Printer {
	return &Printer{out: out, limit: limit}
}

// Fit makes the columns wide enough for these cells.
func (p *Printer) Fit(cells ...string) { p.fit(printable(cells)) }

func (p *Printer) fit(cells []string) {
	for i, cell := range cells {
		if i == len(p.widths) {
			p.widths = append(p.widths, 0)
		}
		p.widths[i] = max(p.widths[i], utf8.RuneCountInString(cell))
	}
}

// Row prints a row. It cuts off text beyond the limit. It replaces characters that would move a
// terminal's cursor, because cells contain foreign text: callers need not do that.
func (p *Printer) Row(cells ...string) error {
	cells = printable(cells)
	p.fit(cells)
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
	line := strings.TrimRight(cut(p.line.String(), p.limit), " ")
	_, err := io.WriteString(p.out, line+"\n")
	return err
}

func printable(cells []string) []string {
	cells = slices.Clone(cells)
	for i, cell := range cells {
		cells[i] = command.Printable(cell)
	}
	return cells
}

// cut cuts a line to a number of runes.
func cut(line string, limit int) string {
	if limit <= 0 || utf8.RuneCountInString(line) <= limit {
		return line
	}
	return string([]rune(line)[:limit-1]) + "…"
}
