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
	"github.com/weirproject/weir/internal/tools/rusage"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// subject is an informer, or a group of them, ready to be measured.
type subject struct {
	*spec
	informer
	meter  meter
	events atomic.Int64    // that the handlers were told
	last   atomic.Int64    // when countAndTime was called last, in nanoseconds since 1970
	tracer *figures.Tracer // nil unless there is to be a trace

	start   usage
	begin   heap // before anything was listed
	threads int  // goroutines at that time
	stopped bool
}

func newSubject(_ context.Context, cfg *rest.Config, s *spec) (*subject, error) {
	sub := &subject{spec: s}
	s.server = &weir.ServerGroup{}
	cfg = sub.meter.install(cfg)
	var err error
	switch {
	case s.Side == sideExtract:
		sub.informer, err = newExtracted(cfg)
	case s.Side != sideClientgo && s.Side != sideWeir:
		err = fmt.Errorf("no such side: %q", s.Side)
	case s.manyKinds():
		sub.informer, err = newGroup(cfg, s)
	case s.Informers > 1:
		sub.informer, err = newMany(cfg, s)
	case s.Side == sideClientgo || s.DropIn:
		sub.informer, err = newShared(cfg, s)
	case s.Unstructured:
		sub.informer, err = newWeir[*unstructured.Unstructured](cfg, s, s.resource())
	case s.Custom:
		sub.informer, err = newWeir[*workload](cfg, s, s.resource())
	default:
		sub.informer, err = newWeir[*corev1.Pod](cfg, s, podsResource)
	}
	return sub, err
}

// count counts an event that has a key. It is a handler.
func (s *subject) count(_ eventKind, key string) {
	if key != "" {
		s.events.Add(1)
	}
}

// handleAll registers a handler as often as the options ask for.
func (s *subject) handleAll(h handler) error {
	for range max(1, s.Handlers) {
		if err := s.handle(0, h); err != nil {
			return err
		}
	}
	return nil
}

// sync runs the informer and blocks until it has synced.
func (s *subject) sync(ctx context.Context) error {
	s.begin, s.threads = settledHeap(), goroutines()
	s.start = now(0)
	s.tracer.Mark(figures.Starts)
	s.run(ctx)
	if err := s.waitSync(ctx); err != nil {
		return err
	}
	s.tracer.Mark("synced")
	return nil
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

// since returns what was used since an earlier moment.
func (s *subject) since(u usage) (elapsed, cpu time.Duration, alloc, events float64) {
	n := now(s.events.Load())
	return n.at.Sub(u.at), n.cpu - u.cpu, float64(n.alloc - u.alloc), float64(n.events - u.events)
}

// aftermath stops the informer and measures what it has left behind.
func (s *subject) aftermath(ctx context.Context, f Figures) error {
	if err := s.stop(); err != nil {
		return err
	}
	// What ends by itself gets a moment to do so.
	left := goroutines()
	for deadline := time.Now().Add(3 * time.Second); left > s.threads && time.Now().Before(deadline) && ctx.Err() == nil; left = goroutines() {
		pause(ctx, 50*time.Millisecond)
	}
	s.informer = nil
	f["goroutinesLeft"] = float64(left - s.threads)
	f["heapLeftBytes"] = float64(settledHeap().bytes) - float64(s.begin.bytes)
	return nil
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// settle waits until no event has come for as long as quiet. The error is that of ctx.
func (s *subject) settle(ctx context.Context, quiet time.Duration) error {
	seen, at := s.events.Load(), time.Now()
	for time.Since(at) < quiet {
		pause(ctx, 20*time.Millisecond)
		if err := ctx.Err(); err != nil {
			return err
		}
		if n := s.events.Load(); n != seen {
			seen, at = n, time.Now()
		}
	}
	return nil
}

// usage is what this process has used so far.
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
	return usage{at: time.Now(), cpu: rusage.CPUTime(), alloc: m.TotalAlloc, events: events}
}

// heap is the live heap after garbage collection.
type heap struct{ bytes, objects uint64 }

// settledHeap collects garbage until that frees next to nothing, and returns the heap. What pools,
// cleanups and weak pointers hold takes several collections to go.
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

// sample returns what this process uses now, for a trace.
func (s *subject) sample() figures.Sample {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return figures.Sample{
		RSSBytes: resident(), HeapBytes: float64(live[0].Value.Uint64()), CPU: rusage.CPUTime(), Events: float64(s.events.Load()),
	}
}

// resident returns the resident set in bytes. If the system does not tell it, that is the memory
// that Go's runtime has and has not released.
func resident() float64 {
	if n, ok := rusage.RSS(); ok {
		return float64(n)
	}
	m := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(m)
	return float64(m[0].Value.Uint64() - m[1].Value.Uint64())
}
