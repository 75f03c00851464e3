package informers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirproject/weir/bench/internal/figures"
)

// Verb is one measurement.
type Verb struct {
	Name  string
	Short string // one line on what is measured
	Runs  int    // how often each contender is run when nobody says

	// Of what the verb looks at, for whoever offers flags.
	Stub     bool          // measured on a stub that a server lends its pods to; else on the server itself
	Duration time.Duration // how long it is measured; 0: as long as it takes
	Takes    []string      // the options that it has besides those of all: some of those below

	modes   []string // client-go's that can make a difference
	figures []figure
	more    []figure // that only some options bring
	measure func(context.Context, *rig) (Figures, error)
}

// Figures lists the verb's figures, one a line: the key that JSON has, and what it is.
func (v Verb) Figures() string {
	var b strings.Builder
	for _, f := range v.all() {
		fmt.Fprintf(&b, "  %-27s %s\n", f.key, f.label)
	}
	return b.String()
}

// all returns the figures that the verb can have.
func (v Verb) all() []figure { return slices.Concat(v.figures, v.more) }

// The options that only some verbs take.
const (
	TakesUnstructured = "unstructured"
	TakesTransform    = "transform"
	TakesUnwrapped    = "unwrapped"
	TakesHandlers     = "handlers"
	TakesChange       = "change"
)

// changeFigures are those of each kind of change, where there are several.
func changeFigures() (all []figure) {
	for _, change := range Changes() {
		all = append(all,
			figure{change + "EventsPerSecond", change + ": events handled a second", figures.Count, higher},
			figure{change + "CPUMicrosPerEvent", change + ": CPU per event handled", figures.Micros, lower})
	}
	return all
}

// better says which of two values is the better one.
type better uint8

const (
	neither better = iota // the figure is there to be read, not to be compared
	lower
	higher
)

// figure is one that a verb measures. Key is a promise: it is what `-o json` has.
type figure struct {
	key, label string
	unit       figures.Unit
	better     better
}

// The modes of client-go's reflector.
const (
	modeList      = "list"
	modeWatchList = "watchlist"
)

var bothModes = []string{modeList, modeWatchList}

