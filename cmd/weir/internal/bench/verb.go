package bench

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Verb is one measurement.
type Verb struct {
	Name  string
	Short string // one line on what is measured
	Runs  int    // how often each contender is run when nobody says

	// Of what the verb looks at, for whoever offers flags.
	Stub     bool          // measured on a stub that a server lends its pods to; else on the server itself
	Duration time.Duration // how long it is measured; 0: as long as it takes

	modes   []string // client-go's that can make a difference
	figures []figure
	measure func(context.Context, *rig) (Figures, error)
}

// Figures lists the verb's figures, one a line: the key that JSON has, and what it is.
func (v Verb) Figures() string {
	var b strings.Builder
	for _, f := range v.figures {
		fmt.Fprintf(&b, "  %-20s %s\n", f.key, f.label)
	}
	return b.String()
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
	unit       unit
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
			Short: "The first sync of an informer of pods: time, CPU and memory",
			figures: []figure{
				{"syncSeconds", "time to sync", seconds, lower},
				{"cpuSeconds", "CPU to sync", seconds, lower},
				{"peakRSSBytes", "peak RSS", bytesUnit, lower},
				{"heapBytes", "heap after GC, synced and idle", bytesUnit, lower},
				{"heapObjects", "heap objects", count1, lower},
				{"allocBytes", "allocated", bytesUnit, lower},
				{"objects", "objects held", count1, neither},
				{"events", "events handled", count1, neither},
				{"requests", "requests made", count1, neither},
				{"heapLeftBytes", "heap left after stop", bytesUnit, neither},
				{"goroutinesLeft", "goroutines left after stop", count1, neither},
			},
		},
		{
			Name: "watch", Runs: 3, modes: bothModes, measure: measureWatch, Stub: true, Duration: 5 * time.Second,
			Short: "How many watch events a second reach a handler",
			figures: []figure{
				{"eventsPerSecond", "events handled a second", count1, higher},
				{"receivedPerSecond", "events received a second", count1, higher},
				{"cpuMicrosPerEvent", "CPU per event", micro, lower},
				{"allocBytesPerEvent", "allocated per event", bytesUnit, lower},
				{"peakRSSBytes", "peak RSS", bytesUnit, lower},
				{"syncPeakRSSBytes", "peak RSS until the sync", bytesUnit, lower},
				{"objects", "objects held", count1, neither},
			},
		},
		{
			Name: "relist", Runs: 3, modes: bothModes, measure: measureRelist, Stub: true,
			Short: "What a relist costs when nothing has changed",
			figures: []figure{
				{"cpuSeconds", "CPU per relist", seconds, lower},
				{"allocBytes", "allocated per relist", bytesUnit, lower},
				{"events", "events per relist", count1, lower},
				{"peakRSSBytes", "peak RSS", bytesUnit, lower},
				{"syncPeakRSSBytes", "peak RSS until the sync", bytesUnit, lower},
				{"heapBytes", "heap after GC", bytesUnit, lower},
				{"objects", "objects held", count1, neither},
			},
		},
		{
			Name: "resync", Runs: 1, modes: []string{modeWatchList}, measure: measureResync,
			Short: "How evenly a resync reaches a handler",
			figures: []figure{
				{"busiestOverMean", "busiest 100 ms ÷ mean", number, lower},
				{"busiestPer100Millis", "deliveries in the busiest 100 ms", count1, lower},
				{"meanPer100Millis", "mean deliveries in 100 ms", number, neither},
				{"deliveries", "deliveries in one period", count1, neither},
				{"objects", "objects held", count1, neither},
				{"requests", "requests made meanwhile", count1, lower},
				{"cpuSeconds", "CPU in one period", seconds, lower},
				{"allocBytes", "allocated in one period", bytesUnit, lower},
			},
		},
		{
			Name: "read", Runs: 3, modes: []string{modeWatchList}, measure: measureRead,
			Short: "Reading objects: one, all, and by an index",
			figures: []figure{
				{"getDecodedNanos", "Get of a decoded object", nanos, lower},
				{"getPackedNanos", "Get of a packed object", nanos, lower},
				{"listFirstNanosPerObject", "first read of everything, per object", nanos, lower},
				{"listNanosPerObject", "later reads of everything, per object", nanos, lower},
				{"indexNanos", "lookup by label", nanos, lower},
				{"indexObjects", "objects that a lookup finds", number, neither},
				{"heapBytes", "heap after GC, everything decoded", bytesUnit, lower},
				{"objects", "objects held", count1, neither},
			},
		},
		{
			Name: "leak", Runs: 1, modes: bothModes, measure: measureLeak, Stub: true,
			Short: "What is still held when all but 1 % of the objects are deleted",
			figures: []figure{
				{"restShare", "heap left ÷ full heap", number, lower},
				{"heapFullBytes", "heap with everything", bytesUnit, lower},
				{"heapRestBytes", "heap with 1 % left", bytesUnit, lower},
				{"objects", "objects before", count1, neither},
				{"objectsRest", "objects after", count1, neither},
				{"heapLeftBytes", "heap left after stop", bytesUnit, neither},
				{"goroutinesLeft", "goroutines left after stop", count1, neither},
			},
		},
		{
			Name: "blocked", Runs: 1, modes: []string{modeWatchList}, measure: measureBlocked, Stub: true, Duration: time.Minute,
			Short: "What a handler costs that never returns, under 2,000 updates a second",
			figures: []figure{
				{"growthBytes", "heap grown", bytesUnit, lower},
				{"growthBytesPerKey", "heap grown per changed object", bytesUnit, lower},
				{"growthShare", "heap grown ÷ heap when synced", number, lower},
				{"heapSyncedBytes", "heap when synced", bytesUnit, lower},
				{"peakRSSBytes", "peak RSS", bytesUnit, lower},
				{"events", "events received", count1, neither},
				{"otherHandlerEvents", "events of the other handler", count1, neither},
				{"objects", "objects held", count1, neither},
				{"heapLeftBytes", "heap left after stop", bytesUnit, neither},
				{"goroutinesLeft", "goroutines left after stop", count1, neither},
			},
		},
	}
}

func verbNamed(name string) (Verb, bool) {
	for _, v := range Verbs() {
		if v.Name == name {
			return v, true
		}
	}
	return Verb{}, false
}
