package informers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/tools/rusage"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// warmUp is how long events flow before they are measured. A shorter measurement has a warm-up as
// short as itself.
const warmUp = time.Second

var watchVerb = Verb{
	Name: "watch", Runs: 3, modes: bothModes, measure: measureWatch, Stub: true, Duration: 5 * time.Second,
	Takes: []string{TakesUnstructured, TakesCustom, TakesTransform, TakesUnwrapped, TakesHandlers, TakesChange}, more: slices.Concat(rolloutFigures, changeFigures()),
	Short: "How many watch events a second reach a handler",
	figures: []comparedFigure{
		{figures.New("eventsPerSecond", "events handled a second", figures.Count), higher},
		{figures.New("receivedPerSecond", "events received a second", figures.Count), higher},
		{figures.New("coalescedShare", "events merged into later ones ÷ sent", figures.Number), neither},
		{figures.New("cpuMicrosPerEvent", "CPU per event handled", figures.Micros), lower},
		{figures.New("allocBytesPerEvent", "allocated per event handled", figures.Bytes), lower},
		{figures.New("peakRSSBytes", "peak RSS", figures.Bytes), lower},
		{figures.New("syncPeakRSSBytes", "peak RSS until the sync", figures.Bytes), lower},
		{figures.New("heapBytes", "heap after GC, changes over", figures.Bytes), lower},
		{figures.New("objects", "objects held", figures.Count), neither},
	},
}

// measureWatch measures how many events a second reach handlers, for each kind of change in turn. A
// figure without a kind in its name is of the first kind. Those of memory are of all kinds.
func measureWatch(ctx context.Context, s *subject) (Figures, error) {
	h := s.count
	if slices.Contains(s.Changes, ChangeLifecycle) {
		h = s.countAndTime
	}
	if err := s.handleAll(h); err != nil {
		return nil, err
	}
	if err := s.sync(ctx); err != nil {
		return nil, err
	}
	synced := rusage.PeakRSS()
	f := Figures{}
	for i, change := range s.Changes {
		one, err := s.follow(ctx, change)
		if err != nil {
			return nil, fmt.Errorf("changes of %s: %w", change, err)
		}
		if i == 0 {
			maps.Copy(f, one)
		}
		if len(s.Changes) > 1 {
			f[change+"EventsPerSecond"], f[change+"CPUMicrosPerEvent"] = one["eventsPerSecond"], one["cpuMicrosPerEvent"]
		}
	}
	f["peakRSSBytes"], f["syncPeakRSSBytes"] = float64(rusage.PeakRSS()), float64(synced)
	f["heapBytes"], f["objects"] = float64(settledHeap().bytes), float64(s.len())
	return f, ctx.Err()
}

// follow measures a stream of changes: how fast they come for a while, and what each costs, until
// the handlers have caught up.
func (s *subject) follow(ctx context.Context, change string) (Figures, error) {
	if change == ChangeLifecycle {
		return s.followRollouts(ctx)
	}
	from, err := s.caughtUp(ctx)
	if err != nil {
		return nil, err
	}
	told := s.events.Load()
	if err := tell(ctx, s.Stub, order{Do: doModify, Change: change}); err != nil {
		return nil, err
	}
	pause(ctx, min(warmUp, s.Duration))
	begin, first := now(s.events.Load()), s.version()
	pause(ctx, s.Duration)
	// A machine that is busy with other things takes a while.
	for s.events.Load() == begin.events || s.version() == first {
		if pause(ctx, 10*time.Millisecond); ctx.Err() != nil {
			return nil, fmt.Errorf("no event came: %w", ctx.Err())
		}
	}
	elapsed, _, _, events := s.since(begin)
	received := s.version() - first
	if err := tell(ctx, s.Stub, order{Do: doHold}); err != nil {
		return nil, err
	}
	to, err := s.caughtUp(ctx)
	if err != nil {
		return nil, err
	}
	_, cpu, alloc, handled := s.since(begin)
	// These are the events sent to all handlers, had none been merged with a later one.
	sent := float64(to-from) * float64(max(1, s.Handlers))
	return Figures{
		"eventsPerSecond":    events / elapsed.Seconds(),
		"receivedPerSecond":  received / elapsed.Seconds(),
		"coalescedShare":     1 - float64(s.events.Load()-told)/sent,
		"cpuMicrosPerEvent":  micros(cpu) / handled,
		"allocBytesPerEvent": alloc / handled,
	}, nil
}

