package informers

import (
	"context"

	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// earlyIndex is the name of an index that is there before the first list.
const earlyIndex = "early"

var indexVerb = Verb{
	Name: "index", Runs: 3, modes: []string{modeWatchList}, measure: measureIndex, Takes: []string{TakesUnstructured},
	Short: "An index by a function, there from the start, and added to the cached objects",
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
}

// measureIndex measures two indexes by a function of the object. One is there before the first
// list: until the informer has synced and the first lookup is answered. The other one is added when
// no object has been read since: until the first lookup, of a value that no object has, is
// answered; then lookups.
func measureIndex(ctx context.Context, s *subject) (Figures, error) {
	if err := s.handle(0, s.count); err != nil {
		return nil, err
	}
	if err := s.index(earlyIndex, true); err != nil {
		return nil, err
	}
	if err := s.sync(ctx); err != nil {
		return nil, err
	}
	f := Figures{}
	begin := now(0)
	if _, err := s.by(earlyIndex, unknownApp); err != nil {
		return nil, err
	}
	elapsed, _, _, _ := s.since(begin)
	f["startedSeconds"] = elapsed.Seconds()
	elapsed, cpu, _, _ := s.since(s.start)
	f["readySeconds"], f["readyCPUSeconds"] = elapsed.Seconds(), cpu.Seconds()

	settledHeap() // what the sync left to collect is not the other index's
	begin = now(0)
	if err := s.index(indexName, true); err != nil {
		return nil, err
	}
	if _, err := s.by(indexName, unknownApp); err != nil {
		return nil, err
	}
	elapsed, cpu, _, _ = s.since(begin)
	f["buildSeconds"], f["buildCPUSeconds"], f["objects"] = elapsed.Seconds(), cpu.Seconds(), float64(s.len())

	_, values, err := s.pick(readKeys)
	if err != nil {
		return nil, err
	}
	if len(values) == 0 {
		return nil, errNothing
	}
	if f["indexFirstNanos"], err = timed(len(values), func(i int) error {
		_, err := s.by(indexName, values[i])
		return err
	}); err != nil {
		return nil, err
	}
	if err := s.timeIndex(f, values); err != nil {
		return nil, err
	}
	f["heapBytes"] = float64(settledHeap().bytes)
	return f, ctx.Err()
}

// unknownApp is a value that no object has.
const unknownApp = "no app is called so"
