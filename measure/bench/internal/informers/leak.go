package informers

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/internal/tools/rusage"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// keepEach is which share of the objects outlives the leak's deletions: one in keepEach.
const keepEach = 100

func goroutines() int { return runtime.NumGoroutine() }

var leakVerb = Verb{
	Name: "leak", Runs: 1, modes: bothModes, measure: measureLeak, Stub: true, Takes: []string{TakesUnstructured},
	Short: "What is still held when all but 1 % of the objects are deleted",
	figures: []comparedFigure{
		{figures.New("restShare", "heap left ÷ full heap", figures.Number), lower},
		{figures.New("heapFullBytes", "heap with everything", figures.Bytes), lower},
		{figures.New("heapRestBytes", "heap with 1 % left", figures.Bytes), lower},
		{figures.New("objects", "objects before", figures.Count), neither},
		{figures.New("objectsRest", "objects after", figures.Count), neither},
		{figures.New("heapLeftBytes", "heap left after stop", figures.Bytes), neither},
		{figures.New("goroutinesLeft", "goroutines left after stop", figures.Count), neither},
	},
}

// measureLeak measures what is still held when all but a few objects, spread evenly, have been
// deleted: kubernetes issue 111370. Heaps are without what the process held before it listed
// anything.
func measureLeak(ctx context.Context, s *subject) (Figures, error) {
	if err := s.handle(0, s.count); err != nil {
		return nil, err
	}
	if err := s.sync(ctx); err != nil {
		return nil, err
	}
	full, objects := settledHeap(), s.len()
	s.tracer.Mark("99 % are deleted")
	if err := tell(ctx, s.Stub, order{Do: doRemove, Keep: keepEach}); err != nil {
		return nil, err
	}
	if _, err := waitSettled(ctx, s.Stub); err != nil {
		return nil, err
	}
	want := (objects + keepEach - 1) / keepEach
	for s.len() > want {
		if pause(ctx, 20*time.Millisecond); ctx.Err() != nil {
			return nil, fmt.Errorf("%d of %d objects are still held: %w", s.len(), want, ctx.Err())
		}
	}
	if err := s.settle(ctx, 500*time.Millisecond); err != nil {
		return nil, err
	}
	rest := settledHeap()
	f := Figures{
		"heapFullBytes": float64(full.bytes) - float64(s.begin.bytes),
		"heapRestBytes": float64(rest.bytes) - float64(s.begin.bytes),
		"objects":       float64(objects),
		"objectsRest":   float64(s.len()),
	}
	f["restShare"] = f["heapRestBytes"] / f["heapFullBytes"]
	return f, s.aftermath(ctx, f)
}

// blockedRate is how many events a second go past the blocked handler.
const blockedRate = 2000

var blockedVerb = Verb{
	Name: "blocked", Runs: 1, modes: []string{modeWatchList}, measure: measureBlocked, Stub: true, Duration: time.Minute,
	Short: "What a handler costs that never returns, under 2,000 updates a second",
	figures: []comparedFigure{
		{figures.New("growthBytes", "heap grown", figures.Bytes), lower},
		{figures.New("growthBytesPerKey", "heap grown per changed object", figures.Bytes), lower},
		{figures.New("growthShare", "heap grown ÷ heap when synced", figures.Number), lower},
		{figures.New("heapSyncedBytes", "heap when synced", figures.Bytes), lower},
		{figures.New("peakRSSBytes", "peak RSS", figures.Bytes), lower},
		{figures.New("events", "events received", figures.Count), neither},
		{figures.New("otherHandlerEvents", "events of the other handler", figures.Count), neither},
		{figures.New("objects", "objects held", figures.Count), neither},
		{figures.New("heapLeftBytes", "heap left after stop", figures.Bytes), neither},
		{figures.New("goroutinesLeft", "goroutines left after stop", figures.Count), neither},
	},
}

// measureBlocked measures what a handler costs that never returns while everything changes, and
// whether another handler suffers. Heaps are without what the process held before it listed
// anything.
func measureBlocked(ctx context.Context, s *subject) (Figures, error) {
	if err := s.handle(0, s.count); err != nil {
		return nil, err
	}
	release := make(chan struct{})
	var blocked atomic.Bool
	err := s.handle(0, func(kind eventKind, _ string) {
		if kind == updated {
			blocked.Store(true)
			<-release
		}
	})
	if err != nil {
		return nil, err
	}
	if err := s.sync(ctx); err != nil {
		return nil, err
	}
	before, seen, version := settledHeap(), s.events.Load(), s.version()
	s.tracer.Mark("updates begin")
	if err := tell(ctx, s.Stub, order{Do: doModify, Change: ChangeMix, Rate: blockedRate}); err != nil {
		return nil, err
	}
	pause(ctx, s.Duration)
	after := settledHeap()
	// A machine that is busy with other things takes a while.
	for blocked.Load() && s.version() == version && ctx.Err() == nil {
		pause(ctx, 10*time.Millisecond)
	}
	sent := s.version() - version
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !blocked.Load() {
		return nil, fmt.Errorf("the handler was told nothing in %s", s.Duration)
	}
	growth := float64(after.bytes) - float64(before.bytes)
	f := Figures{
		"heapSyncedBytes":    float64(before.bytes) - float64(s.begin.bytes),
		"growthBytes":        growth,
		"growthBytesPerKey":  growth / min(sent, float64(s.len())),
		"growthShare":        growth / (float64(before.bytes) - float64(s.begin.bytes)),
		"events":             sent,
		"otherHandlerEvents": float64(s.events.Load() - seen),
		"peakRSSBytes":       float64(rusage.PeakRSS()),
		"objects":            float64(s.len()),
	}
	close(release)
	return f, s.aftermath(ctx, f)
}
