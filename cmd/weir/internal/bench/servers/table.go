package servers

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weirproject/weir/cmd/weir/internal/quantity"
)

// unit says how a figure is written.
type unit uint8

const (
	number    unit = iota // three digits that mean something
	count1                // a whole number
	seconds               //
	bytesUnit             // decimal multiples
)

func (u unit) text(v float64) string {
	switch u {
	case count1:
		return quantity.Count(int64(math.Round(v)))
	case seconds:
		return quantity.Seconds(v)
	case bytesUnit:
		return quantity.Bytes(int64(math.Round(v)))
	}
	return quantity.Number(v)
}

// widths are those of the table's columns. They are fixed, so that each scenario's rows can be printed as soon as it is through.
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
		cells := [len(widths)]string{0: f.label, 1: "-", 2: cell(r.APIServer, f), 4: f.wanted(), 5: string(r.verdict(f))}
		if ok {
			cells[1] = f.unit.text(ours)
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

func cell(from Figures, f figure) string {
	if v, ok := from[f.key]; ok {
		return f.unit.text(v)
	}
	return "-"
}

// wanted writes a bound.
func (f figure) wanted() string {
	switch {
	case f.want.RatioAtMost != nil:
		return "ratio ≤ " + strconv.FormatFloat(*f.want.RatioAtMost, 'g', -1, 64)
	case f.want.WeirAtMost != nil:
		return "≤ " + f.unit.text(*f.want.WeirAtMost)
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
			parts = append(parts, strings.TrimSpace(fig.label)+" "+fig.unit.text(value))
		}
	}
	return strings.Join(parts, ", ")
}
