package informers

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/bench/internal/figures"
	"github.com/weirproject/weir/bench/internal/trace"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/child"
	"github.com/weirproject/weir/internal/childserver"
	"github.com/weirproject/weir/internal/childserver/embedded"
)

// The roles that a child can have.
const (
	roleStub      = "stub"
	roleContender = "contender"
)

// The contenders.
const (
	sideWeir     = "weir"
	sideClientgo = "clientgo"
	sideFloor    = "floor"   // reads the bytes and throws them away
	sideExtract  = "extract" // a cache made by hand of what meta.ExtractList gives
)

// spec tells a contender what to measure.
type spec struct {
	Side string
	Verb string

	Server       string // the API server; empty: the one of the command line
	Stub         string
	Population   string // of that server
	DropIn       bool   // weir's side is its drop-in, and the handlers take objects
	Unstructured bool
	Transform    bool     // managedFields are dropped
	Unwrapped    bool     // the drop-in has only what clients return
	Handlers     int      // as many, all alike; 0: one
	Informers    int      // as many of the same pods; 0: one
	Changes      []string // that the stub makes, one kind after another
	Objects      int      // that the stub holds
	Duration     time.Duration
	Relists      int
	Period       time.Duration
	Stretch      float64       // the resync period is as many times Period; 0: once
	Every        time.Duration // between the samples of a trace; 0: there is none

	server *weir.Server // that all informers share, as those of one factory do
}

// Figures are what was measured, by name. Names end in their unit: Seconds, Bytes, Nanos and so on.
type Figures = figures.Values

// Serve does the work of a child process. role is the child's first argument. config leads to the
// server of the child's command line; it is called only if the specification names no server. An
// unknown role is an error.
func Serve(ctx context.Context, role string, config func() (*rest.Config, error), in io.Reader, out io.Writer) error {
	// If a specification names a server, that needs no credentials, and the command line's is
	// not asked.
	at := func(url string) (*rest.Config, error) {
		if url != "" {
			return &rest.Config{Host: url, QPS: -1}, nil
		}
		return config()
	}
	switch role {
	case childserver.Role:
		return embedded.Serve(ctx, in, out)
	case roleStub:
		var s StubSpec
		return child.Serve(ctx, in, out, &s, func(ctx context.Context, send func(any) error) error {
			cfg, err := at(s.Server)
			if err != nil {
				return err
			}
			return serveStub(ctx, cfg, &s, send)
		})
	case roleContender:
		var s spec
		return child.Serve(ctx, in, out, &s, func(ctx context.Context, send func(any) error) error {
			url := s.Server
			if s.Stub != "" {
				url = s.Stub
			}
			cfg, err := at(url)
			if err != nil {
				return err
			}
			figures, traced, err := contend(ctx, cfg, &s)
			if err != nil {
				return err
			}
			if err := send(figures); err != nil || s.Every == 0 {
				return err
			}
			return send(traced)
		})
	}
	return fmt.Errorf("no such role: %q", role)
}

// contend measures what s says, and returns the figures and the trace. The trace is nil if s asks
// for none.
func contend(ctx context.Context, cfg *rest.Config, s *spec) (Figures, *trace.Trace, error) {
	v, ok := verbNamed(s.Verb)
	if !ok {
		return nil, nil, fmt.Errorf("no such verb: %q", s.Verb)
	}
	if s.DropIn {
		v = v.DropIn()
	}
	if s.Side == sideFloor {
		f, err := floor(ctx, cfg, s)
		return f, nil, err
	}
	r, err := newRig(ctx, cfg, s)
	if err != nil {
		return nil, nil, err
	}
	if s.Every > 0 {
		r.tracer = trace.Start(s.Every, r.sample)
		defer r.tracer.Stop()
	}
	figures, err := v.measure(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	err = r.stop()
	return figures, r.tracer.Stop(), err
}

// rig is an informer, or a group of them, ready to be measured.
type rig struct {
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

func newRig(_ context.Context, cfg *rest.Config, s *spec) (*rig, error) {
	r := &rig{spec: s}
	s.server = &weir.Server{}
	cfg = r.meter.install(cfg)
	var err error
	switch {
	case s.Side == sideExtract:
		r.informer, err = newExtracted(cfg)
	case s.Side != sideClientgo && s.Side != sideWeir:
		err = fmt.Errorf("no such side: %q", s.Side)
	case s.manyKinds():
		r.informer, err = newGroup(cfg, s)
	case s.Informers > 1:
		r.informer, err = newMany(cfg, s)
	case s.Side == sideClientgo || s.DropIn:
		r.informer, err = newShared(cfg, s)
	case s.Unstructured:
		r.informer, err = newWeir[*unstructured.Unstructured](cfg, s, podsResource)
	default:
		r.informer, err = newWeir[*corev1.Pod](cfg, s, podsResource)
	}
	return r, err
}

// count counts an event that has a key. It is a handler.
func (r *rig) count(_ eventKind, key string) {
	if key != "" {
		r.events.Add(1)
	}
}

// handleAll registers as many counting handlers as the options ask for.
func (r *rig) handleAll(resync time.Duration) error {
	for range max(1, r.Handlers) {
		if err := r.handle(resync, r.count); err != nil {
			return err
		}
	}
	return nil
}

// sync runs the informer and blocks until it has synced.
func (r *rig) sync(ctx context.Context) error {
	r.begin, r.threads = settledHeap(), goroutines()
	r.start = now(0)
	r.tracer.Mark(trace.Starts)
	r.run(ctx)
	if err := r.waitSync(ctx); err != nil {
		return err
	}
	r.tracer.Mark("synced")
	return nil
}

// stop ends the trace, and then the informer. More calls do nothing.
func (r *rig) stop() error {
	r.tracer.Stop()
	if r.stopped {
		return nil
	}
	r.stopped = true
	err := r.informer.stop()
	r.meter.closeIdle()
	return err
}

// since returns what was used since an earlier moment.
func (r *rig) since(u usage) (elapsed, cpu time.Duration, alloc, events float64) {
	n := now(r.events.Load())
	return n.at.Sub(u.at), n.cpu - u.cpu, float64(n.alloc - u.alloc), float64(n.events - u.events)
}

// aftermath stops the informer and measures what it has left behind.
func (r *rig) aftermath(ctx context.Context, f Figures) error {
	if err := r.stop(); err != nil {
		return err
	}
	// What ends by itself gets a moment to do so.
	left := goroutines()
	for deadline := time.Now().Add(3 * time.Second); left > r.threads && time.Now().Before(deadline) && ctx.Err() == nil; left = goroutines() {
		pause(ctx, 50*time.Millisecond)
	}
	r.informer = nil
	f["goroutinesLeft"] = float64(left - r.threads)
	f["heapLeftBytes"] = float64(settledHeap().bytes) - float64(r.begin.bytes)
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
func (r *rig) settle(ctx context.Context, quiet time.Duration) error {
	seen, at := r.events.Load(), time.Now()
	for time.Since(at) < quiet {
		pause(ctx, 20*time.Millisecond)
		if err := ctx.Err(); err != nil {
			return err
		}
		if n := r.events.Load(); n != seen {
			seen, at = n, time.Now()
		}
	}
	return nil
}
