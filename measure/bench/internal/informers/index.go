package informers

import (
	"context"

	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// earlyIndex is the name of an index that is added before the first list.
const earlyIndex = "early"

var indexVerb = Verb{
	Name: "index", Runs: 3, modes: []string{modeWatchList}, measure: measureIndex, Takes: []string{TakesUnstructured},
	Short: "An index by a function, added before the start and added later",
	figures: []figures.Figure{
		figures.Lower("readySeconds", "synced, and the first lookup", figures.Seconds),
		figures.Lower("readyCPUSeconds", "CPU of it", figures.Seconds),
		figures.Lower("startedSeconds", "of these for the lookup", figures.Seconds),
		figures.Lower("buildSeconds", "first build", figures.Seconds),
		figures.Lower("buildCPUSeconds", "CPU of it", figures.Seconds),
		figures.Lower("indexFirstNanos", "first lookup of a value", figures.Nanos),
		figures.Lower("indexNanos", "later lookups", figures.Nanos),
		figures.New("indexObjects", "objects that a lookup finds", figures.Number),
		figures.Lower("heapBytes", "heap after GC", figures.Bytes),
		figures.New("objects", "stored objects", figures.Count),
	},
}

// measureIndex measures two indexes by function. It adds the first index before the first list, and
// measures until the informer has synced and the first lookup is answered. It adds the second index
// later, while all objects are packed, and measures until the first lookup is answered. The first
// lookup of each index looks for a value that no object has. Then measureIndex measures lookups of
// values that objects have.
func measureIndex(ctx context.Context, s *subject) Figures {
	s.handleAll(s.count)
	figures.Check(s.index(earlyIndex, true))
	s.sync(ctx)
	start := now(0)
	figures.Must(s.by(earlyIndex, unknownApp))
	first, ready := s.since(start), s.since(s.start)
	settledHeap() // so that garbage of the sync is not collected while the second index is built
	start = now(0)
	figures.Check(s.index(indexName, true))
	figures.Must(s.by(indexName, unknownApp))
	build := s.since(start)
	f := Figures{
		"startedSeconds": first.elapsed.Seconds(), "readySeconds": ready.elapsed.Seconds(), "readyCPUSeconds": ready.cpu.Seconds(),
		"buildSeconds": build.elapsed.Seconds(), "buildCPUSeconds": build.cpu.Seconds(), "objects": float64(s.len()),
	}
	_, values := s.picked()
	figures.Require(len(values) > 0, errNothing)
	f["indexFirstNanos"] = s.timed(len(values), func(i int) error {
		_, err := s.by(indexName, values[i])
		return err
	})
	s.timeIndex(f, values)
	f["heapBytes"] = heapBytes()
	return f
}

// unknownApp is a value that no object has.
const unknownApp = "no app is called so"
