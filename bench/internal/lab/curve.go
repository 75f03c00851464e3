package lab

import (
	"github.com/weirproject/weir/bench/internal/figures"
	"github.com/weirproject/weir/bench/internal/trace"
)

// curve is what is drawn of a trace.
type curve struct {
	unit figures.Unit
	of   func(trace.Trace) []float64
}

var (
	residentMemory = curve{figures.Bytes, func(t trace.Trace) []float64 { return t.RSSBytes }}
	liveHeap       = curve{figures.Bytes, func(t trace.Trace) []float64 { return t.HeapBytes }}
	received       = curve{figures.Count, func(t trace.Trace) []float64 { return t.Events }}
	cpuSoFar       = curve{figures.Seconds, func(t trace.Trace) []float64 { return t.CPUSeconds }}
	callRate       = curve{figures.Count, func(t trace.Trace) []float64 { return differences(t.Events) }}
)

// differences are those between neighbours.
func differences(total []float64) []float64 {
	out := make([]float64, len(total))
	for i := 1; i < len(total); i++ {
		out[i] = total[i] - total[i-1]
	}
	return out
}

// line is a curve of one side, ready to be drawn: a point every so many seconds, from the moment at
// which the informer starts.
type line struct {
	label string
	every float64
	at    []float64
	peak  float64
}

// lineOf cuts off what was before the informer started.
func (c curve) lineOf(label string, t trace.Trace) line {
	at := c.of(t)
	for _, m := range t.Marks {
		if m.What == trace.Starts {
			at = at[min(int(m.Millis/t.EveryMillis), len(at)):]
			break
		}
	}
	l := line{label: label, every: t.EveryMillis / 1000, at: at}
	for _, v := range at {
		l.peak = max(l.peak, v)
	}
	return l
}

// seconds is how long the line is.
func (l line) seconds() float64 { return l.every * float64(max(0, len(l.at)-1)) }
