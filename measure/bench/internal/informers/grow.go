package informers

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"time"

	"github.com/weirproject/weir/internal/tools/process"
	"github.com/weirproject/weir/measure/bench/internal/figures"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

// delayRate is the number of changes per second while delays are measured.
const delayRate = 100

// growVerb is the verb that measures one point of a [Grower]. Verbs does not contain it, because
// one point alone says little.
var growVerb = Verb{
	Name: "grow", modes: []string{modeList, modeWatchList}, measure: measureGrowth, Stub: true, Duration: 3 * time.Second,
	Takes: []string{TakesHandlers}, figures: GrowthFigures,
	Short: "How the figures of an informer grow",
}

// GrowthFigures are the figures of a point of a Grower. The figures about events are missing if the
// point has several informers with one handler each.
var GrowthFigures = []figures.Figure{
	figures.Lower("syncSeconds", "time to sync", figures.Seconds),
	figures.Lower("cpuSeconds", "CPU to sync", figures.Seconds),
	figures.Lower("peakRSSBytes", "peak RSS to sync", figures.Bytes),
	figures.Lower("heapBytes", "heap, synced and idle", figures.Bytes),
	figures.Lower("goroutines", "goroutines, synced and idle", figures.Count),
	figures.New("mostLists", "concurrent LISTs", figures.Count),
	figures.Higher("eventsPerSecond", "events handled per second", figures.Count),
	figures.Lower("cpuMicrosPerEvent", "CPU per event handled", figures.Micros),
	figures.Lower("getPackedNanos", "Get of a cold object", figures.Nanos),
	figures.Lower("delayP99Seconds", "receipt to last handler, p99", figures.Seconds),
}

// measureGrowth measures the first sync, reads of single objects, and the delay with which handlers
// receive a few changes. Last, it measures changes that are sent as fast as the informer reads
// them.
func measureGrowth(ctx context.Context, s *subject) Figures {
	d := newDelays(int32(max(1, s.Handlers)), int(delayRate*(s.Duration+time.Second).Seconds()))
	s.meter.arrivals.Store(d)
	for range max(1, s.Handlers) {
		figures.Check(s.handle(0, d.handler(s.count)))
	}
	s.sync(ctx)
	used := s.since(s.start)
	f := Figures{
		"syncSeconds": used.elapsed.Seconds(), "cpuSeconds": used.cpu.Seconds(), "peakRSSBytes": float64(process.PeakRSS()),
		"objects": float64(s.len()), "mostLists": float64(s.meter.mostLists.Load()),
	}
	f["heapBytes"] = heapBytes()
	f["goroutines"] = float64(runtime.NumGoroutine())
	if s.Informers > 1 {
		if s.Handlers > 1 {
			maps.Copy(f, s.followAll(ctx, ChangeMix))
		}
		return f
	}
	f["getPackedNanos"] = s.timeFirstGets()
	f["delayP99Seconds"] = s.delay(ctx, d)
	watched := s.follow(ctx, ChangeMix)
	f["eventsPerSecond"], f["cpuMicrosPerEvent"] = watched["eventsPerSecond"], watched["cpuMicrosPerEvent"]
	return f
}

// delay makes the stub send changes at a steady rate. It returns how late the last handler receives
// them, in seconds.
func (s *subject) delay(ctx context.Context, d *delays) float64 {
	s.caughtUp(ctx)
	d.armed.Store(true)
	s.tell(ctx, order{Do: doModify, Change: ChangeMix, Rate: delayRate})
	pause(ctx, s.Duration)
	s.tell(ctx, order{Do: doHold})
	s.caughtUp(ctx)
	d.armed.Store(false)
	return figures.Must(d.p99())
}

// newMany returns several informers of pods, each with separate connections and requests.
func newMany(cfg *rest.Config, s *spec) informer {
	var g group
	for range s.Informers {
		if s.Side == sideClientgo || s.DropIn {
			g = append(g, newShared(cfg, s))
		} else {
			g = append(g, newWeir[*corev1.Pod](cfg, s, podsResource))
		}
	}
	return g
}

// Grower measures informers while the number of objects, of handlers or of informers grows. It is
// not safe for concurrent use.
type Grower struct {
	o       Options
	objects int
	stub    string
	stop    func() error
}

// NewGrower returns a Grower that uses the server of o. The caller must call Close.
func NewGrower(o Options) *Grower { return &Grower{o: o, stop: func() error { return nil }} }

// Close stops the stub that serves the objects, if one was started.
func (g *Grower) Close() error { return g.stop() }

// Point describes one measurement of a Grower.
type Point struct {
	Objects, Informers, Handlers int
	DropIn                       bool // of weir's side: measure the drop-in
}

// Measure measures a side at a point, in a separate process. client-go's informers use LIST, which
// needs less memory than their default.
func (g *Grower) Measure(ctx context.Context, side string, p Point) (Figures, error) {
	o := g.o
	o.Objects, o.Handlers, o.DropIn = p.Objects, p.Handlers, p.DropIn
	s := o.spec(growVerb)
	s.Informers = p.Informers
	if err := g.serve(ctx, s); err != nil {
		return nil, err
	}
	s.Stub = g.stub
	c := contender{side: side}
	if side == sideClientgo {
		c.mode = modeList
	}
	f, _, err := runOne(ctx, c, s)
	if err != nil {
		return nil, fmt.Errorf("%d objects, %d informers, %d handlers: %s: %w", p.Objects, p.Informers, p.Handlers, c, err)
	}
	return f, nil
}

// serve starts a stub with the number of objects of s. If the running stub has the same number,
// serve keeps it.
func (g *Grower) serve(ctx context.Context, s spec) error {
	if g.stub != "" && g.objects == s.Objects {
		return nil
	}
	if err := g.stop(); err != nil {
		return err
	}
	g.stub, g.stop = "", func() error { return nil }
	stub, at, err := stubFor(ctx, s)
	if err != nil {
		return err
	}
	g.objects, g.stub, g.stop = s.Objects, at, stub.Stop
	return nil
}
