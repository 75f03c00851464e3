package soak

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weirproject/weir/controllerruntime"
	"github.com/weirproject/weir/e2e/cluster"
)

var (
	length   = flag.Duration("soak.for", 90*time.Second, "how long the soak goes on")
	seed     = flag.Uint64("soak.seed", 0, "what decides which faults there are; 0: a random one")
	jsonFile = flag.String("soak.json", "", "where to write the report as JSON")
	figures  = flag.Bool("soak.figures", false, "fail when a figure is missed, not only when something is lost or out of order")
)

const (
	// faultsFor is the duration of the faults of a round.
	faultsFor = 20 * time.Second
	// startFor bounds the time to start everything, which includes building programs.
	startFor = 20 * time.Minute
)

func TestMain(m *testing.M) {
	flag.Parse()
	log.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard()) // errors are expected
	os.Exit(m.Run())
}

// TestSoak runs informers through rounds of faults. It checks that handlers receive events in
// order, and that after each round the objects of all informers equal the server's within a minute.
func TestSoak(t *testing.T) {
	leaks := cluster.Leaks()
	t.Cleanup(func() { goleak.VerifyNone(t, leaks...) })
	ctx, cancel := context.WithTimeout(context.Background(), startFor+2**length+5*lost)
	defer cancel()
	if *seed == 0 {
		*seed = rand.Uint64N(1_000_000)
	}
	t.Logf("seed %d", *seed)
	w := newWorld(t, ctx, *seed)
	w.progress("seed %d", *seed)
	r := &report{Seed: *seed}
	t.Cleanup(func() {
		r.compare()
		fmt.Fprint(os.Stderr, r.table())
		t.Log("\n" + r.table())
		if *jsonFile != "" {
			if err := r.write(*jsonFile); err != nil {
				t.Error(err)
			}
		}
	})
	c := w.newChurn()
	c.start(ctx)
	informers, controls := w.all(ctx, r), w.allControls(ctx, r)
	all := func() []*subject { return append(append([]*subject(nil), informers...), controls...) }
	defer func() {
		for _, s := range all() {
			s.end()
		}
	}()
	w.settle(ctx, "start", c, all())

	client := w.dynamic(w.steadyConfig("faults"))
	begun, restored := time.Now(), false
	for time.Since(begun) < *length && ctx.Err() == nil {
		r.Rounds++
		restores := !restored && time.Since(begun) > *length/2-faultsFor
		w.round(ctx, r.Rounds, faultsFor, c, w.newFaults(r.Rounds, client), all(), restores)
		if restores {
			restored = true
			for _, s := range controls {
				s.end()
			}
			controls = nil
			w.restore(ctx, c, informers)
			c.start(ctx)
			controls = w.allControls(ctx, r)
			w.settle(ctx, "after the restore", c, all())
		}
		r.Seconds, r.Writes = time.Since(begun).Seconds(), c.written.Load()
	}
	if *figures {
		r.compare()
		r.judge(t)
	}
}

// all starts Weir's informers, and sets their results in the report.
func (w *world) all(ctx context.Context, r *report) (out []*subject) {
	for _, way := range ways {
		out = append(out, w.startInformers(ctx, way)...)
	}
	return r.with(out)
}

// allControls starts client-go's informers, and controller-runtime's clients with Weir's cache and
// with controller-runtime's own cache. None of them survives a restore of the server, so the test
// starts them again after it.
func (w *world) allControls(ctx context.Context, r *report) (out []*subject) {
	for _, way := range ways {
		out = append(out, w.startControls(ctx, way)...)
		out = append(out,
			w.startOwnWrites(ctx, way, "weir", controllerruntime.NewCache()),
			w.startOwnWrites(ctx, way, clientGo, cache.New))
	}
	return r.with(out)
}

// with sets the result of each subject. It uses the result of an earlier subject with the same
// name. Without such a subject, it adds a result to the report.
func (r *report) with(subjects []*subject) []*subject {
next:
	for _, s := range subjects {
		for _, o := range r.Results {
			if o.Way == s.way && o.Name == s.name && o.Of == s.of {
				s.result = o
				continue next
			}
		}
		s.result = &result{Way: s.way, Name: s.name, Of: s.of, Control: s.control}
		r.Results = append(r.Results, s.result)
	}
	return subjects
}

// judge fails the test for each measured value that misses its target.
func (r *report) judge(t *testing.T) {
	for _, o := range r.Results {
		if !o.Control && o.plain() && o.OfControl < 0.95 {
			t.Errorf("%s/%s of %s saw %.2f of the versions that client-go saw", o.Way, o.Name, o.Of, o.OfControl)
		}
		if !o.Control && o.BehindOwn > 2 {
			t.Errorf("%s/%s of %s was current %.1f s after client-go and its own servers", o.Way, o.Name, o.Of, o.BehindOwn)
		}
	}
}
