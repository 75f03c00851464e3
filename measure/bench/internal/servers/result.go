package servers

import (
	"io"
	"strconv"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// Result contains what a scenario measured. The JSON names and the names of figures are stable.
type Result struct {
	Name string `json:"name"`
	// Weir and APIServer contain the medians of all runs. They omit values that were not measured.
	Weir      Figures `json:"weir"`
	APIServer Figures `json:"apiserver"`
	// Ratio is weir's value divided by kube-apiserver's. It omits values for which kube-apiserver's
	// value is 0.
	Ratio Figures `json:"ratio"`
	// Wanted contains the limits of figures, and Missed the figures that exceed their limits.
	Wanted map[string]figures.Want `json:"wanted"`
	Missed []string                `json:"missed"`
	Runs   int                     `json:"runs"`
}

// compare sets Ratio, Wanted and Missed.
func (r *Result) compare(measured []figures.Figure) {
	r.Ratio, r.Wanted, r.Missed = Figures{}, map[string]figures.Want{}, []string{}
	for _, f := range measured {
		if ratio, ok := r.Weir.Ratio(r.APIServer, f.Key); ok {
			r.Ratio[f.Key] = ratio
		}
		if f.Want == (figures.Want{}) {
			continue
		}
		r.Wanted[f.Key] = f.Want
		if r.verdict(f) == missed {
			r.Missed = append(r.Missed, f.Key)
		}
	}
}

// verdict says whether a figure is within its limit.
type verdict string

const (
	unknown verdict = ""
	reached verdict = "ok"
	missed  verdict = "missed"
)

func (r *Result) verdict(f figures.Figure) verdict {
	value, most := 0.0, 0.0
	var known bool
	if f.Want.RatioAtMost != nil {
		value, known = r.Ratio[f.Key]
		most = *f.Want.RatioAtMost
	} else if f.Want.WeirAtMost != nil {
		value, known = r.Weir[f.Key]
		most = *f.Want.WeirAtMost
	}
	switch {
	case !known:
		return unknown
	case value > most:
		return missed
	}
	return reached
}

// columns have fixed widths, so that the rows of each scenario can be printed when the scenario
// ends.
var columns = []figures.Column{{Width: 38, Left: true}, {Width: 9}, {Width: 14}, {Width: 7}, {Width: 12}, {Width: 6, Left: true}}

// WriteHead writes the head of the table. Lines of the table have at most 100 columns.
func WriteHead(w io.Writer) error {
	return figures.Write(w, columns, []string{"", nameWeir, nameAPIServer, "ratio", "wanted", ""})
}

// WriteRows writes the rows of a scenario.
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
		cells := []string{0: f.Label, 1: "-", 2: r.APIServer.Cell(f.Key, f.Unit), 4: wanted(f), 5: string(r.verdict(f))}
		if ok {
			cells[1] = f.Unit.Text(ours)
		}
		if ratio, ok := r.Ratio[f.Key]; ok {
			cells[3] = humanize.Number(ratio)
		}
		rows = append(rows, cells)
	}
	return figures.Write(w, columns, rows...)
}

// wanted returns the limit of a figure as text.
func wanted(f figures.Figure) string {
	switch {
	case f.Want.RatioAtMost != nil:
		return "ratio ≤ " + strconv.FormatFloat(*f.Want.RatioAtMost, 'g', -1, 64)
	case f.Want.WeirAtMost != nil:
		return "≤ " + f.Unit.Text(*f.Want.WeirAtMost)
	}
	return ""
}
