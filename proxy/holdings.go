package proxy

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/lru"

	"github.com/weirproject/weir/internal/reflector"
	"github.com/weirproject/weir/internal/source"
)

// holdings are the resources that the proxy holds. Safe for concurrent use.
type holdings struct {
	opts       Options
	upstream   *rest.Config
	discoverer discoverer
	log        *slog.Logger
	stats      source.Stats
	budget     budget
	late       atomic.Int64 // what was kept for watches that are late, when it was last looked at
	tooMuch    func() bool  // whether watches take more than they may
	shed       atomic.Uint64
	endBy      atomic.Pointer[time.Time] // watches are to end by then; nil: they are not
	cached     map[schema.GroupResource]bool

	initialization *prometheus.HistogramVec // of first lists

	mu      sync.Mutex
	held    map[schema.GroupVersionResource]*held
	waiting []*held // named without a version that is known yet
	refused *lru.Cache
	runs    sync.WaitGroup
	ctx     context.Context // ends everything; nil before run
	ended   bool            // nothing is taken in any more
}

const (
	// maxTaken bounds how many resources are held because somebody asked for them, each with a watch upstream.
	maxTaken = 256
	// refusedFor is how long a resource that could not be held is passed on without another try; maxRefused bounds how many
	// of these are remembered.
	refusedFor = 5 * time.Minute
	// undefinedFor is refusedFor for a resource that has no APIService yet, which kube-apiserver makes a moment after the resource, and for
	// one that was held and is not served any more: it may be again.
	undefinedFor = 10 * time.Second
	maxRefused   = 1024
)

func newHoldings(opts Options, upstream *rest.Config, d discoverer) (*holdings, error) {
	hs := &holdings{
		opts: opts, upstream: upstream, discoverer: d, log: opts.Log,
		cached:  map[schema.GroupResource]bool{},
		held:    map[schema.GroupVersionResource]*held{},
		refused: lru.New(maxRefused),
	}
	hs.budget.limit.Store(opts.MemoryBudget)
	for _, name := range opts.Cached {
		gvr, err := parseResource(name)
		if err != nil {
			return nil, err
		}
		hs.cached[gvr.GroupResource()] = true
	}
	for _, name := range opts.Resources {
		gvr, err := parseResource(name)
		if err != nil {
			return nil, err
		}
		hs.waiting = append(hs.waiting, newHeld(hs, gvr, true))
	}
	return hs, nil
}

// run holds the named resources, and looks after the budget, until ctx ends.
func (hs *holdings) run(ctx context.Context) {
	hs.mu.Lock()
	hs.ctx = ctx
	named := slices.Clone(hs.waiting)
	hs.mu.Unlock()
	for _, h := range named {
		hs.runs.Go(func() { hs.start(ctx, h) })
	}
	ticker := time.NewTicker(budgetEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ticker.C:
			hs.trim(time.Now())
			hs.relieve()
		case <-ctx.Done():
		}
	}
	hs.mu.Lock()
	hs.ended = true
	hs.mu.Unlock()
	hs.runs.Wait()
}

