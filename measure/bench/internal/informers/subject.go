package informers

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/tools/process"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// subject is an informer, or a group of informers, that is ready to be measured. The methods that
// return no error end the measurement's attempt if they fail.
type subject struct {
	*spec
	informer
	reader // nil for a group
	meter  meter
	events atomic.Int64    // the number of events that handlers have received
	last   atomic.Int64    // when countAndTime was last called, in nanoseconds since 1970
	tracer *figures.Tracer // nil if there is no trace

	start   usage
	begin   heap // before the first list
	threads int  // the number of goroutines before the first list
	stopped bool
}

func newSubject(cfg *rest.Config, s *spec) *subject {
	sub := &subject{spec: s}
	s.server = &weir.ServerGroup{}
	cfg = sub.meter.install(cfg)
	switch {
	case s.Side == sideExtract:
		sub.informer = newExtracted(cfg)
	case s.Side != sideClientgo && s.Side != sideWeir:
		figures.Check(fmt.Errorf("no such side: %q", s.Side))
	case s.manyKinds():
		sub.informer = newGroup(cfg, s)
	case s.Informers > 1:
		sub.informer = newMany(cfg, s)
	case s.Side == sideClientgo || s.DropIn:
		sub.informer = newShared(cfg, s)
	case s.Unstructured:
		sub.informer = newWeir[*unstructured.Unstructured](cfg, s, s.resource())
	case s.Custom:
		sub.informer = newWeir[*workload](cfg, s, s.resource())
	default:
		sub.informer = newWeir[*corev1.Pod](cfg, s, podsResource)
	}
	sub.reader, _ = sub.informer.(reader)
	return sub
}

// count is a handler that counts an event with a key.
func (s *subject) count(_ eventKind, key string) {
	if key != "" {
		s.events.Add(1)
	}
}

// handleAll registers a handler as many times as the options ask for.
func (s *subject) handleAll(h handler) {
	for range max(1, s.Handlers) {
		figures.Check(s.handle(0, h))
	}
}

// sync runs the informer and blocks until it has synced.
func (s *subject) sync(ctx context.Context) {
	s.begin, s.threads = settledHeap(), runtime.NumGoroutine()
	s.start = now(0)
	s.tracer.Mark(figures.Starts)
	s.run(ctx)
	figures.Check(s.waitSync(ctx))
	s.tracer.Mark("synced")
}

// stop stops the trace, and then the informer. Later calls do nothing.
func (s *subject) stop() error {
	s.tracer.Stop()
	if s.stopped {
		return nil
	}
	s.stopped = true
	err := s.informer.stop()
	s.meter.closeIdle()
	return err
}

// aftermath stops the informer and measures what remains of it.
func (s *subject) aftermath(ctx context.Context, f Figures) {
	figures.Check(s.stop())
	// Goroutines that end on their own may need a moment.
	left := runtime.NumGoroutine()
	for deadline := time.Now().Add(3 * time.Second); left > s.threads && time.Now().Before(deadline) && ctx.Err() == nil; left = runtime.NumGoroutine() {
		pause(ctx, 50*time.Millisecond)
	}
	s.informer, s.reader = nil, nil
	f["goroutinesLeft"] = float64(left - s.threads)
	f["heapLeftBytes"] = float64(settledHeap().bytes) - float64(s.begin.bytes)
}

// pause blocks for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// await blocks until done returns true. If ctx ends first, it ends the attempt with an error that
// contains the text in the parameter what.
func (s *subject) await(ctx context.Context, what string, done func() bool) {
	for !done() {
		pause(ctx, 10*time.Millisecond)
		figures.Check(ctx.Err(), what)
	}
}

// quiet is the time without events after which handlers count as having received all events.
const quiet = 500 * time.Millisecond

