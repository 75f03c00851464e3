package informers

import (
	"context"
	"slices"
	"time"

	"github.com/weirproject/weir/bench/internal/figures"
)

// Verb is one measurement.
type Verb struct {
	Name  string
	Short string // one line on what is measured
	Runs  int    // how often each contender is run when nobody says

	// What the verb uses of the options, for whoever offers flags.
	Stub     bool          // measured on a stub that a server lends its pods to; else on the server itself
	Duration time.Duration // how long it is measured; 0: as long as it takes
	Takes    []string      // the options that it has besides those of all: some of those below

	modes   []string // client-go's that can make a difference
	figures []comparedFigure
	more    []comparedFigure // that only some options bring
	measure func(context.Context, *subject) (Figures, error)
}

// Figures returns the verb's figures, one a line: the key that JSON has, and what it is.
func (v Verb) Figures() string { return figures.Help("  %-27s %s\n", v.all()) }

// all returns the figures that the verb can have.
func (v Verb) all() []comparedFigure { return slices.Concat(v.figures, v.more) }

// The options that only some verbs take.
const (
	TakesUnstructured = "unstructured"
	TakesTransform    = "transform"
	TakesUnwrapped    = "unwrapped"
	TakesHandlers     = "handlers"
	TakesChange       = "change"
)

// Figures are what was measured, by name. Names end in their unit: Seconds, Bytes, Nanos and so on.
type Figures = figures.Values

