package informers

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// bucket is the width of a bar of the histogram of resync deliveries.
const bucket = 100 * time.Millisecond

// histogram counts events by when they came.
type histogram struct {
	mu    sync.Mutex
	begin time.Time
	bars  []int
}

func newHistogram(begin time.Time, length time.Duration) *histogram {
	return &histogram{begin: begin, bars: make([]int, max(1, int(length/bucket)))}
}

// add counts an event that came at a time, unless that is outside the bars.
func (h *histogram) add(at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	since := at.Sub(h.begin)
	if i := int(since / bucket); since >= 0 && i < len(h.bars) {
		h.bars[i]++
	}
}

// summary returns the sum of the bars and the highest bar.
func (h *histogram) summary() (sum, busiest int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.bars {
		sum += n
		busiest = max(busiest, n)
	}
	return sum, busiest
}

// resyncTries is how many periods are tried at most, until something is resynced in one: a machine
// that stalls may sleep through one.
const resyncTries = 5

var resyncVerb = Verb{
	Name: "resync", Runs: 1, modes: []string{modeWatchList}, measure: measureResync,
	Short: "How evenly a resync reaches a handler",
	figures: []comparedFigure{
		{figures.New("busiestOverMean", "busiest 100 ms ÷ mean", figures.Number), lower},
		{figures.New("busiestPer100Millis", "deliveries in the busiest 100 ms", figures.Count), lower},
		{figures.New("meanPer100Millis", "mean deliveries in 100 ms", figures.Number), neither},
		{figures.New("deliveries", "deliveries in one period", figures.Count), neither},
		{figures.New("objects", "objects held", figures.Count), neither},
		{figures.New("requests", "requests made meanwhile", figures.Count), lower},
		{figures.New("cpuSeconds", "CPU in one period", figures.Seconds), lower},
		{figures.New("allocBytes", "allocated in one period", figures.Bytes), lower},
	},
}

// measureResync measures how evenly one resync comes: over a whole period that begins half a period
// after the sync, so that client-go's burst is in the middle.
func measureResync(ctx context.Context, s *subject) (Figures, error) {
	var mu sync.Mutex
	var h *histogram // nil until the period begins
	err := s.handle(s.resyncPeriod(), func(kind eventKind, _ string) {
		if kind != resynced {
			return
		}
		s.events.Add(1)
		at := time.Now()
		mu.Lock()
		defer mu.Unlock()
		if h != nil {
			h.add(at)
		}
	})
	if err != nil {
		return nil, err
	}
	if err := s.sync(ctx); err != nil {
		return nil, err
	}
	pause(ctx, s.Period/2)
	for range resyncTries {
		f, err := s.resyncs(ctx, func(period *histogram) {
			mu.Lock()
			defer mu.Unlock()
			h = period
		})
		if err != nil || f["deliveries"] > 0 {
			return f, err
		}
	}
	return nil, errors.New("nothing was resynced")
}

// resyncs measures the period that begins now. It calls count with the histogram in which the
// period's events are to be counted.
func (s *subject) resyncs(ctx context.Context, count func(*histogram)) (Figures, error) {
	requests := s.meter.requests.Load()
	begin := now(0)
	h := newHistogram(begin.at, s.Period)
	count(h)
	pause(ctx, s.Period)
	_, cpu, alloc, _ := s.since(begin)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	sum, busiest := h.summary()
	mean := float64(sum) / float64(len(h.bars))
	return Figures{
		"busiestOverMean":     float64(busiest) / mean,
		"busiestPer100Millis": float64(busiest),
		"meanPer100Millis":    mean,
		"deliveries":          float64(sum),
		"objects":             float64(s.len()),
		"requests":            float64(s.meter.requests.Load() - requests),
		"cpuSeconds":          cpu.Seconds(),
		"allocBytes":          alloc,
	}, nil
}

// resyncPeriod returns the resync period of the informer and its handlers.
func (s *spec) resyncPeriod() time.Duration {
	if s.Stretch == 0 {
		return s.Period
	}
	return time.Duration(s.Stretch * float64(s.Period))
}
