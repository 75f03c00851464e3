package informers

import (
	"context"
	"slices"
	"time"

	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// Verb is one measurement.
type Verb struct {
	Name  string
	Short string // one line on what is measured
	Runs  int    // how often each contender is run, unless the options say

	// What the verb uses of the options. Commands offer flags for these.

	// Stub says that it is measured on a stub that a server lends its pods to; else on the server
	// itself.
	Stub     bool
	Duration time.Duration // how long it is measured; 0: as long as it takes
	Takes    []string      // the options that not all verbs have: some of those below

	modes   []string // client-go's that can make a difference
	figures []figures.Figure
	more    []figures.Figure // that only some options bring
	measure func(context.Context, *subject) Figures
}

// Figures returns the verb's figures, one a line: the key that JSON has, and what it is.
func (v Verb) Figures() string { return figures.Help("  %-27s %s\n", v.all()) }

// all returns the figures that the verb can have.
func (v Verb) all() []figures.Figure { return slices.Concat(v.figures, v.more) }

// The options that only some verbs take.
const (
	TakesUnstructured = "unstructured"
	TakesCustom       = "custom"
	TakesTransform    = "transform"
	TakesUnwrapped    = "unwrapped"
	TakesHandlers     = "handlers"
	TakesChange       = "change"
)

// Figures are what was measured, by name. Names end in their unit: Seconds, Bytes, Nanos and so on.
type Figures = figures.Values

// changeFigures returns the figures of each kind of change, for results of several kinds.
func changeFigures() (all []figures.Figure) {
	for _, change := range Changes() {
		all = append(all,
			figures.Higher(change+"EventsPerSecond", change+": events handled a second", figures.Count),
			figures.Lower(change+"CPUMicrosPerEvent", change+": CPU per event handled", figures.Micros))
	}
	return all
}

// The modes of client-go's reflector.
const (
	modeList      = "list"
	modeWatchList = "watchlist"
)

var bothModes = []string{modeList, modeWatchList}

// Verbs returns all verbs, in the order in which they are run.
func Verbs() []Verb {
	return []Verb{syncVerb, watchVerb, relistVerb, resyncVerb, readVerb, indexVerb, leakVerb, blockedVerb}
}

// takes reports whether an option means something to the verb.
func (v Verb) takes(option string) bool { return slices.Contains(v.Takes, option) }

func verbNamed(name string) (Verb, bool) {
	for _, v := range append(Verbs(), growVerb) {
		if v.Name == name {
			return v, true
		}
	}
	return Verb{}, false
}
