package informers

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/weirproject/weir/bench/internal/figures"
	"github.com/weirproject/weir/internal/quantity"
)

// WriteTable writes a result as an aligned table of at most 100 columns.
func (r Result) WriteTable(w io.Writer) error {
	name, dropIn := strings.CutSuffix(strings.TrimSuffix(r.Name, unstructuredSuffix), dropInSuffix)
	v, _ := verbNamed(name)
	if dropIn {
		v = v.DropIn()
	}
	rows := [][]string{{r.Name, "weir", "", "client-go", "", "", "ratio"}}
	for _, f := range v.all() {
		if _, ok := r.Weir[f.key]; ok {
			rows = append(rows, r.row(f))
		}
	}
	if r.Floor != nil {
		rows = append(rows, r.floorRow())
	}
	_, err := io.WriteString(w, aligned(rows)+r.footnote(dropIn))
	return err
}

// modeLetters mark which of client-go's modes a figure is of.
var modeLetters = map[string]string{modeList: "L", modeWatchList: "W"}

// row has a figure's name, then the median and the spread of each side, client-go's mode, and the
// ratio.
func (r Result) row(f figure) []string {
	row := []string{
		f.label,
		f.unit.Text(r.Weir[f.key]), r.Spread.Weir.Cell(f.key, f.unit),
		r.ClientGo.Cell(f.key, f.unit), r.Spread.ClientGo.Cell(f.key, f.unit), "", "",
	}
	if mode, ok := r.bestMode(f); ok && len(r.Modes) > 1 && f.better != neither {
		row[5] = modeLetters[mode]
	}
	if ratio, ok := r.Ratio[f.key]; ok {
		row[6] = quantity.Number(ratio)
	}
	return row
}

// floorRow compares the time to sync with the time that reading takes.
func (r Result) floorRow() []string {
	const key = "syncSeconds"
	row := []string{
		"floor: the LIST's bytes to nowhere",
		r.Floor.Cell(key, figures.Seconds), r.Spread.Floor.Cell(key, figures.Seconds), "", "", "", "",
	}
	if best := r.ClientGo[key]; best > 0 {
		row[6] = quantity.Number(r.Floor[key] / best)
	}
	return row
}

func (r Result) footnote(dropIn bool) string {
	note := fmt.Sprintf("median and smallest…largest of %d runs in turn", r.Runs)
	if r.Runs == 1 {
		note = "one run"
	}
	if len(r.Modes) > 1 {
		note += "; client-go: the better of LIST (L) and WatchList (W)"
	} else {
		note += "; client-go: WatchList, its default"
	}
	if len(r.Flags) > 0 {
		note += "\nwith " + strings.Join(r.Flags, " ")
	}
	if dropIn {
		note += "\nweir: its drop-in for client-go; the handlers of both look at the objects"
	}
	return note + "\n"
}

// aligned puts rows in columns: the first to the left, the others to the right. A column that is
// empty in all rows is left out.
func aligned(rows [][]string) string {
	var widths []int
	for _, row := range rows {
		for i, text := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, text := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
			switch {
			case i == 0:
				line.WriteString(text + pad)
			case widths[i] > 0:
				line.WriteString("  " + pad + text)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}
