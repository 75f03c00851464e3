package informers

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/internal/tools/process"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// keepEach determines the share of objects that are not deleted: one in keepEach.
const keepEach = 100

var leakVerb = Verb{
	Name: "leak", Runs: 1, modes: bothModes, measure: measureLeak, Stub: true, Takes: []string{TakesUnstructured},
	Short: "Memory after all but 1 % of the objects were deleted",
	figures: []figures.Figure{
		figures.Lower("restShare", "heap left ÷ full heap", figures.Number),
		figures.Lower("heapFullBytes", "heap with everything", figures.Bytes),
		figures.Lower("heapRestBytes", "heap with 1 % left", figures.Bytes),
		figures.New("objects", "objects before", figures.Count),
		figures.New("objectsRest", "objects after", figures.Count),
		figures.New("heapLeftBytes", "heap left after stop", figures.Bytes),
		figures.New("goroutinesLeft", "goroutines left after stop", figures.Count),
	},
}

// measureLeak measures the memory that remains in use after most objects have been deleted
// (kubernetes issue 111370). The objects that remain are spread evenly. Heaps do not include what
// the process used before the first list.
func measureLeak(ctx context.Context, s *subject) Figures {
	s.handleAll(s.count)
	s.sync(ctx)
	full, objects := s.grown(), s.len()
	s.tracer.Mark("99 % are deleted")
	s.tell(ctx, order{Do: doRemove, Keep: keepEach})
	s.settled(ctx)
	want := (objects + keepEach - 1) / keepEach
	s.await(ctx, fmt.Sprintf("more than %d objects are stored", want), func() bool { return s.len() <= want })
	s.settle(ctx)
	rest := s.grown()
	f := Figures{
		"heapFullBytes": full, "heapRestBytes": rest, "restShare": rest / full,
		"objects": float64(objects), "objectsRest": float64(s.len()),
	}
	s.aftermath(ctx, f)
	return f
}

// blockedRate is the number of events per second while the handler is blocked.
const blockedRate = 2000

var blockedVerb = Verb{
	Name: "blocked", Runs: 1, modes: []string{modeWatchList}, measure: measureBlocked, Stub: true, Duration: time.Minute,
	Short: "The cost of a handler that never returns, with 2,000 updates per second",
	figures: []figures.Figure{
		figures.Lower("growthBytes", "heap grown", figures.Bytes),
		figures.Lower("growthBytesPerKey", "heap grown per changed object", figures.Bytes),
		figures.Lower("growthShare", "heap grown ÷ heap when synced", figures.Number),
		figures.Lower("heapSyncedBytes", "heap when synced", figures.Bytes),
		figures.Lower("peakRSSBytes", "peak RSS", figures.Bytes),
		figures.New("events", "events received", figures.Count),
		figures.New("otherHandlerEvents", "events of the other handler", figures.Count),
		figures.New("objects", "stored objects", figures.Count),
		figures.New("heapLeftBytes", "heap left after stop", figures.Bytes),
		figures.New("goroutinesLeft", "goroutines left after stop", figures.Count),
	},
}

// measureBlocked measures the cost of a handler that blocks while all objects change, and whether
// another handler still receives all events. Heaps do not include what the process used before the
// first list.
func measureBlocked(ctx context.Context, s *subject) Figures {
	s.handleAll(s.count)
	release := make(chan struct{})
	var blocked atomic.Bool
	figures.Check(s.handle(0, func(kind eventKind, _ string) {
		if kind == updated {
			blocked.Store(true)
			<-release
		}
	}))
	s.sync(ctx)
	before, seen, version := s.grown(), s.events.Load(), s.version()
	s.tracer.Mark("updates begin")
	s.tell(ctx, order{Do: doModify, Change: ChangeMix, Rate: blockedRate})
	pause(ctx, s.Duration)
	after := s.grown()
	figures.Require(blocked.Load(), fmt.Errorf("the handler received nothing in %s", s.Duration))
	// Updates may arrive later on a busy machine.
	s.await(ctx, "no update was received", func() bool { return s.version() != version })
	sent := s.version() - version
	f := Figures{
		"heapSyncedBytes":    before,
		"growthBytes":        after - before,
		"growthBytesPerKey":  (after - before) / min(sent, float64(s.len())),
		"growthShare":        (after - before) / before,
		"events":             sent,
		"otherHandlerEvents": float64(s.events.Load() - seen),
		"peakRSSBytes":       float64(process.PeakRSS()),
		"objects":            float64(s.len()),
	}
	close(release)
	s.aftermath(ctx, f)
	return f
}
