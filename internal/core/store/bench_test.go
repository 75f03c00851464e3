package store

import (
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/testing/testenv"
)

const benchPods = 5000

type benchSet struct {
	raws  [][]byte
	metas []wire.Meta
	keys  []string
	rv    [20]byte // scratch of update
}

func newBenchSet(tb testing.TB, enc wire.Encoding, n int) *benchSet {
	set := &benchSet{raws: podsim.Spread(enc.String(), n), metas: make([]wire.Meta, n), keys: make([]string, n)}
	for i, raw := range set.raws {
		check.NoError(tb, wire.ReadMeta(enc, raw, &set.metas[i]))
		set.keys[i] = string(wire.AppendKey(nil, &set.metas[i]))
	}
	return set
}

func (set *benchSet) fill(tb testing.TB, w *Writer) {
	for i, raw := range set.raws {
		check.NoError(tb, w.Put(&set.metas[i], raw))
	}
	w.Flush()
}

// update puts the pod with index i % benchPods, with a new resourceVersion that depends on i.
func (set *benchSet) update(b *testing.B, w *Writer, i int) {
	m := set.metas[i%benchPods]
	m.ResourceVersion = strconv.AppendInt(set.rv[:0], int64(1_000_000+i), 10)
	check.NoError(b, w.Put(&m, set.raws[i%benchPods]))
}

func BenchmarkPutNew(b *testing.B) {
	set := newBenchSet(b, wire.Protobuf, benchPods)
	b.ReportAllocs()
	s := newStore(b, decodeConfig())
	w := s.Writer(Scope{})
	for i := 0; b.Loop(); i++ {
		if i%benchPods == 0 && i > 0 {
			w.Flush()
			s = newStore(b, decodeConfig())
			w = s.Writer(Scope{})
		}
		check.NoError(b, w.Put(&set.metas[i%benchPods], set.raws[i%benchPods]))
	}
	w.Flush()
}

func BenchmarkPutUpdate(b *testing.B) {
	for _, indexes := range []int{0, 2} {
		b.Run(fmt.Sprintf("indexes=%d", indexes), func(b *testing.B) {
			set := newBenchSet(b, wire.Protobuf, benchPods)
			s := newStore(b, decodeConfig())
			for i, label := range []string{"app", "pod-template-hash"}[:indexes] {
				check.NoError(b, s.AddIndex(strconv.Itoa(i), LabelIndex(label)))
			}
			w := s.Writer(Scope{})
			set.fill(b, w)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				set.update(b, w, i)
			}
			w.Flush()
		})
	}
}

func BenchmarkPutUnchanged(b *testing.B) {
	set := newBenchSet(b, wire.Protobuf, benchPods)
	s := newStore(b, decodeConfig())
	w := s.Writer(Scope{})
	set.fill(b, w)
	w.BeginReplace(false)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		check.NoError(b, w.Put(&set.metas[i%benchPods], set.raws[i%benchPods]))
	}
}

