package informers

import (
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/internal/rusage"
)

// Trace is what the process of a contender used over time: samples, EveryMillis apart. The JSON
// names are a promise.
type Trace struct {
	EveryMillis float64 `json:"everyMillis"`
	// RSSBytes is the resident set; where the system does not tell it, the memory that Go's runtime
	// has of the system.
	RSSBytes []float64 `json:"rssBytes"`
	// HeapBytes is the live heap that the last garbage collection found.
	HeapBytes []float64 `json:"heapBytes"`
	// CPUSeconds is the CPU time, and Events what the handlers were told, so far.
	CPUSeconds []float64 `json:"cpuSeconds"`
	Events     []float64 `json:"events"`
	// Marks are moments that have a name.
	Marks []Mark `json:"marks,omitempty"`
}

// Mark is a moment of a Trace.
type Mark struct {
	Millis float64 `json:"millis"`
	What   string  `json:"what"`
}

// MarkStarts is the Mark of the moment at which the informer starts.
const MarkStarts = "starts"

// maxSamples bounds a trace.
const maxSamples = 8000

// tracer takes the samples of a Trace. One goroutine does so, from newTracer until stop. A nil
// tracer takes none.
type tracer struct {
	begin  time.Time
	events *atomic.Int64
	cpu    time.Duration // that was used before
	done   chan struct{}
	ended  chan struct{}

	mu    sync.Mutex
	trace Trace
}

func newTracer(every time.Duration, events *atomic.Int64) *tracer {
	t := &tracer{
		begin: time.Now(), events: events, cpu: rusage.CPUTime(), done: make(chan struct{}), ended: make(chan struct{}),
		trace: Trace{EveryMillis: millis(every)},
	}
	go t.run(every)
	return t
}

func (t *tracer) run(every time.Duration) {
	defer close(t.ended)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		t.sample(int(time.Since(t.begin)/every) + 1)
		select {
		case <-tick.C:
		case <-t.done:
			t.sample(len(t.trace.RSSBytes) + 1)
			return
		}
	}
}

// sample adds samples until there are so many: the same one several times if the machine was too
// busy to take them in time.
func (t *tracer) sample(due int) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.trace
	for len(s.RSSBytes) < min(due, maxSamples) {
		s.RSSBytes = append(s.RSSBytes, resident())
		s.HeapBytes = append(s.HeapBytes, float64(live[0].Value.Uint64()))
		s.CPUSeconds = append(s.CPUSeconds, (rusage.CPUTime() - t.cpu).Seconds())
		s.Events = append(s.Events, float64(t.events.Load()))
	}
}

// mark names the moment.
func (t *tracer) mark(what string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trace.Marks = append(t.trace.Marks, Mark{millis(time.Since(t.begin)), what})
}

// stop ends the samples. More calls do nothing.
func (t *tracer) stop() {
	if t == nil {
		return
	}
	select {
	case <-t.done:
	default:
		close(t.done)
	}
	<-t.ended
}

func millis(d time.Duration) float64 { return d.Seconds() * 1000 }

// resident is the resident set, or what comes nearest.
func resident() float64 {
	if n, ok := rusage.RSS(); ok {
		return float64(n)
	}
	m := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(m)
	return float64(m[0].Value.Uint64() - m[1].Value.Uint64())
}
