package figures

import (
	"sync"
	"time"
)

// Trace is what a process used over time: samples, EveryMillis apart. The JSON names are a promise.
type Trace struct {
	EveryMillis float64 `json:"everyMillis"`
	// RSSBytes is the resident set; of a process that samples itself where the system does not tell
	// it, the memory that Go's runtime has of the system.
	RSSBytes []float64 `json:"rssBytes"`
	// HeapBytes is the live heap that the last garbage collection found; none of a process that is
	// looked at from outside.
	HeapBytes []float64 `json:"heapBytes,omitempty"`
	// CPUSeconds is the CPU time, and Events what handlers or clients were told, so far.
	CPUSeconds []float64 `json:"cpuSeconds"`
	Events     []float64 `json:"events"`
	// Marks are moments that have a name.
	Marks []Mark `json:"marks,omitempty"`
}

// Traced is what one side of a replay was measured to do, in figures and over time. The JSON names
// are a promise.
type Traced struct {
	Label   string `json:"side"`
	Figures Values `json:"figures"`
	Trace   Trace  `json:"trace"`
}

// Mark is a moment of a Trace.
type Mark struct {
	Millis float64 `json:"millis"`
	What   string  `json:"what"`
}

// Starts is the Mark of the moment at which the incident begins: an informer starts, clients ask.
const Starts = "starts"

// Sample is what a process uses at one moment. CPU is all that it has used ever.
type Sample struct {
	RSSBytes  float64
	HeapBytes float64 // below 0: not known
	CPU       time.Duration
	Events    float64
}

// maxSamples bounds a trace.
const maxSamples = 8000

// Tracer takes the samples of a Trace. One goroutine does so, from StartTrace until Stop. A nil
// Tracer takes none.
type Tracer struct {
	take  func() Sample
	begin time.Time
	cpu   time.Duration // that was used before
	done  chan struct{}
	ended chan struct{}

	mu    sync.Mutex
	trace Trace
}

// StartTrace begins to take samples. take is called from one goroutine at a time.
func StartTrace(every time.Duration, take func() Sample) *Tracer {
	t := &Tracer{
		take: take, cpu: take().CPU, begin: time.Now(), done: make(chan struct{}), ended: make(chan struct{}),
		trace: Trace{EveryMillis: millis(every)},
	}
	go t.run(every)
	return t
}

func (t *Tracer) run(every time.Duration) {
	defer close(t.ended)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		due := int(time.Since(t.begin)/every) + 1
		if t.stopped() {
			t.sample(max(due, len(t.trace.RSSBytes)+1))
			return
		}
		t.sample(due)
		select {
		case <-tick.C:
		case <-t.done:
		}
	}
}

func (t *Tracer) stopped() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// sample adds samples until there are as many as are due. It adds the same one several times if the
// machine was too busy to take them in time.
func (t *Tracer) sample(due int) {
	now := t.take()
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.trace
	for len(s.RSSBytes) < min(due, maxSamples) {
		s.RSSBytes = append(s.RSSBytes, now.RSSBytes)
		if now.HeapBytes >= 0 {
			s.HeapBytes = append(s.HeapBytes, now.HeapBytes)
		}
		s.CPUSeconds = append(s.CPUSeconds, (now.CPU - t.cpu).Seconds())
		s.Events = append(s.Events, now.Events)
	}
}

// Mark names the moment.
func (t *Tracer) Mark(what string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trace.Marks = append(t.trace.Marks, Mark{millis(time.Since(t.begin)), what})
}

// Stop takes the last sample, however late, and returns the trace. More calls return the same; it
// is not for two goroutines at a time.
func (t *Tracer) Stop() *Trace {
	if t == nil {
		return nil
	}
	if !t.stopped() {
		close(t.done)
	}
	<-t.ended
	return &t.trace
}

func millis(d time.Duration) float64 { return d.Seconds() * 1000 }