func BenchmarkGetDecoded(b *testing.B) {
	set := newBenchSet(b, wire.Protobuf, benchPods)
	s := newStore(b, decodeConfig())
	set.fill(b, s.Writer(Scope{}))
	for range 2 {
		for o := range s.Snapshot().All() {
			if _, err := o.Decoded(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		o, _ := s.Get(set.keys[i*7919%benchPods])
		if _, err := o.Decoded(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGetPacked(b *testing.B) {
	set := newBenchSet(b, wire.Protobuf, benchPods)
	s := newStore(b, decodeConfig())
	set.fill(b, s.Writer(Scope{}))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		o, _ := s.Get(set.keys[i*7919%benchPods])
		if _, err := o.Decoded(); err != nil {
			b.Fatal(err)
		}
		o.decoded.Store(nil)
	}
}

func BenchmarkLabel(b *testing.B) {
	set := newBenchSet(b, wire.Protobuf, benchPods)
	s := newStore(b, decodeConfig())
	set.fill(b, s.Writer(Scope{}))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		o, _ := s.Get(set.keys[i*7919%benchPods])
		o.Label("app")
	}
}

// BenchmarkCursor measures appending a change to the log and reading it with one cursor.
func BenchmarkCursor(b *testing.B) {
	set := newBenchSet(b, wire.Protobuf, benchPods)
	s := newStore(b, decodeConfig())
	w := s.Writer(Scope{})
	set.fill(b, w)
	c := s.Cursor()
	buf := make([]Change, 256)
	for c.Next(buf) > 0 {
	}
	o, _ := s.Get(set.keys[0])
	records := make([]Change, 64)
	for i := range records {
		records[i] = Change{Old: o, New: o}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%len(records) == 0 {
			s.log.append(records, 1, nil)
			for c.Next(buf) > 0 {
			}
		}
	}
}

// BenchmarkCursorLagging measures appending a change to a full log with a cursor that is not read.
func BenchmarkCursorLagging(b *testing.B) {
	set := newBenchSet(b, wire.Protobuf, benchPods)
	s := newStore(b, Config{Encoding: wire.Protobuf, LogBytes: 1})
	w := s.Writer(Scope{})
	set.fill(b, w)
	c := s.Cursor()
	defer c.Close()
	var records []Change
	for o := range s.Snapshot().All() {
		records = append(records, Change{Old: o, New: o})
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		at := i % benchPods
		s.log.append(records[at:at+1], 1, nil)
	}
}

// BenchmarkHeap reports the heap of a store of 50,000 pods, per pod and in total. Then it deletes
// all but 500 pods, and reports the heap again.
func BenchmarkHeap(b *testing.B) {
	for _, enc := range []wire.Encoding{wire.Protobuf, wire.JSON} {
		b.Run(enc.String(), func(b *testing.B) {
			podsim.Encode(enc.String(), podsim.New(1, 1).Pod(0)) // fill the encoder's caches
			for b.Loop() {
				before := testenv.LiveBytes()
				s := newStore(b, Config{Encoding: enc})
				w := s.Writer(Scope{})
				sim := podsim.New(50_000, 1)
				w.BeginReplace(false)
				var m wire.Meta
				for i := range sim.Len() {
					raw := podsim.Encode(enc.String(), sim.Pod(i))
					check.NoError(b, wire.ReadMeta(enc, raw, &m))
					check.NoError(b, w.Put(&m, raw))
				}
				w.EndReplace("1")
				full := testenv.LiveBytes() - before
				b.ReportMetric(float64(full)/1e6, "MB")
				b.ReportMetric(float64(full)/50_000, "B/object")
				b.Log("\n" + s.Memory().String())
				w.BeginReplace(false)
				for i := range sim.Len() {
					if i%100 != 0 {
						continue
					}
					raw := podsim.Encode(enc.String(), sim.Pod(i))
					check.NoError(b, wire.ReadMeta(enc, raw, &m))
					check.NoError(b, w.Put(&m, raw))
				}
				w.EndReplace("2")
				b.ReportMetric(100*float64(testenv.LiveBytes()-before)/float64(full), "%left")
				b.Log("\n" + s.Memory().String())
				runtime.KeepAlive(s)
			}
		})
	}
}

// BenchmarkManyCursors measures the time from one change until the last of a thousand cursors has
// returned it. A separate goroutine reads each cursor.
func BenchmarkManyCursors(b *testing.B) {
	set := newBenchSet(b, wire.Protobuf, benchPods)
	s := newStore(b, decodeConfig())
	w := s.Writer(Scope{})
	set.fill(b, w)
	const n = 1000
	var notified sync.WaitGroup
	var ready sync.WaitGroup
	ready.Add(n)
	for range n {
		c := s.Cursor()
		go func() {
			changes := make([]Change, 64)
			for synced := false; !c.Closed(); <-c.Ready() {
				for got := c.Next(changes); got > 0; got = c.Next(changes) {
					if synced {
						notified.Done()
					}
				}
				if !synced {
					synced = true
					ready.Done()
				}
			}
		}()
	}
	ready.Wait()
	for i := 0; b.Loop(); i++ {
		notified.Add(n)
		set.update(b, w, i)
		w.Flush()
		notified.Wait()
	}
}