// changeFigures returns the figures of each kind of change, for results of several kinds.
func changeFigures() (all []comparedFigure) {
	for _, change := range Changes() {
		all = append(all,
			comparedFigure{figures.New(change+"EventsPerSecond", change+": events handled a second", figures.Count), higher},
			comparedFigure{figures.New(change+"CPUMicrosPerEvent", change+": CPU per event handled", figures.Micros), lower})
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

// comparedFigure is one that a verb measures, and which of two values is the better one.
type comparedFigure struct {
	figures.Figure
	better better
}

// The modes of client-go's reflector.
const (
	modeList      = "list"
	modeWatchList = "watchlist"
)

var bothModes = []string{modeList, modeWatchList}

// Verbs returns all verbs, in the order in which they are run.
func Verbs() []Verb {
	return []Verb{
		{
			Name: "sync", Runs: 3, modes: bothModes, measure: measureSync,
			Takes: []string{TakesUnstructured, TakesTransform, TakesUnwrapped, TakesHandlers},
			Short: "The first sync of an informer of pods: time, CPU and memory",
			figures: []comparedFigure{
				{figures.New("syncSeconds", "time to sync", figures.Seconds), lower},
				{figures.New("cpuSeconds", "CPU to sync", figures.Seconds), lower},
				{figures.New("peakRSSBytes", "peak RSS", figures.Bytes), lower},
				{figures.New("heapBytes", "heap after GC, synced and idle", figures.Bytes), lower},
				{figures.New("heapObjects", "heap objects", figures.Count), lower},
				{figures.New("allocBytes", "allocated", figures.Bytes), lower},
				{figures.New("objects", "objects held", figures.Count), neither},
				{figures.New("events", "events handled", figures.Count), neither},
				{figures.New("requests", "requests made", figures.Count), neither},
				{figures.New("heapLeftBytes", "heap left after stop", figures.Bytes), neither},
				{figures.New("goroutinesLeft", "goroutines left after stop", figures.Count), neither},
			},
		},
		{
			Name: "watch", Runs: 3, modes: bothModes, measure: measureWatch, Stub: true, Duration: 5 * time.Second,
			Takes: []string{TakesUnstructured, TakesTransform, TakesUnwrapped, TakesHandlers, TakesChange}, more: changeFigures(),
			Short: "How many watch events a second reach a handler",
			figures: []comparedFigure{
				{figures.New("eventsPerSecond", "events handled a second", figures.Count), higher},
				{figures.New("receivedPerSecond", "events received a second", figures.Count), higher},
				{figures.New("coalescedShare", "events merged into later ones ÷ sent", figures.Number), neither},
				{figures.New("cpuMicrosPerEvent", "CPU per event handled", figures.Micros), lower},
				{figures.New("allocBytesPerEvent", "allocated per event handled", figures.Bytes), lower},
				{figures.New("peakRSSBytes", "peak RSS", figures.Bytes), lower},
				{figures.New("syncPeakRSSBytes", "peak RSS until the sync", figures.Bytes), lower},
				{figures.New("heapBytes", "heap after GC, changes over", figures.Bytes), lower},
				{figures.New("objects", "objects held", figures.Count), neither},
			},
		},
		{
			Name: "relist", Runs: 3, modes: bothModes, measure: measureRelist, Stub: true, Takes: []string{TakesUnstructured},
			Short: "What a relist costs when nothing has changed",
			figures: []comparedFigure{
				{figures.New("cpuSeconds", "CPU per relist", figures.Seconds), lower},
				{figures.New("allocBytes", "allocated per relist", figures.Bytes), lower},
				{figures.New("events", "events per relist", figures.Count), lower},
				{figures.New("peakRSSBytes", "peak RSS", figures.Bytes), lower},
				{figures.New("syncPeakRSSBytes", "peak RSS until the sync", figures.Bytes), lower},
				{figures.New("heapBytes", "heap after GC", figures.Bytes), lower},
				{figures.New("objects", "objects held", figures.Count), neither},
			},
		},
		{
			Name: "resync", Runs: 1, modes: []string{modeWatchList}, measure: measureResync,
			Short: "How evenly a resync reaches a handler",
			figures: []comparedFigure{
				{figures.New("busiestOverMean", "busiest 100 ms ÷ mean", figures.Number), lower},
				{figures.New("busiestPer100Millis", "deliveries in the busiest 100 ms", figures.Count), lower},
				{figures.New("meanPer100Millis", "mean deliveries in 100 ms", figures.Number), neither},
				{figures.New("deliveries", "deliveries in one period", figures.Count), neither},
				{figures.New("objects", "objects held", figures.Count), neither},
				{figures.New("requests", "requests made meanwhile", figures.Count), lower},
				{figures.New("cpuSeconds", "CPU in one period", figures.Seconds), lower},
				{figures.New("allocBytes", "allocated in one period", figures.Bytes), lower},
			},
		},
		{
			Name: "read", Runs: 3, modes: []string{modeWatchList}, measure: measureRead,
			Short: "Reading objects: one, all, and by an index",
			figures: []comparedFigure{
				{figures.New("getDecodedNanos", "Get of a decoded object", figures.Nanos), lower},
				{figures.New("getPackedNanos", "Get of a packed object", figures.Nanos), lower},
				{figures.New("listFirstNanosPerObject", "first read of everything, per object", figures.Nanos), lower},
				{figures.New("listNanosPerObject", "later reads of everything, per object", figures.Nanos), lower},
				{figures.New("indexNanos", "lookup by label", figures.Nanos), lower},
				{figures.New("indexObjects", "objects that a lookup finds", figures.Number), neither},
				{figures.New("heapBytes", "heap after GC, everything decoded", figures.Bytes), lower},
				{figures.New("objects", "objects held", figures.Count), neither},
			},
		},
		{
			Name: "index", Runs: 3, modes: []string{modeWatchList}, measure: measureIndex, Takes: []string{TakesUnstructured},
			Short: "An index by a function, there from the start, and added to what is held",
			figures: []comparedFigure{
				{figures.New("readySeconds", "synced, and the first lookup", figures.Seconds), lower},
				{figures.New("readyCPUSeconds", "CPU of it", figures.Seconds), lower},
				{figures.New("startedSeconds", "of these for the lookup", figures.Seconds), lower},
				{figures.New("buildSeconds", "first build", figures.Seconds), lower},
				{figures.New("buildCPUSeconds", "CPU of it", figures.Seconds), lower},
				{figures.New("indexFirstNanos", "first lookup of a value", figures.Nanos), lower},
				{figures.New("indexNanos", "later lookups", figures.Nanos), lower},
				{figures.New("indexObjects", "objects that a lookup finds", figures.Number), neither},
				{figures.New("heapBytes", "heap after GC", figures.Bytes), lower},
				{figures.New("objects", "objects held", figures.Count), neither},
			},
		},
		{
			Name: "leak", Runs: 1, modes: bothModes, measure: measureLeak, Stub: true, Takes: []string{TakesUnstructured},
			Short: "What is still held when all but 1 % of the objects are deleted",
			figures: []comparedFigure{
				{figures.New("restShare", "heap left ÷ full heap", figures.Number), lower},
				{figures.New("heapFullBytes", "heap with everything", figures.Bytes), lower},
				{figures.New("heapRestBytes", "heap with 1 % left", figures.Bytes), lower},
				{figures.New("objects", "objects before", figures.Count), neither},
				{figures.New("objectsRest", "objects after", figures.Count), neither},
				{figures.New("heapLeftBytes", "heap left after stop", figures.Bytes), neither},
				{figures.New("goroutinesLeft", "goroutines left after stop", figures.Count), neither},
			},
		},
		{
			Name: "blocked", Runs: 1, modes: []string{modeWatchList}, measure: measureBlocked, Stub: true, Duration: time.Minute,
			Short: "What a handler costs that never returns, under 2,000 updates a second",
			figures: []comparedFigure{
				{figures.New("growthBytes", "heap grown", figures.Bytes), lower},
				{figures.New("growthBytesPerKey", "heap grown per changed object", figures.Bytes), lower},
				{figures.New("growthShare", "heap grown ÷ heap when synced", figures.Number), lower},
				{figures.New("heapSyncedBytes", "heap when synced", figures.Bytes), lower},
				{figures.New("peakRSSBytes", "peak RSS", figures.Bytes), lower},
				{figures.New("events", "events received", figures.Count), neither},
				{figures.New("otherHandlerEvents", "events of the other handler", figures.Count), neither},
				{figures.New("objects", "objects held", figures.Count), neither},
				{figures.New("heapLeftBytes", "heap left after stop", figures.Bytes), neither},
				{figures.New("goroutinesLeft", "goroutines left after stop", figures.Count), neither},
			},
		},
	}
}

// takes reports whether an option means something to the verb.
func (v Verb) takes(option string) bool { return slices.Contains(v.Takes, option) }

func verbNamed(name string) (Verb, bool) {
	for _, v := range append(Verbs(), growth) {
		if v.Name == name {
			return v, true
		}
	}
	return Verb{}, false
}
