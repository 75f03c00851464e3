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

// subject is an informer, or a group of them, ready to be measured. The methods that return no
// error end the attempt of the measurement.
type subject struct {
	*spec
	informer
	reader // nil of a group
	meter  meter
	events atomic.Int64    // that the handlers have received
	last   atomic.Int64    // when countAndTime was called last, in nanoseconds since 1970
	tracer *figures.Tracer // nil unless there is a trace

	start   usage
	begin   heap // before anything was listed
	threads int  // goroutines at that time
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

// count counts an event that has a key. It is a handler.
func (s *subject) count(_ eventKind, key string) {
	if key != "" {
		s.events.Add(1)
	}
}

// handleAll registers a handler as often as the options ask for.
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

// stop ends the trace, and then the informer. More calls do nothing.
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
	// What ends automatically gets a moment to do so.
	left := runtime.NumGoroutine()
	for deadline := time.Now().Add(3 * time.Second); left > s.threads && time.Now().Before(deadline) && ctx.Err() == nil; left = runtime.NumGoroutine() {
		pause(ctx, 50*time.Millisecond)
	}
	s.informer, s.reader = nil, nil
	f["goroutinesLeft"] = float64(left - s.threads)
	f["heapLeftBytes"] = float64(settledHeap().bytes) - float64(s.begin.bytes)
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// await blocks until done returns true. If ctx ends first, what names the error.
func (s *subject) await(ctx context.Context, what string, done func() bool) {
	for !done() {
		pause(ctx, 10*time.Millisecond)
		figures.Check(ctx.Err(), what)
	}
}

// quiet is how long handlers receive nothing before they count as caught up.
const quiet = 500 * time.Millisecond

// settle waits until the handlers have received nothing for as long as quiet.
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

// settled blocks until the stub has carried out its order, and then settles. It returns the
// resourceVersion of the last event that the stub has sent.
func (s *subject) settled(ctx context.Context) int64 {
	to := figures.Must(waitSettled(ctx, s.Stub))
	s.settle(ctx)
	return to
}

// caughtUp waits until the stub sends nothing, the informer has all that was sent, and its handlers
// receive nothing more. It returns the resourceVersion of that state.
func (s *subject) caughtUp(ctx context.Context) int64 {
	to := figures.Must(waitSettled(ctx, s.Stub))
	s.await(ctx, fmt.Sprintf("the informer has not reached resourceVersion %d", to), func() bool { return s.version() >= float64(to) })
	s.settle(ctx)
	return to
}

// version returns the resourceVersion of the informer. A stub's increases by one with each event.
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

// usage is what this process has used.
type usage struct {
	at     time.Time
	cpu    time.Duration
	alloc  uint64 // bytes ever allocated on the heap
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

// since returns what was used since an earlier moment.
func (s *subject) since(u usage) used {
	n := now(s.events.Load())
	return used{n.at.Sub(u.at), n.cpu - u.cpu, float64(n.alloc - u.alloc), float64(n.events - u.events)}
}

func micros(d time.Duration) float64 { return d.Seconds() * 1e6 }

// heap is the live heap after garbage collection.
type heap struct{ bytes, objects uint64 }

// settledHeap collects garbage until that frees next to nothing, and returns the heap. What pools,
// cleanups and weak pointers reference needs several collections.
func settledHeap() heap {
	var m runtime.MemStats
	for before := uint64(math.MaxUint64); ; before = m.HeapAlloc {
		for range 2 {
			runtime.GC()
			time.Sleep(time.Millisecond) // for cleanups, which the runtime calls after it
		}
		runtime.ReadMemStats(&m)
		if m.HeapAlloc >= before-before/1000 {
			return heap{bytes: m.HeapAlloc, objects: m.HeapObjects}
		}
	}
}

func heapBytes() float64 { return float64(settledHeap().bytes) }

// grown returns the live heap in bytes, without what the process had before anything was listed.
func (s *subject) grown() float64 { return heapBytes() - float64(s.begin.bytes) }

// sample returns what this process uses now, for a trace.
func (s *subject) sample() figures.Sample {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return figures.Sample{
		RSSBytes: resident(), HeapBytes: float64(live[0].Value.Uint64()), CPU: process.CPUTime(), Events: float64(s.events.Load()),
	}
}

// resident returns the resident set in bytes. If the system does not report it, it returns the
// memory that Go's runtime has and has not released.
func resident() float64 {
	if n, ok := process.RSS(); ok {
		return float64(n)
	}
	m := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(m)
	return float64(m[0].Value.Uint64() - m[1].Value.Uint64())
}
