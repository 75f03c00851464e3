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
	Short string // one line about what it measures
	Runs  int    // per contender, unless the options set a number

	// The options that the verb uses, for which commands offer flags.

	// Stub says that the verb is measured on a stub, whose models are a server's pods. Otherwise it is
	// measured on the server itself.
	Stub     bool
	Duration time.Duration // how long it measures; 0: until it is done
	Takes    []string      // the options of Takes… that apply to the verb

	modes   []string // the client-go modes that may make a difference
	figures []figures.Figure
	more    []figures.Figure // figures that exist only with some options
	measure func(context.Context, *subject) Figures
}

// Figures returns the verb's figures, one per line: the key in the JSON and the label.
func (v Verb) Figures() string { return figures.Help("  %-27s %s\n", v.all()) }

// all returns all figures that the verb may have.
func (v Verb) all() []figures.Figure { return slices.Concat(v.figures, v.more) }

// The options that only some verbs have.
const (
	TakesUnstructured = "unstructured"
	TakesCustom       = "custom"
	TakesTransform    = "transform"
	TakesUnwrapped    = "unwrapped"
	TakesHandlers     = "handlers"
	TakesChange       = "change"
)

// Figures are measured values by name. A name ends with the unit: Seconds, Bytes, Nanos and so on.
type Figures = figures.Values

// changeFigures returns the figures of each kind of change, for results of several kinds.
func changeFigures() (all []figures.Figure) {
	for _, change := range Changes() {
		all = append(all,
			figures.Higher(change+"EventsPerSecond", change+": events handled per second", figures.Count),
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

// takes reports whether an option applies to the verb.
func (v Verb) takes(option string) bool { return slices.Contains(v.Takes, option) }

func verbNamed(name string) (Verb, bool) {
	for _, v := range append(Verbs(), growVerb) {
		if v.Name == name {
			return v, true
		}
	}
	return Verb{}, false
}