// followAll measures a stream of changes, the same to each of several informers. It sets the
// figures, of the events that all handlers of all informers get together, until they have got all
// that was sent: client-go queues what its handlers are behind with.
func (s *subject) followAll(ctx context.Context, change string, f Figures) error {
	const quiet = 500 * time.Millisecond
	if _, err := waitSettled(ctx, s.Stub); err != nil {
		return err
	}
	if err := s.settle(ctx, quiet); err != nil {
		return err
	}
	if err := tell(ctx, s.Stub, order{Do: doModify, Change: change}); err != nil {
		return err
	}
	pause(ctx, min(warmUp, s.Duration))
	begin := now(s.events.Load())
	pause(ctx, s.Duration)
	for s.events.Load() == begin.events {
		if pause(ctx, 10*time.Millisecond); ctx.Err() != nil {
			return fmt.Errorf("no event came: %w", ctx.Err())
		}
	}
	if err := tell(ctx, s.Stub, order{Do: doHold}); err != nil {
		return err
	}
	if err := s.settle(ctx, quiet); err != nil {
		return err
	}
	elapsed, cpu, _, handled := s.since(begin)
	f["eventsPerSecond"], f["cpuMicrosPerEvent"] = handled/(elapsed-quiet).Seconds(), micros(cpu)/handled
	return nil
}

// caughtUp waits until the stub sends nothing, the informer is where the stub has come, and its
// handlers receive nothing more. It returns the resourceVersion of that state.
func (s *subject) caughtUp(ctx context.Context) (int64, error) {
	to, err := waitSettled(ctx, s.Stub)
	if err != nil {
		return 0, err
	}
	for s.version() < float64(to) {
		if pause(ctx, 10*time.Millisecond); ctx.Err() != nil {
			return 0, fmt.Errorf("the informer is at %.0f, the stub at %d: %w", s.version(), to, ctx.Err())
		}
	}
	return to, s.settle(ctx, 500*time.Millisecond)
}

func micros(d time.Duration) float64 { return d.Seconds() * 1e6 }

// version returns the resourceVersion that the informer is at. A stub's grows by one with each
// event.
func (s *subject) version() float64 {
	return float64(resourceversion.Number(s.resourceVersion()))
}

var relistVerb = Verb{
	Name: "relist", Runs: 3, modes: bothModes, measure: measureRelist, Stub: true, Takes: []string{TakesUnstructured},
	Short: "What a relist costs when nothing has changed",
	figures: []comparedFigure{
		{figures.New("cpuSeconds", "CPU per relist", figures.Seconds), lower},
		{figures.New("allocBytes", "allocated per relist", figures.Bytes), lower},
		{figures.New("events", "events per relist", figures.Count), lower},
		{figures.New("peakRSSBytes", "peak RSS", figures.Bytes), lower},
		{figures.New("syncPeakRSSBytes", "peak RSS until the sync", figures.Bytes), lower},
		{figures.New("heapBytes", "heap after GC", figures.Bytes), lower},
		{figures.New("objects", "objects held", figures.Count), neither},
	},
}

// measureRelist measures what it costs when the watch answers 410 and nothing has changed.
func measureRelist(ctx context.Context, s *subject) (Figures, error) {
	if err := s.handle(0, s.count); err != nil {
		return nil, err
	}
	if err := s.sync(ctx); err != nil {
		return nil, err
	}
	synced := rusage.PeakRSS()
	settledHeap()
	begin := now(s.events.Load())
	s.tracer.Mark("410 Expired")
	if err := tell(ctx, s.Stub, order{Do: doExpire, Times: s.Relists}); err != nil {
		return nil, err
	}
	if _, err := waitSettled(ctx, s.Stub); err != nil {
		return nil, err
	}
	if err := s.settle(ctx, 500*time.Millisecond); err != nil {
		return nil, err
	}
	_, cpu, alloc, events := s.since(begin)
	n := float64(s.Relists)
	return Figures{
		"cpuSeconds":       cpu.Seconds() / n,
		"allocBytes":       alloc / n,
		"events":           events / n,
		"peakRSSBytes":     float64(rusage.PeakRSS()),
		"syncPeakRSSBytes": float64(synced),
		"heapBytes":        float64(settledHeap().bytes),
		"objects":          float64(s.len()),
	}, nil
}
