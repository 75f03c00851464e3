package bench

import (
	"maps"
	"slices"
)

// Result is what a verb measured. The JSON names are a promise, and so are those of the figures.
type Result struct {
	// Name is the verb's, with "-dropin" behind it for --dropin, and then "-unstructured" for --unstructured.
	Name string `json:"name"`
	// Weir and ClientGo are the medians of all runs. Of client-go's modes it is the better one, for each figure.
	Weir     Figures `json:"weir"`
	ClientGo Figures `json:"clientgo"`
	// Ratio is weir ÷ client-go, for the figures where one side can be better and client-go's is not 0.
	Ratio Figures `json:"ratio"`
	// Modes are client-go's medians by mode: "list" and "watchlist".
	Modes map[string]Figures `json:"clientgoModes"`
	// Floor is what reading the same LIST to nowhere takes; of sync only.
	Floor Figures `json:"floor,omitempty"`
	Runs  int     `json:"runs"`
}

// compare fills ClientGo and Ratio in from the rest.
func (r *Result) compare(figures []figure) {
	r.ClientGo, r.Ratio = Figures{}, Figures{}
	modes := slices.Sorted(maps.Keys(r.Modes))
	for _, f := range figures {
		var have bool
		var best float64
		for _, mode := range modes {
			value, ok := r.Modes[mode][f.key]
			if !ok {
				continue
			}
			if !have || f.better == lower && value < best || f.better == higher && value > best {
				have, best = true, value
			}
		}
		if !have {
			continue
		}
		r.ClientGo[f.key] = best
		if ours, ok := r.Weir[f.key]; ok && f.better != neither && best != 0 {
			r.Ratio[f.key] = ours / best
		}
	}
}
