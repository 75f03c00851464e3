package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// warmUp is how long a stream of events flows before it is measured.
const warmUp = time.Second

// measureWatch measures how many events a second reach a handler that takes keys.
func measureWatch(ctx context.Context, r *rig) (Figures, error) {
	if err := r.handle(0, r.count); err != nil {
		return nil, err
	}
	if err := r.sync(ctx); err != nil {
		return nil, err
	}
	synced := PeakRSS()
	if err := tell(ctx, r.Stub, order{Do: doModify, Change: ChangeMix}); err != nil {
		return nil, err
	}
	pause(ctx, warmUp)
	begin, first := now(r.events.Load()), r.version()
	pause(ctx, r.Duration)
	for r.events.Load() == begin.events || r.version() == first { // on a machine that is busy with other things
		if pause(ctx, 10*time.Millisecond); ctx.Err() != nil {
			return nil, fmt.Errorf("no event came: %w", ctx.Err())
		}
	}
	elapsed, cpu, alloc, events := r.since(begin)
	received := r.version() - first
	return Figures{
		"eventsPerSecond":    events / elapsed.Seconds(),
		"receivedPerSecond":  received / elapsed.Seconds(),
		"cpuMicrosPerEvent":  micros(cpu) / received,
		"allocBytesPerEvent": alloc / received,
		"peakRSSBytes":       float64(PeakRSS()),
		"syncPeakRSSBytes":   float64(synced),
		"objects":            float64(r.len()),
	}, nil
}

func micros(d time.Duration) float64 { return d.Seconds() * 1e6 }

// version is the resourceVersion that the informer is at. A stub's grows by one with each event.
func (r *rig) version() float64 {
	n, _ := strconv.ParseInt(r.resourceVersion(), 10, 64)
	return float64(n)
}

// measureRelist measures what it costs when the watch answers 410 and nothing has changed.
func measureRelist(ctx context.Context, r *rig) (Figures, error) {
	if err := r.handle(0, r.count); err != nil {
		return nil, err
	}
	if err := r.sync(ctx); err != nil {
		return nil, err
	}
	synced := PeakRSS()
	settledHeap()
	begin := now(r.events.Load())
	if err := tell(ctx, r.Stub, order{Do: doExpire, Times: r.Relists}); err != nil {
		return nil, err
	}
	if err := waitSettled(ctx, r.Stub); err != nil {
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
		"peakRSSBytes":     float64(PeakRSS()),
		"syncPeakRSSBytes": float64(synced),
		"heapBytes":        float64(settledHeap().bytes),
		"objects":          float64(r.len()),
	}, nil
}
