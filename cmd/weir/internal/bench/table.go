package bench

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/weirproject/weir/cmd/weir/internal/quantity"
)

// WriteTable writes a result as an aligned table of at most 100 columns.
func (r Result) WriteTable(w io.Writer) error {
	name, dropIn := strings.CutSuffix(strings.TrimSuffix(r.Name, unstructuredSuffix), dropInSuffix)
	v, _ := verbNamed(name)
	if dropIn {
		v = v.DropIn()
	}
	head := []string{r.Name, "weir", "client-go", "ratio"}
	modes := len(r.Modes) > 1
	if modes {
		head = append(head, "LIST", "WatchList")
	}
	rows := [][]string{head}
	for _, f := range v.figures {
		if _, ok := r.Weir[f.key]; !ok {
			continue
		}
		row := []string{f.label, f.unit.Text(r.Weir[f.key]), r.ClientGo.Cell(f.key, f.unit), ""}
		if ratio, ok := r.Ratio[f.key]; ok {
			row[3] = quantity.Number(ratio)
		}
		if modes {
			row = append(row, r.Modes[modeList].Cell(f.key, f.unit), r.Modes[modeWatchList].Cell(f.key, f.unit))
		}
		rows = append(rows, row)
	}
	if r.Floor != nil {
		rows = append(rows, floorRow(r))
	}
	_, err := io.WriteString(w, aligned(rows)+r.footnote(dropIn))
	return err
}

// floorRow compares the time to sync with the time that reading takes.
func floorRow(r Result) []string {
	t := r.Floor["syncSeconds"]
	row := []string{"floor: the LIST's bytes to nowhere", quantity.Seconds(t), "", ""}
	if best := r.ClientGo["syncSeconds"]; best > 0 {
		row[3] = quantity.Number(t / best)
	}
	return row
}

func (r Result) footnote(dropIn bool) string {
	note := fmt.Sprintf("medians of %d runs in turn", r.Runs)
	if r.Runs == 1 {
		note = "one run"
	}
	if len(r.Modes) > 1 {
		note += "; client-go: the better of its modes LIST and WatchList, for each figure"
	} else {
		note += "; client-go: WatchList, its default"
	}
	if dropIn {
		note += "\nweir: its drop-in for client-go; the handlers of both look at the objects"
	}
	return note + "\n"
}

// aligned puts rows in columns: the first to the left, the others to the right.
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
			if i == 0 {
				line.WriteString(text + pad)
			} else {
				line.WriteString("  " + pad + text)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}
