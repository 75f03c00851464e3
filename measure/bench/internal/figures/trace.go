package figures

import (
	"sync"
	"time"
)

// Trace contains samples of a process, with EveryMillis milliseconds between two samples. The JSON
// names are stable.
type Trace struct {
	EveryMillis float64 `json:"everyMillis"`
	// RSSBytes is the resident set size. If the process samples itself and the system does not report
	// the size, RSSBytes is the memory that Go's runtime has obtained from the system.
	RSSBytes []float64 `json:"rssBytes"`
	// HeapBytes is the live heap after the last garbage collection. It is empty if another process
	// takes the samples.
	HeapBytes []float64 `json:"heapBytes,omitempty"`
	// CPUSeconds is the CPU time used so far. Events is the number of events that handlers or clients
	// have received so far.
	CPUSeconds []float64 `json:"cpuSeconds"`
	Events     []float64 `json:"events"`
	// Marks are named moments.
	Marks []Mark `json:"marks,omitempty"`
}

// Traced contains the figures and the trace of one side of a replay. The JSON names are stable.
type Traced struct {
	Label   string `json:"side"`
	Figures Values `json:"figures"`
	Trace   Trace  `json:"trace"`
}

// Mark is a named moment of a Trace.
type Mark struct {
	Millis float64 `json:"millis"`
	What   string  `json:"what"`
}

// Starts is the Mark at which the incident starts: an informer starts, or clients send their
// requests.
const Starts = "starts"

// Sample describes a process at one moment. CPU is all CPU time that the process has used.
type Sample struct {
	RSSBytes  float64
	HeapBytes float64 // below 0 if unknown
	CPU       time.Duration
	Events    float64
}

// maxSamples limits the number of samples in a trace.
const maxSamples = 8000

// Tracer takes the samples of a Trace, in one goroutine, from StartTrace until Stop. The methods of
// a nil Tracer do nothing.
type Tracer struct {
	take  func() Sample
	begin time.Time
	cpu   time.Duration // used before StartTrace
	done  chan struct{}
	ended chan struct{}

	mu    sync.Mutex
	trace Trace
}

// StartTrace starts a Tracer, which calls take for each sample. It never calls take concurrently.
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
	tick := time.Tick(every)
	for {
		due := int(time.Since(t.begin)/every) + 1
		if t.stopped() {
			t.sample(max(due, len(t.trace.RSSBytes)+1))
			return
		}
		t.sample(due)
		select {
		case <-tick:
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

// sample adds samples until the trace has as many samples as the parameter due says. If the machine
// was too busy to take some of the samples in time, sample adds the current sample several times.
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

// Mark records the current moment under a name.
func (t *Tracer) Mark(what string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trace.Marks = append(t.trace.Marks, Mark{millis(time.Since(t.begin)), what})
}

// Stop takes a last sample, even if it is late, and returns the trace. Later calls return the same
// trace. Stop is not safe for concurrent use.
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
