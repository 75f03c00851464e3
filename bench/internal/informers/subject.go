package informers

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/bench/internal/trace"
)

// subject is an informer, or a group of them, ready to be measured.
type subject struct {
	*spec
	informer
	meter  meter
	events atomic.Int64  // that the handlers were told
	tracer *trace.Tracer // nil unless there is to be a trace

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

// handleAll registers as many counting handlers as the options ask for.
func (s *subject) handleAll(resync time.Duration) error {
	for range max(1, s.Handlers) {
		if err := s.handle(resync, s.count); err != nil {
			return err
		}
	}
	return nil
}

// sync runs the informer and blocks until it has synced.
func (s *subject) sync(ctx context.Context) error {
	s.begin, s.threads = settledHeap(), goroutines()
	s.start = now(0)
	s.tracer.Mark(trace.Starts)
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
