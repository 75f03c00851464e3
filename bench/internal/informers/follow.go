package informers

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/weirproject/weir/internal/resourceversion"
	"github.com/weirproject/weir/internal/rusage"
)

// warmUp is how long events flow before they are measured. A shorter measurement has a warm-up as
// short as itself.
const warmUp = time.Second

// measureWatch measures how many events a second reach handlers, for each kind of change in turn. A
// figure without a kind in its name is of the first kind. Those of memory are of all kinds.
func measureWatch(ctx context.Context, r *rig) (Figures, error) {
	if err := r.handleAll(0); err != nil {
		return nil, err
	}
	if err := r.sync(ctx); err != nil {
		return nil, err
	}
	synced := rusage.PeakRSS()
	f := Figures{}
	for i, change := range r.Changes {
		one, err := r.follow(ctx, change)
		if err != nil {
			return nil, fmt.Errorf("changes of %s: %w", change, err)
		}
		if i == 0 {
			maps.Copy(f, one)
		}
		if len(r.Changes) > 1 {
			f[change+"EventsPerSecond"], f[change+"CPUMicrosPerEvent"] = one["eventsPerSecond"], one["cpuMicrosPerEvent"]
		}
	}
	f["peakRSSBytes"], f["syncPeakRSSBytes"] = float64(rusage.PeakRSS()), float64(synced)
	f["heapBytes"], f["objects"] = float64(settledHeap().bytes), float64(r.len())
	return f, ctx.Err()
}

// follow measures a stream of changes: how fast they come for a while, and what each costs, until
// the handlers have caught up.
func (r *rig) follow(ctx context.Context, change string) (Figures, error) {
	from, err := r.caughtUp(ctx)
	if err != nil {
		return nil, err
	}
	told := r.events.Load()
	if err := tell(ctx, r.Stub, order{Do: doModify, Change: change}); err != nil {
		return nil, err
	}
	pause(ctx, min(warmUp, r.Duration))
	begin, first := now(r.events.Load()), r.version()
	pause(ctx, r.Duration)
	for r.events.Load() == begin.events || r.version() == first { // on a machine that is busy with other things
		if pause(ctx, 10*time.Millisecond); ctx.Err() != nil {
			return nil, fmt.Errorf("no event came: %w", ctx.Err())
		}
	}
	elapsed, _, _, events := r.since(begin)
	received := r.version() - first
	if err := tell(ctx, r.Stub, order{Do: doHold}); err != nil {
		return nil, err
	}
	to, err := r.caughtUp(ctx)
	if err != nil {
		return nil, err
	}
	_, cpu, alloc, handled := r.since(begin)
	sent := float64(to-from) * float64(max(1, r.Handlers)) // to all handlers, had none been merged with a later one
	return Figures{
		"eventsPerSecond":    events / elapsed.Seconds(),
		"receivedPerSecond":  received / elapsed.Seconds(),
		"coalescedShare":     1 - float64(r.events.Load()-told)/sent,
		"cpuMicrosPerEvent":  micros(cpu) / handled,
		"allocBytesPerEvent": alloc / handled,
	}, nil
}

// caughtUp waits until the stub sends nothing, the informer is where the stub has come, and its
// handlers are told nothing more. It returns the resourceVersion of that state.
func (r *rig) caughtUp(ctx context.Context) (int64, error) {
	to, err := waitSettled(ctx, r.Stub)
	if err != nil {
		return 0, err
	}
	for r.version() < float64(to) {
		if pause(ctx, 10*time.Millisecond); ctx.Err() != nil {
			return 0, fmt.Errorf("the informer is at %.0f, the stub at %d: %w", r.version(), to, ctx.Err())
		}
	}
	return to, r.settle(ctx, 500*time.Millisecond)
}

func micros(d time.Duration) float64 { return d.Seconds() * 1e6 }

// version returns the resourceVersion that the informer is at. A stub's grows by one with each
// event.
func (r *rig) version() float64 {
	return float64(resourceversion.Number(r.resourceVersion()))
}

// measureRelist measures what it costs when the watch answers 410 and nothing has changed.
func measureRelist(ctx context.Context, r *rig) (Figures, error) {
	if err := r.handle(0, r.count); err != nil {
		return nil, err
	}
	if err := r.sync(ctx); err != nil {
		return nil, err
	}
	synced := rusage.PeakRSS()
	settledHeap()
	begin := now(r.events.Load())
	r.tracer.Mark("410 Expired")
	if err := tell(ctx, r.Stub, order{Do: doExpire, Times: r.Relists}); err != nil {
		return nil, err
	}
	if _, err := waitSettled(ctx, r.Stub); err != nil {
		return nil, err
	}
	if err := r.settle(ctx, 500*time.Millisecond); err != nil {
		return nil, err
	}
	_, cpu, alloc, events := r.since(begin)
	n := float64(r.Relists)
	return Figures{
		"cpuSeconds":       cpu.Seconds() / n,
		"allocBytes":       alloc / n,
		"events":           events / n,
		"peakRSSBytes":     float64(rusage.PeakRSS()),
		"syncPeakRSSBytes": float64(synced),
		"heapBytes":        float64(settledHeap().bytes),
		"objects":          float64(r.len()),
	}, nil
}