// Verbs are all of them, in the order in which they are run.
func Verbs() []Verb {
	return []Verb{
		{
			Name: "sync", Runs: 3, modes: bothModes, measure: measureSync,
			Takes: []string{TakesUnstructured, TakesTransform, TakesUnwrapped, TakesHandlers},
			Short: "The first sync of an informer of pods: time, CPU and memory",
			figures: []figure{
				{"syncSeconds", "time to sync", figures.Seconds, lower},
				{"cpuSeconds", "CPU to sync", figures.Seconds, lower},
				{"peakRSSBytes", "peak RSS", figures.Bytes, lower},
				{"heapBytes", "heap after GC, synced and idle", figures.Bytes, lower},
				{"heapObjects", "heap objects", figures.Count, lower},
				{"allocBytes", "allocated", figures.Bytes, lower},
				{"objects", "objects held", figures.Count, neither},
				{"events", "events handled", figures.Count, neither},
				{"requests", "requests made", figures.Count, neither},
				{"heapLeftBytes", "heap left after stop", figures.Bytes, neither},
				{"goroutinesLeft", "goroutines left after stop", figures.Count, neither},
			},
		},
		{
			Name: "watch", Runs: 3, modes: bothModes, measure: measureWatch, Stub: true, Duration: 5 * time.Second,
			Takes: []string{TakesUnstructured, TakesTransform, TakesUnwrapped, TakesHandlers, TakesChange}, more: changeFigures(),
			Short: "How many watch events a second reach a handler",
			figures: []figure{
				{"eventsPerSecond", "events handled a second", figures.Count, higher},
				{"receivedPerSecond", "events received a second", figures.Count, higher},
				{"coalescedShare", "events merged into later ones ÷ sent", figures.Number, neither},
				{"cpuMicrosPerEvent", "CPU per event handled", figures.Micros, lower},
				{"allocBytesPerEvent", "allocated per event handled", figures.Bytes, lower},
				{"peakRSSBytes", "peak RSS", figures.Bytes, lower},
				{"syncPeakRSSBytes", "peak RSS until the sync", figures.Bytes, lower},
				{"heapBytes", "heap after GC, changes over", figures.Bytes, lower},
				{"objects", "objects held", figures.Count, neither},
			},
		},
		{
			Name: "relist", Runs: 3, modes: bothModes, measure: measureRelist, Stub: true, Takes: []string{TakesUnstructured},
			Short: "What a relist costs when nothing has changed",
			figures: []figure{
				{"cpuSeconds", "CPU per relist", figures.Seconds, lower},
				{"allocBytes", "allocated per relist", figures.Bytes, lower},
				{"events", "events per relist", figures.Count, lower},
				{"peakRSSBytes", "peak RSS", figures.Bytes, lower},
				{"syncPeakRSSBytes", "peak RSS until the sync", figures.Bytes, lower},
				{"heapBytes", "heap after GC", figures.Bytes, lower},
				{"objects", "objects held", figures.Count, neither},
			},
		},
		{
			Name: "resync", Runs: 1, modes: []string{modeWatchList}, measure: measureResync,
			Short: "How evenly a resync reaches a handler",
			figures: []figure{
				{"busiestOverMean", "busiest 100 ms ÷ mean", figures.Number, lower},
				{"busiestPer100Millis", "deliveries in the busiest 100 ms", figures.Count, lower},
				{"meanPer100Millis", "mean deliveries in 100 ms", figures.Number, neither},
				{"deliveries", "deliveries in one period", figures.Count, neither},
				{"objects", "objects held", figures.Count, neither},
				{"requests", "requests made meanwhile", figures.Count, lower},
				{"cpuSeconds", "CPU in one period", figures.Seconds, lower},
				{"allocBytes", "allocated in one period", figures.Bytes, lower},
			},
		},
		{
			Name: "read", Runs: 3, modes: []string{modeWatchList}, measure: measureRead,
			Short: "Reading objects: one, all, and by an index",
			figures: []figure{
				{"getDecodedNanos", "Get of a decoded object", figures.Nanos, lower},
				{"getPackedNanos", "Get of a packed object", figures.Nanos, lower},
				{"listFirstNanosPerObject", "first read of everything, per object", figures.Nanos, lower},
				{"listNanosPerObject", "later reads of everything, per object", figures.Nanos, lower},
				{"indexNanos", "lookup by label", figures.Nanos, lower},
				{"indexObjects", "objects that a lookup finds", figures.Number, neither},
				{"heapBytes", "heap after GC, everything decoded", figures.Bytes, lower},
				{"objects", "objects held", figures.Count, neither},
			},
		},
		{
			Name: "index", Runs: 3, modes: []string{modeWatchList}, measure: measureIndex, Takes: []string{TakesUnstructured},
			Short: "An index by a function, there from the start, and added to what is held",
			figures: []figure{
				{"readySeconds", "synced, and the first lookup", figures.Seconds, lower},
				{"readyCPUSeconds", "CPU of it", figures.Seconds, lower},
				{"startedSeconds", "of these for the lookup", figures.Seconds, lower},
				{"buildSeconds", "first build", figures.Seconds, lower},
				{"buildCPUSeconds", "CPU of it", figures.Seconds, lower},
				{"indexFirstNanos", "first lookup of a value", figures.Nanos, lower},
				{"indexNanos", "later lookups", figures.Nanos, lower},
				{"indexObjects", "objects that a lookup finds", figures.Number, neither},
				{"heapBytes", "heap after GC", figures.Bytes, lower},
				{"objects", "objects held", figures.Count, neither},
			},
		},
		{
			Name: "leak", Runs: 1, modes: bothModes, measure: measureLeak, Stub: true, Takes: []string{TakesUnstructured},
			Short: "What is still held when all but 1 % of the objects are deleted",
			figures: []figure{
				{"restShare", "heap left ÷ full heap", figures.Number, lower},
				{"heapFullBytes", "heap with everything", figures.Bytes, lower},
				{"heapRestBytes", "heap with 1 % left", figures.Bytes, lower},
				{"objects", "objects before", figures.Count, neither},
				{"objectsRest", "objects after", figures.Count, neither},
				{"heapLeftBytes", "heap left after stop", figures.Bytes, neither},
				{"goroutinesLeft", "goroutines left after stop", figures.Count, neither},
			},
		},
		{
			Name: "blocked", Runs: 1, modes: []string{modeWatchList}, measure: measureBlocked, Stub: true, Duration: time.Minute,
			Short: "What a handler costs that never returns, under 2,000 updates a second",
			figures: []figure{
				{"growthBytes", "heap grown", figures.Bytes, lower},
				{"growthBytesPerKey", "heap grown per changed object", figures.Bytes, lower},
				{"growthShare", "heap grown ÷ heap when synced", figures.Number, lower},
				{"heapSyncedBytes", "heap when synced", figures.Bytes, lower},
				{"peakRSSBytes", "peak RSS", figures.Bytes, lower},
				{"events", "events received", figures.Count, neither},
				{"otherHandlerEvents", "events of the other handler", figures.Count, neither},
				{"objects", "objects held", figures.Count, neither},
				{"heapLeftBytes", "heap left after stop", figures.Bytes, neither},
				{"goroutinesLeft", "goroutines left after stop", figures.Count, neither},
			},
		},
	}
}

// takes reports whether an option means something to the verb.
func (v Verb) takes(option string) bool { return slices.Contains(v.Takes, option) }

func verbNamed(name string) (Verb, bool) {
	for _, v := range Verbs() {
		if v.Name == name {
			return v, true
		}
	}
	return Verb{}, false
}
