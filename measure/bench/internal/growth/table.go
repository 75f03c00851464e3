package growth

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// WriteTable writes a table for each axis. It has a row for each figure and side, and a column for
// each point.
func (r *Report) WriteTable(w io.Writer) error {
	for i, g := range r.Axes {
		if i > 0 {
			if _, err := io.WriteString(w, "\n"); err != nil {
				return err
			}
		}
		if err := g.writeTable(w); err != nil {
			return err
		}
	}
	note := fmt.Sprintf("one run; %d CPUs; client-go with LIST\n", r.CPUs)
	if len(r.Flags) > 0 {
		note += "with " + strings.Join(r.Flags, " ") + "\n"
	}
	_, err := io.WriteString(w, note)
	return err
}

func (g Grown) writeTable(w io.Writer) error {
	head := []string{g.axis.Label, ""}
	for _, n := range g.axis.Points {
		head = append(head, humanize.Count(int64(n)))
	}
	rows := [][]string{head}
	for _, f := range g.axis.figures {
		label := f.Label
		for _, side := range g.axis.sides {
			row := []string{label, side}
			for _, n := range g.axis.Points {
				row = append(row, g.at(side, n).Cell(f.Key, f.Unit))
			}
			if slices.ContainsFunc(row[2:], func(cell string) bool { return cell != "-" }) {
				rows, label = append(rows, row), ""
			}
		}
	}
	columns := figures.Fit(rows)
	if len(columns) > 1 {
		columns[1].Left = true
	}
	return figures.Write(w, columns, rows...)
}

// at returns the figures of a side at a point, or nil if there are none.
func (g Grown) at(side string, n int) figures.Values {
	for _, p := range g.Points {
		if p.Side == side && p.N == n {
			return p.Figures
		}
	}
	return nil
}
