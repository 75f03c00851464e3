package informers

import (
	"context"
	"errors"

	"github.com/weirproject/weir/measure/bench/internal/figures"
)

const (
	readKeys   = 2000 // the number of objects whose reads are timed
	readRounds = 50   // how often each of these objects is read after it was decoded
)

var errNothing = errors.New("there is no object to read")

var readVerb = Verb{
	Name: "read", Runs: 3, modes: []string{modeWatchList}, measure: measureRead,
	Short: "Reading objects: one, all, and by an index",
	figures: []figures.Figure{
		figures.Lower("getDecodedNanos", "Get of a decoded object", figures.Nanos),
		figures.Lower("getPackedNanos", "Get of a packed object", figures.Nanos),
		figures.Lower("listFirstNanosPerObject", "first read of all objects, per object", figures.Nanos),
		figures.Lower("listNanosPerObject", "later reads of all objects, per object", figures.Nanos),
		figures.Lower("indexNanos", "lookup by label", figures.Nanos),
		figures.New("indexObjects", "objects that a lookup finds", figures.Number),
		figures.Lower("heapBytes", "heap after GC, all objects decoded", figures.Bytes),
		figures.New("objects", "stored objects", figures.Count),
	},
}

// measureRead measures reads of objects that were not read before, of objects that are read often,
// of all objects, and of the objects that an index finds.
func measureRead(ctx context.Context, s *subject) Figures {
	s.handleAll(s.count)
	figures.Check(s.index(indexName, false))
	s.sync(ctx)
	keys, values := s.picked()
	f := Figures{"objects": float64(s.len())}
	get := func(i int) error { return s.get(keys[i%len(keys)]) }
	f["getPackedNanos"] = s.timed(len(keys), get) // first, while all objects are packed
	s.timed(3*len(keys), get)                     // objects that are read again stay decoded
	f["getDecodedNanos"] = s.timed(readRounds*len(keys), get)
	if len(values) > 0 { // otherwise no pod has the label
		s.timeIndex(f, values)
	}
	s.timeLists(f)
	f["heapBytes"] = heapBytes()
	return f
}

// picked returns the keys of the objects to read, and the values to look up in the index. It ends
// the attempt if there is no key.
func (s *subject) picked() (keys, values []string) {
	keys, values, err := s.pick(readKeys)
	if err == nil && len(keys) == 0 {
		err = errNothing
	}
	figures.Check(err)
	return keys, values
}

// timeFirstGets returns the mean time of a Get of an object that was not read before, in
// nanoseconds. The objects are spread evenly over all keys.
func (s *subject) timeFirstGets() float64 {
	keys, _ := s.picked()
	return s.timed(len(keys), func(i int) error { return s.get(keys[i]) })
}

// laterRounds is how often each value is looked up again. One round would take only a few
// milliseconds, and a collection of the garbage of the first lookups could fall into that time.
const laterRounds = 50

// timeIndex looks up each value in the index twice. It then measures the mean time of further
// lookups, and the mean number of objects that a lookup finds.
func (s *subject) timeIndex(f Figures, values []string) {
	found, n := 0, laterRounds*len(values)
	look := func(i int) error {
		objects, err := s.by(indexName, values[i%len(values)])
		found += objects
		return err
	}
	s.timed(2*len(values), look)
	found = 0
	f["indexNanos"] = s.timed(n, look)
	f["indexObjects"] = float64(found) / float64(n)
}

// timeLists measures the time per object of the first and of the fourth read of all objects.
func (s *subject) timeLists(f Figures) {
	for _, key := range []string{"listFirstNanosPerObject", "", "", "listNanosPerObject"} {
		n := 0
		nanos := s.timed(1, func(int) (err error) {
			n, err = s.list()
			return err
		})
		if key != "" {
			f[key] = nanos / float64(max(n, 1))
		}
	}
}
