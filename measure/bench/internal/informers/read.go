package informers

import (
	"context"
	"errors"
	"time"

	"github.com/weirproject/weir/measure/bench/internal/figures"
)

const (
	readKeys   = 2000 // objects whose reads are timed
	readRounds = 50   // over those, when they are decoded
)

var errNothing = errors.New("there is no object to read")

var readVerb = Verb{
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
}

// measureRead measures reads of objects that were not read before, of objects that are read all the
// time, of everything, and of the objects that an index finds.
func measureRead(ctx context.Context, s *subject) (Figures, error) {
	if err := s.handle(0, s.count); err != nil {
		return nil, err
	}
	if err := s.index(indexName, false); err != nil {
		return nil, err
	}
	if err := s.sync(ctx); err != nil {
		return nil, err
	}
	keys, values, err := s.pick(readKeys)
	if err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, errNothing
	}
	f := Figures{"objects": float64(s.len())}

	// First, while every object is as it came.
	if f["getPackedNanos"], err = timed(len(keys), func(i int) error { return s.get(keys[i]) }); err != nil {
		return nil, err
	}
	for range 3 { // what is read again soon stays decoded
		if _, err = timed(len(keys), func(i int) error { return s.get(keys[i]) }); err != nil {
			return nil, err
		}
	}
	if f["getDecodedNanos"], err = timed(readRounds*len(keys), func(i int) error { return s.get(keys[i%len(keys)]) }); err != nil {
		return nil, err
	}
	if len(values) > 0 { // otherwise no pod has the label
		if err := s.timeIndex(f, values); err != nil {
			return nil, err
		}
	}
	if err := s.timeLists(f); err != nil {
		return nil, err
	}
	f["heapBytes"] = float64(settledHeap().bytes)
	return f, ctx.Err()
}

// laterRounds is how often each value is looked up again: one round takes a few milliseconds, in
// which what the first lookups have left may be collected.
const laterRounds = 50

// timeIndex times lookups by label, of values that have been looked up before.
func (s *subject) timeIndex(f Figures, values []string) error {
	found := 0
	look := func(i int) error {
		n, err := s.by(indexName, values[i%len(values)])
		found += n
		return err
	}
	for range 2 {
		if _, err := timed(len(values), look); err != nil {
			return err
		}
	}
	found = 0
	nanos, err := timed(laterRounds*len(values), look)
	if err != nil {
		return err
	}
	f["indexNanos"] = nanos
	f["indexObjects"] = float64(found) / float64(laterRounds*len(values))
	return nil
}

// timeLists times two reads of everything: the first and the fourth.
func (s *subject) timeLists(f Figures) error {
	for i := range 4 {
		n := 0
		nanos, err := timed(1, func(int) (err error) {
			n, err = s.list()
			return err
		})
		if err != nil {
			return err
		}
		switch i {
		case 0:
			f["listFirstNanosPerObject"] = nanos / float64(max(n, 1))
		case 3:
			f["listNanosPerObject"] = nanos / float64(max(n, 1))
		}
	}
	return nil
}

// timed calls f n times and returns the mean time of a call, in nanoseconds. If n is 0, that is
// NaN. The first error ends it.
func timed(n int, f func(i int) error) (float64, error) {
	begin := time.Now()
	for i := range n {
		if err := f(i); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(begin).Nanoseconds()) / float64(n), nil
}
