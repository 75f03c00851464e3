package servers

import (
	"context"
	"slices"

	"github.com/weirproject/weir/bench/internal/figures"
	"github.com/weirproject/weir/bench/internal/named"
)

// Scenario is one measurement.
type Scenario struct {
	Name  string
	Short string // one line on what is measured
	Runs  int    // of each side, when nobody says

	Writes bool // it changes pods
	Heavy  bool // it needs a large machine, and is run only when it is named

	figures []boundedFigure
	measure func(context.Context, *trial) (Figures, error)
}

// Figures are what was measured, by name. Names end in their unit.
type Figures = figures.Values

// boundedFigure is one that a scenario measures, and what it must come to.
type boundedFigure struct {
	figures.Figure
	want Want
}

// Want is what a figure must come to.
type Want struct {
	// RatioAtMost bounds weir's figure ÷ kube-apiserver's, WeirAtMost weir's alone. Nil: it may be
	// anything.
	RatioAtMost *float64 `json:"ratioAtMost,omitempty"`
	WeirAtMost  *float64 `json:"weirAtMost,omitempty"`
}

func ratio(most float64) Want  { return Want{RatioAtMost: &most} }
func atMost(most float64) Want { return Want{WeirAtMost: &most} }

var anything Want

// Help returns the scenario's figures, one a line: the key that JSON has, and what it is.
func (s Scenario) Help() string { return figures.Help("    %-24s %s\n", s.figures) }

// Scenarios returns all scenarios, in the order in which they are run.
func Scenarios() []Scenario {
	return []Scenario{hold, label, list, initial, slowLists, slowReader, kubelets, everybody, crowd, day, stalled, upstreamRequests, herd, shards}
}

// Named returns the scenarios of the given names, in the usual order, or all but the heavy ones if
// no name is given. A name that no scenario has is an error.
func Named(names ...string) ([]Scenario, error) {
	all := Scenarios()
	if len(names) == 0 {
		return slices.DeleteFunc(all, func(s Scenario) bool { return s.Heavy }), nil
	}
	return named.Choose("measurement", all, func(s Scenario) string { return s.Name }, names...)
}