// start finds the version of a named resource, and runs it.
func (hs *holdings) start(ctx context.Context, unresolved *held) {
	gvr, err := hs.discoverer.version(ctx, unresolved.gvr)
	for err != nil {
		unresolved.fail(err)
		select {
		case <-time.After(restartDelay):
		case <-ctx.Done():
			return
		}
		gvr, err = hs.discoverer.version(ctx, unresolved.gvr)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h := newHeld(hs, gvr, true)
	h.stop, h.begun = cancel, unresolved.begun
	hs.mu.Lock()
	if other := hs.held[gvr]; other != nil {
		other.stop() // somebody has asked for it before its version was known
	}
	hs.held[gvr] = h
	hs.waiting = slices.DeleteFunc(hs.waiting, func(o *held) bool { return o == unresolved })
	hs.mu.Unlock()
	_ = h.run(ctx) // a named resource ends only with ctx
}

// find is the resource, if it is held or about to be.
func (hs *holdings) find(gvr schema.GroupVersionResource) *held {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return hs.held[gvr]
}

// wants says whether a resource that is not held would be taken in.
func (hs *holdings) wants(gvr schema.GroupVersionResource) bool {
	if limit := hs.budget.limit.Load(); limit <= 0 || hs.budget.used.Load() > limit {
		return false
	}
	if until, ok := hs.refused.Get(gvr); ok && time.Now().Before(until.(time.Time)) {
		return false
	}
	hs.mu.Lock()
	defer hs.mu.Unlock()
	taken := 0
	for _, h := range hs.held {
		if !h.named {
			taken++
		}
	}
	return taken < maxTaken
}

// take begins to hold a resource that somebody asked for. It does not wait for that.
func (hs *holdings) take(gvr schema.GroupVersionResource) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if hs.held[gvr] != nil || hs.ctx == nil || hs.ended {
		return
	}
	h := newHeld(hs, gvr, false)
	h.used.Store(time.Now().UnixNano())
	ctx, cancel := context.WithCancel(hs.ctx)
	h.stop = cancel
	hs.held[gvr] = h
	hs.runs.Go(func() {
		if err := h.run(ctx); err != nil {
			hs.refuse(gvr, err)
		}
		hs.mu.Lock()
		defer hs.mu.Unlock()
		if hs.held[gvr] == h {
			delete(hs.held, gvr)
		}
	})
}

// drain ends the watches of all resources in that time, also of those that come to be held meanwhile: see [watchcache.Cache.Drain].
func (hs *holdings) drain(over time.Duration) {
	end := time.Now().Add(over)
	hs.endBy.Store(&end)
	for _, h := range hs.all() {
		if s := h.session.Load(); s != nil {
			s.cache.Drain(over)
		}
	}
}

// refuse passes a resource on that could not be held because of err, until it is worth another try.
func (hs *holdings) refuse(gvr schema.GroupVersionResource, err error) {
	until := time.Now().Add(refusedFor)
	if errors.Is(err, errOriginUnknown) && apierrors.IsNotFound(err) || errors.Is(err, reflector.ErrUnknownResource) {
		until = time.Now().Add(undefinedFor)
	}
	hs.refused.Add(gvr, until)
}

// shedAtOnce is how many watches are ended at most each time that they are found to take too much.
const shedAtOnce = 16

// relieve looks at what is kept for watches that are late, and where all watches take more than they may, ends those for which most is kept and
// whose clients take nothing. New ones are refused then already.
func (hs *holdings) relieve() {
	hs.late.Store(hs.lateBytes())
	if !hs.tooMuch() {
		return
	}
	var worst *session
	var most int64
	for _, h := range hs.all() {
		if s := h.filling.Load(); s != nil && s.cache.LateBytes() > most {
			worst, most = s, s.cache.LateBytes()
		}
	}
	if worst == nil {
		return
	}
	if n := worst.cache.Shed(shedAtOnce); n > 0 {
		hs.shed.Add(uint64(n))
		hs.log.Warn("watches whose clients take nothing are ended, to stay within the memory for watches", "resource", worst.kind.GroupVersionResource.GroupResource(), "watches", n, "bytes", most)
		hs.late.Store(hs.lateBytes())
	}
}

// lateBytes returns what is kept for watches that have not taken it yet.
func (hs *holdings) lateBytes() (n int64) {
	for _, h := range hs.all() {
		if s := h.filling.Load(); s != nil {
			n += s.cache.LateBytes()
		}
	}
	return n
}

// all are the resources in the order of their names.
func (hs *holdings) all() []*held {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	out := slices.Clone(hs.waiting)
	for _, h := range hs.held {
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b *held) int { return cmp.Compare(a.gvr.String(), b.gvr.String()) })
	return out
}
