package informers

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/weirproject/weir/internal/tools/process"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// warmUp is the time from the first events until the measurement starts. If the measurement is
// shorter, the warm-up is as short as the measurement.
const warmUp = time.Second

var watchVerb = Verb{
	Name: "watch", Runs: 3, modes: bothModes, measure: measureWatch, Stub: true, Duration: 5 * time.Second,
	Takes: []string{TakesUnstructured, TakesCustom, TakesTransform, TakesUnwrapped, TakesHandlers, TakesChange}, more: slices.Concat(rolloutFigures, changeFigures()),
	Short: "Watch events per second that reach a handler",
	figures: []figures.Figure{
		figures.Higher("eventsPerSecond", "events handled per second", figures.Count),
		figures.Higher("receivedPerSecond", "events received per second", figures.Count),
		figures.New("coalescedShare", "events merged into later ones ÷ sent", figures.Number),
		figures.Lower("cpuMicrosPerEvent", "CPU per event handled", figures.Micros),
		figures.Lower("allocBytesPerEvent", "allocated per event handled", figures.Bytes),
		figures.Lower("peakRSSBytes", "peak RSS", figures.Bytes),
		figures.Lower("syncPeakRSSBytes", "peak RSS until the sync", figures.Bytes),
		figures.Lower("heapBytes", "heap after GC, after the changes", figures.Bytes),
		figures.New("objects", "stored objects", figures.Count),
	},
}

// measureWatch measures how many events per second reach handlers, for each kind of change in turn.
// A figure without a kind in its name is of the first kind. Figures of memory are of all kinds
// together.
func measureWatch(ctx context.Context, s *subject) Figures {
	h := s.count
	if slices.Contains(s.Changes, ChangeLifecycle) {
		h = s.countAndTime
	}
	s.handleAll(h)
	s.sync(ctx)
	synced := process.PeakRSS()
	f := Figures{}
	for i, change := range s.Changes {
		one := s.follow(ctx, change)
		if i == 0 {
			maps.Copy(f, one)
		}
		if len(s.Changes) > 1 {
			f[change+"EventsPerSecond"], f[change+"CPUMicrosPerEvent"] = one["eventsPerSecond"], one["cpuMicrosPerEvent"]
		}
	}
	f["peakRSSBytes"], f["syncPeakRSSBytes"] = float64(process.PeakRSS()), float64(synced)
	f["heapBytes"], f["objects"] = heapBytes(), float64(s.len())
	return f
}

// follow measures a stream of changes until the handlers have received all of it: the rate of the
// events during s.Duration, and the cost of each event.
func (s *subject) follow(ctx context.Context, change string) Figures {
	if change == ChangeLifecycle {
		return s.followRollouts(ctx)
	}
	from, received := s.caughtUp(ctx), s.events.Load()
	s.tell(ctx, order{Do: doModify, Change: change})
	pause(ctx, min(warmUp, s.Duration))
	start, first := now(s.events.Load()), s.version()
	pause(ctx, s.Duration)
	// Events may arrive later on a busy machine.
	s.await(ctx, "no event of "+change+" was received", func() bool { return s.events.Load() != start.events && s.version() != first })
	while, last := s.since(start), s.version()
	s.tell(ctx, order{Do: doHold})
	to := s.caughtUp(ctx)
	all := s.since(start)
	// This number of events would reach the handlers if none were merged with a later one.
	sent := float64(to-from) * float64(max(1, s.Handlers))
	return Figures{
		"eventsPerSecond":    while.events / while.elapsed.Seconds(),
		"receivedPerSecond":  (last - first) / while.elapsed.Seconds(),
		"coalescedShare":     1 - float64(s.events.Load()-received)/sent,
		"cpuMicrosPerEvent":  micros(all.cpu) / all.events,
		"allocBytesPerEvent": all.alloc / all.events,
	}
}

// followAll measures a stream of changes that each of several informers receives. The figures count
// the events of all handlers of all informers. followAll measures until the handlers have received
// all events, because client-go queues events for slow handlers.
func (s *subject) followAll(ctx context.Context, change string) Figures {
	s.settled(ctx)
	s.tell(ctx, order{Do: doModify, Change: change})
	pause(ctx, min(warmUp, s.Duration))
	start := now(s.events.Load())
	pause(ctx, s.Duration)
	s.await(ctx, "no event was received", func() bool { return s.events.Load() != start.events })
	s.tell(ctx, order{Do: doHold})
	s.settle(ctx)
	used := s.since(start)
	return Figures{"eventsPerSecond": used.events / (used.elapsed - quiet).Seconds(), "cpuMicrosPerEvent": micros(used.cpu) / used.events}
}

var relistVerb = Verb{
	Name: "relist", Runs: 3, modes: bothModes, measure: measureRelist, Stub: true, Takes: []string{TakesUnstructured},
	Short: "The cost of a relist in which nothing has changed",
	figures: []figures.Figure{
		figures.Lower("cpuSeconds", "CPU per relist", figures.Seconds),
		figures.Lower("allocBytes", "allocated per relist", figures.Bytes),
		figures.Lower("events", "events per relist", figures.Count),
		figures.Lower("peakRSSBytes", "peak RSS", figures.Bytes),
		figures.Lower("syncPeakRSSBytes", "peak RSS until the sync", figures.Bytes),
		figures.Lower("heapBytes", "heap after GC", figures.Bytes),
		figures.New("objects", "stored objects", figures.Count),
	},
}

// measureRelist measures the cost of a watch that ends with 410 when no object has changed.
func measureRelist(ctx context.Context, s *subject) Figures {
	s.handleAll(s.count)
	s.sync(ctx)
	synced := process.PeakRSS()
	settledHeap()
	start := now(s.events.Load())
	s.tracer.Mark("410 Expired")
	s.tell(ctx, order{Do: doExpire, Times: s.Relists})
	s.settled(ctx)
	used, n := s.since(start), float64(s.Relists)
	return Figures{
		"cpuSeconds":       used.cpu.Seconds() / n,
		"allocBytes":       used.alloc / n,
		"events":           used.events / n,
		"peakRSSBytes":     float64(process.PeakRSS()),
		"syncPeakRSSBytes": float64(synced),
		"heapBytes":        heapBytes(),
		"objects":          float64(s.len()),
	}
}
