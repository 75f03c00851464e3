package lab

import (
	"github.com/weirproject/weir/internal/tools/chart"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// curve is what is drawn of a trace.
type curve struct {
	unit figures.Unit
	of   func(figures.Trace) []float64
}

var (
	residentMemory = curve{figures.Bytes, func(t figures.Trace) []float64 { return t.RSSBytes }}
	liveHeap       = curve{figures.Bytes, func(t figures.Trace) []float64 { return t.HeapBytes }}
	received       = curve{figures.Count, func(t figures.Trace) []float64 { return t.Events }}
	cpuSoFar       = curve{figures.Seconds, func(t figures.Trace) []float64 { return t.CPUSeconds }}
	callRate       = curve{figures.Count, func(t figures.Trace) []float64 { return differences(t.Events) }}
)

// differences returns the differences between neighbours. The first one is 0.
func differences(total []float64) []float64 {
	out := make([]float64, len(total))
	for i := 1; i < len(total); i++ {
		out[i] = total[i] - total[i-1]
	}
	return out
}

// lineOf returns the line that is drawn of a trace. It begins at the mark figures.Starts, if there
// is one.
func (c curve) lineOf(label string, t figures.Trace) chart.Line {
	at := c.of(t)
	for _, m := range t.Marks {
		if m.What == figures.Starts {
			at = at[min(int(m.Millis/t.EveryMillis), len(at)):]
			break
		}
	}
	return chart.NewLine(label, t.EveryMillis/1000, at)
}
