package informers

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// Result contains what a verb measured. The JSON names and the names of figures are stable.
type Result struct {
	// Name is the verb's name, followed by "-dropin" for --dropin and by "-unstructured" for
	// --unstructured.
	Name string `json:"name"`
	// Flags are the flags that are not at their defaults and that Name does not imply.
	Flags []string `json:"flags,omitempty"`
	// Weir and ClientGo contain the medians of all runs. For each figure, ClientGo has the median of
	// client-go's better mode.
	Weir     Figures `json:"weir"`
	ClientGo Figures `json:"clientgo"`
	// Ratio is weir's value divided by client-go's. It omits figures that are not compared, and
	// figures for which client-go's value is 0.
	Ratio Figures `json:"ratio"`
	// Modes contains client-go's medians by mode: "list" and "watchlist".
	Modes map[string]Figures `json:"clientgoModes"`
	// Floor contains the time and CPU of reading the same LIST and discarding it. Only sync has it.
	Floor Figures `json:"floor,omitempty"`
	Runs  int     `json:"runs"`
	// Spread contains the smallest and the largest value for each median.
	Spread Spreads `json:"spread"`
}

// Spreads contain the smallest and the largest value of each figure over all runs. Each field
// belongs to the medians in the field of Result with the same name. For each figure, ClientGo has
// the spread of the mode whose median is better.
type Spreads struct {
	Weir     figures.Spread            `json:"weir"`
	ClientGo figures.Spread            `json:"clientgo"`
	Modes    map[string]figures.Spread `json:"clientgoModes"`
	Floor    figures.Spread            `json:"floor,omitempty"`
}

// newResult returns a result with the medians and spreads of all runs of each contender.
func newResult(name string, v Verb, runs map[contender][]Figures) Result {
	r := Result{Name: name, Modes: map[string]Figures{}, Spread: Spreads{Modes: map[string]figures.Spread{}}}
	for c, all := range runs {
		r.Runs = max(r.Runs, len(all))
		medians, spread := figures.Medians(all), figures.SpreadOf(all)
		switch c.side {
		case sideWeir:
			r.Weir, r.Spread.Weir = medians, spread
		case sideFloor:
			r.Floor, r.Spread.Floor = medians, spread
		default:
			r.Modes[c.mode], r.Spread.Modes[c.mode] = medians, spread
		}
	}
	r.compare(v.all())
	return r
}

// compare sets ClientGo, its spread and Ratio from client-go's modes.
func (r *Result) compare(measured []figures.Figure) {
	r.ClientGo, r.Ratio, r.Spread.ClientGo = Figures{}, Figures{}, figures.Spread{}
	for _, f := range measured {
		mode, ok := r.bestMode(f)
		if !ok {
			continue
		}
		r.ClientGo[f.Key] = r.Modes[mode][f.Key]
		if spread, ok := r.Spread.Modes[mode][f.Key]; ok {
			r.Spread.ClientGo[f.Key] = spread
		}
		if ratio, ok := r.Weir.Ratio(r.ClientGo, f.Key); ok && f.Better != figures.Neither {
			r.Ratio[f.Key] = ratio
		}
	}
}

// bestMode returns client-go's mode whose median of f is better. It returns false if no mode has f.
func (r *Result) bestMode(f figures.Figure) (best string, ok bool) {
	for _, mode := range slices.Sorted(maps.Keys(r.Modes)) {
		value, has := r.Modes[mode][f.Key]
		if !has {
			continue
		}
		so := r.Modes[best][f.Key]
		if !ok || f.Better == figures.Smaller && value < so || f.Better == figures.Larger && value > so {
			best, ok = mode, true
		}
	}
	return best, ok
}

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

// modeLetters mark the client-go mode of a figure in the table.
var modeLetters = map[string]string{modeList: "L", modeWatchList: "W"}

// row returns the row of a figure: its name, the median and the spread of each side, client-go's
// mode if there are several, and the ratio.
func (r Result) row(f figures.Figure) []string {
	row := []string{
		f.Label,
		f.Unit.Text(r.Weir[f.Key]), r.Spread.Weir.Cell(f.Key, f.Unit),
		r.ClientGo.Cell(f.Key, f.Unit), r.Spread.ClientGo.Cell(f.Key, f.Unit), "", "",
	}
	if mode, ok := r.bestMode(f); ok && len(r.Modes) > 1 && f.Better != figures.Neither {
		row[5] = modeLetters[mode]
	}
	if ratio, ok := r.Ratio[f.Key]; ok {
		row[6] = humanize.Number(ratio)
	}
	return row
}

// floorRow returns the row that compares the time of reading the LIST with client-go's time to
// sync.
func (r Result) floorRow() []string {
	const key = "syncSeconds"
	row := []string{
		"floor: reading the LIST's bytes",
		r.Floor.Cell(key, figures.Seconds), r.Spread.Floor.Cell(key, figures.Seconds), "", "", "", "",
	}
	if best := r.ClientGo[key]; best > 0 {
		row[6] = humanize.Number(r.Floor[key] / best)
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
		note += "\nweir: its drop-in for client-go; the handlers of both read the objects"
	}
	return note + "\n"
}
