package servers

// Result is what a scenario measured. The JSON names are a promise, and so are those of the
// figures.
type Result struct {
	Name string `json:"name"`
	// Weir and APIServer are the medians of all runs. What was not measured is not there.
	Weir      Figures `json:"weir"`
	APIServer Figures `json:"apiserver"`
	// Ratio is weir ÷ kube-apiserver, where that is not 0.
	Ratio Figures `json:"ratio"`
	// Wanted are the bounds that figures have, and Missed those figures that are beyond theirs.
	Wanted map[string]Want `json:"wanted"`
	Missed []string        `json:"missed"`
	Runs   int             `json:"runs"`
}

// compare fills the rest in.
func (r *Result) compare(figures []boundedFigure) {
	r.Ratio, r.Wanted, r.Missed = Figures{}, map[string]Want{}, []string{}
	for _, f := range figures {
		if ratio, ok := r.Weir.Ratio(r.APIServer, f.Key); ok {
			r.Ratio[f.Key] = ratio
		}
		if f.want == anything {
			continue
		}
		r.Wanted[f.Key] = f.want
		if r.verdict(f) == missed {
			r.Missed = append(r.Missed, f.Key)
		}
	}
}

// verdict says what became of a figure that has a bound.
type verdict string

const (
	unknown verdict = ""
	reached verdict = "ok"
	missed  verdict = "missed"
)

func (r *Result) verdict(f boundedFigure) verdict {
	value, most := 0.0, 0.0
	var known bool
	switch {
	case f.want.RatioAtMost != nil:
		value, known = r.Ratio[f.Key]
		most = *f.want.RatioAtMost
	case f.want.WeirAtMost != nil:
		value, known = r.Weir[f.Key]
		most = *f.want.WeirAtMost
	}
	switch {
	case !known:
		return unknown
	case value > most:
		return missed
	}
	return reached
}
