package informers

import (
	"fmt"
	"io"
	"strings"

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
		if _, ok := r.Weir[f.Key]; ok {
			rows = append(rows, r.row(f))
		}
	}
	if r.Floor != nil {
		rows = append(rows, r.floorRow())
	}
	if err := figures.Write(w, figures.Fit(rows), rows...); err != nil {
		return err
	}
	_, err := io.WriteString(w, r.footnote(dropIn))
	return err
}

// modeLetters mark which of client-go's modes a figure is of.
var modeLetters = map[string]string{modeList: "L", modeWatchList: "W"}

// row returns the row of a figure: its name, the median and the spread of each side, client-go's
// mode if there are several, and the ratio.
func (r Result) row(f comparedFigure) []string {
	row := []string{
		f.Label,
		f.Unit.Text(r.Weir[f.Key]), r.Spread.Weir.Cell(f.Key, f.Unit),
		r.ClientGo.Cell(f.Key, f.Unit), r.Spread.ClientGo.Cell(f.Key, f.Unit), "", "",
	}
	if mode, ok := r.bestMode(f); ok && len(r.Modes) > 1 && f.better != neither {
		row[5] = modeLetters[mode]
	}
	if ratio, ok := r.Ratio[f.Key]; ok {
		row[6] = quantity.Number(ratio)
	}
	return row
}

// floorRow returns the row that compares client-go's time to sync with the time that reading takes.
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
