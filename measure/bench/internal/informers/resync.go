package informers

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// bucket is the width of a bar in the histogram of deliveries of a resync.
const bucket = 100 * time.Millisecond

// resyncTries is the largest number of periods that are measured until one contains a resync. On a
// stalled machine a period may contain none.
const resyncTries = 5

var resyncVerb = Verb{
	Name: "resync", Runs: 1, modes: []string{modeWatchList}, measure: measureResync,
	Short: "How evenly a resync reaches a handler",
	figures: []figures.Figure{
		figures.Lower("busiestOverMean", "busiest 100 ms ÷ mean", figures.Number),
		figures.Lower("busiestPer100Millis", "deliveries in the busiest 100 ms", figures.Count),
		figures.New("meanPer100Millis", "mean deliveries in 100 ms", figures.Number),
		figures.New("deliveries", "deliveries in one period", figures.Count),
		figures.New("objects", "stored objects", figures.Count),
		figures.Lower("requests", "requests made meanwhile", figures.Count),
		figures.Lower("cpuSeconds", "CPU in one period", figures.Seconds),
		figures.Lower("allocBytes", "allocated in one period", figures.Bytes),
	},
}

// measureResync measures how evenly the deliveries of one resync are distributed over a period. The
// period starts half a period after the sync, so that client-go's burst is in its middle.
func measureResync(ctx context.Context, s *subject) Figures {
	var mu sync.Mutex
	var received []time.Time
	figures.Check(s.handle(s.resyncPeriod(), func(kind eventKind, _ string) {
		if kind != resynced {
			return
		}
		s.events.Add(1)
		mu.Lock()
		defer mu.Unlock()
		received = append(received, time.Now())
	}))
	s.sync(ctx)
	pause(ctx, s.Period/2)
	for range resyncTries {
		requests, start := s.meter.requests.Load(), now(0)
		pause(ctx, s.Period)
		used := s.since(start)
		figures.Check(ctx.Err())
		mu.Lock()
		bars, deliveries, busiest := histogram(received, start.at, s.Period)
		received = nil
		mu.Unlock()
		if deliveries == 0 {
			continue
		}
		mean := float64(deliveries) / float64(bars)
		return Figures{
			"busiestOverMean":     float64(busiest) / mean,
			"busiestPer100Millis": float64(busiest),
			"meanPer100Millis":    mean,
			"deliveries":          float64(deliveries),
			"objects":             float64(s.len()),
			"requests":            float64(s.meter.requests.Load() - requests),
			"cpuSeconds":          used.cpu.Seconds(),
			"allocBytes":          used.alloc,
		}
	}
	figures.Check(errors.New("nothing was resynced"))
	return nil
}

// histogram counts events by the buckets of a period. It returns the number of buckets, the number
// of events in all buckets, and the number of events in the fullest bucket.
func histogram(events []time.Time, start time.Time, period time.Duration) (bars, sum, busiest int) {
	counts := make([]int, max(1, int(period/bucket)))
	for _, at := range events {
		since := at.Sub(start)
		if i := int(since / bucket); since >= 0 && i < len(counts) {
			counts[i]++
			sum++
		}
	}
	return len(counts), sum, slices.Max(counts)
}

// resyncPeriod returns the resync period of the informer and its handlers.
func (s *spec) resyncPeriod() time.Duration {
	if s.Stretch == 0 {
		return s.Period
	}
	return time.Duration(s.Stretch * float64(s.Period))
}
