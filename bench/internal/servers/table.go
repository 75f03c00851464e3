package servers

import (
	"io"
	"strconv"

	"github.com/weirproject/weir/bench/internal/figures"
	"github.com/weirproject/weir/internal/quantity"
)

// columns are fixed, so that each scenario's rows can be printed as soon as it is through.
var columns = []figures.Column{{Width: 38, Left: true}, {Width: 9}, {Width: 14}, {Width: 7}, {Width: 12}, {Width: 6, Left: true}}

// WriteHead writes the head of the table, which is at most 100 columns wide.
func WriteHead(w io.Writer) error {
	return figures.Write(w, columns, []string{"", nameWeir, nameAPIServer, "ratio", "wanted", ""})
}

// WriteRows writes the rows of one scenario.
func (r Result) WriteRows(w io.Writer) error {
	s, err := Named(r.Name)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, f := range s[0].figures {
		ours, ok := r.Weir[f.Key]
		if _, theirs := r.APIServer[f.Key]; !ok && !theirs {
			continue
		}
		cells := []string{0: f.Label, 1: "-", 2: r.APIServer.Cell(f.Key, f.Unit), 4: f.wanted(), 5: string(r.verdict(f))}
		if ok {
			cells[1] = f.Unit.Text(ours)
		}
		if ratio, ok := r.Ratio[f.Key]; ok {
			cells[3] = quantity.Number(ratio)
		}
		rows = append(rows, cells)
	}
	return figures.Write(w, columns, rows...)
}

// wanted writes a bound.
func (f boundedFigure) wanted() string {
	switch {
	case f.want.RatioAtMost != nil:
		return "ratio ≤ " + strconv.FormatFloat(*f.want.RatioAtMost, 'g', -1, 64)
	case f.want.WeirAtMost != nil:
		return "≤ " + f.Unit.Text(*f.want.WeirAtMost)
	}
	return ""
}
