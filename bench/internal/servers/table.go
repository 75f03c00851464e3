package servers

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weirproject/weir/internal/quantity"
)

// widths are those of the table's columns. They are fixed, so that each scenario's rows can be
// printed as soon as it is through.
var widths = [...]int{38, 9, 14, 7, 12, 6}

// WriteHead writes the head of the table, which is at most 100 columns wide.
func WriteHead(w io.Writer) error {
	return writeRow(w, "", nameWeir, nameAPIServer, "ratio", "wanted", "")
}

// WriteRows writes the rows of one scenario.
func (r Result) WriteRows(w io.Writer) error {
	s, err := Named(r.Name)
	if err != nil {
		return err
	}
	for _, f := range s[0].figures {
		ours, ok := r.Weir[f.key]
		if _, theirs := r.APIServer[f.key]; !ok && !theirs {
			continue
		}
		cells := [len(widths)]string{0: f.label, 1: "-", 2: r.APIServer.Cell(f.key, f.unit), 4: f.wanted(), 5: string(r.verdict(f))}
		if ok {
			cells[1] = f.unit.Text(ours)
		}
		if ratio, ok := r.Ratio[f.key]; ok {
			cells[3] = quantity.Number(ratio)
		}
		if err := writeRow(w, cells[:]...); err != nil {
			return err
		}
	}
	return nil
}

// wanted writes a bound.
func (f figure) wanted() string {
	switch {
	case f.want.RatioAtMost != nil:
		return "ratio ≤ " + strconv.FormatFloat(*f.want.RatioAtMost, 'g', -1, 64)
	case f.want.WeirAtMost != nil:
		return "≤ " + f.unit.Text(*f.want.WeirAtMost)
	}
	return ""
}

// writeRow puts cells in columns: the first and the last to the left, the others to the right.
func writeRow(w io.Writer, cells ...string) error {
	var line strings.Builder
	for i, text := range cells {
		pad := strings.Repeat(" ", max(widths[i]-utf8.RuneCountInString(text), 0))
		switch i {
		case 0:
			line.WriteString(text + pad)
		case len(cells) - 1:
			line.WriteString("  " + text)
		default:
			line.WriteString("  " + pad + text)
		}
	}
	_, err := fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	return err
}

// headline is a run's first two figures.
func (s Scenario) headline(f Figures) string {
	var parts []string
	for _, fig := range s.figures {
		if value, ok := f[fig.key]; ok && len(parts) < 2 {
			parts = append(parts, strings.TrimSpace(fig.label)+" "+fig.unit.Text(value))
		}
	}
	return strings.Join(parts, ", ")
}