// settle blocks until the handlers have received no event for the time quiet.
func (s *subject) settle(ctx context.Context) {
	seen, at := s.events.Load(), time.Now()
	s.await(ctx, "events go on", func() bool {
		if n := s.events.Load(); n != seen {
			seen, at = n, time.Now()
		}
		return time.Since(at) >= quiet
	})
}

// tell sends an order to the stub.
func (s *subject) tell(ctx context.Context, o order) {
	figures.Check(tell(ctx, s.Stub, o))
}

// settled blocks until the stub has carried out its order, and then calls settle. It returns the
// resourceVersion of the last event that the stub has sent.
func (s *subject) settled(ctx context.Context) int64 {
	to := figures.Must(waitSettled(ctx, s.Stub))
	s.settle(ctx)
	return to
}

// caughtUp blocks until the stub has carried out its order, the informer has received all events,
// and the handlers receive no more. It returns the resourceVersion of that state.
func (s *subject) caughtUp(ctx context.Context) int64 {
	to := figures.Must(waitSettled(ctx, s.Stub))
	s.await(ctx, fmt.Sprintf("the informer has not reached resourceVersion %d", to), func() bool { return s.version() >= float64(to) })
	s.settle(ctx)
	return to
}

// version returns the resourceVersion of the informer. A stub increases it by one with each event.
func (s *subject) version() float64 {
	return float64(resourceversion.Number(s.resourceVersion()))
}

// timed calls f n times and returns the mean time of a call, in nanoseconds.
func (s *subject) timed(n int, f func(i int) error) float64 {
	start := time.Now()
	for i := range n {
		figures.Check(f(i))
	}
	return float64(time.Since(start).Nanoseconds()) / float64(max(n, 1))
}

// usage is what this process has used until a moment.
type usage struct {
	at     time.Time
	cpu    time.Duration
	alloc  uint64 // bytes allocated on the heap since the start
	events int64
}

// now returns what this process has used so far. events is the caller's count of events.
func now(events int64) usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{at: time.Now(), cpu: process.CPUTime(), alloc: m.TotalAlloc, events: events}
}

// used is the difference of two usages.
type used struct {
	elapsed, cpu  time.Duration
	alloc, events float64
}

// since returns what was used since u.
func (s *subject) since(u usage) used {
	n := now(s.events.Load())
	return used{n.at.Sub(u.at), n.cpu - u.cpu, float64(n.alloc - u.alloc), float64(n.events - u.events)}
}

func micros(d time.Duration) float64 { return d.Seconds() * 1e6 }

// heap is the size of the live heap after a garbage collection.
type heap struct{ bytes, objects uint64 }

// settledHeap collects garbage until a collection frees almost nothing, and returns the heap.
// Objects that pools, cleanups and weak pointers reference need several collections.
func settledHeap() heap {
	var m runtime.MemStats
	for before := uint64(math.MaxUint64); ; before = m.HeapAlloc {
		for range 2 {
			runtime.GC()
			time.Sleep(time.Millisecond) // for cleanups, which the runtime calls after the collection
		}
		runtime.ReadMemStats(&m)
		if m.HeapAlloc >= before-before/1000 {
			return heap{bytes: m.HeapAlloc, objects: m.HeapObjects}
		}
	}
}

func heapBytes() float64 { return float64(settledHeap().bytes) }

// grown returns the live heap in bytes, minus the heap before the first list.
func (s *subject) grown() float64 { return heapBytes() - float64(s.begin.bytes) }

// sample returns what this process uses now, as a sample of a trace.
func (s *subject) sample() figures.Sample {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return figures.Sample{
		RSSBytes: resident(), HeapBytes: float64(live[0].Value.Uint64()), CPU: process.CPUTime(), Events: float64(s.events.Load()),
	}
}

// resident returns the resident set size in bytes. If the system does not report it, it returns the
// memory that Go's runtime has obtained and not released.
func resident() float64 {
	if n, ok := process.RSS(); ok {
		return float64(n)
	}
	m := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(m)
	return float64(m[0].Value.Uint64() - m[1].Value.Uint64())
}
