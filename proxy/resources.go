package proxy

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/lru"

	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/serve/watchcache"
	"github.com/weirproject/weir/internal/serve/workers"
)

// resources is the set of resources that the proxy caches. It is safe for concurrent use.
type resources struct {
	opts           Options
	upstream       *rest.Config
	discoverer     discoverer
	log            *slog.Logger
	stats          source.Stats
	budget         memoryBudget
	flush          *watchcache.FlushPacer // of all watches
	workers        *workers.Pool          // send to them
	server         reflector.Server       // of the sessions, whose lists take turns
	restoreTracker restoreTracker
	onWentBack     func()       // is called when the upstream went back
	kept           atomic.Int64 // bytes kept for slow watches, at the last check
	watchExcess    func() int64 // by how much watches exceed their memory; 0 or less: they do not
	shedCount      atomic.Uint64
	drainBy        atomic.Pointer[time.Time] // when watches must have ended; nil: no drain
	skipsProof     map[schema.GroupResource]bool

	initSeconds *prometheus.HistogramVec // of first lists

	mu            sync.Mutex
	byGVR         map[schema.GroupVersionResource]*resource
	unresolved    []*resource // configured resources without a known version
	rejectedUntil *lru.Cache
	runs          sync.WaitGroup
	ctx           context.Context // ends everything; nil before run
	closed        bool            // nothing is added any more
}

const (
	// maxOnDemand bounds the resources cached on demand, each of which has a watch upstream.
	maxOnDemand = 256
	// rejectedTTL is how long reads of a resource that could not be cached are forwarded before the
	// next attempt. maxRejected bounds how many such resources are remembered.
	rejectedTTL = 5 * time.Minute
	// undefinedTTL is rejectedTTL for a resource without an APIService, which kube-apiserver
	// creates a moment after the resource, and for one that is no longer served, which may come
	// back.
	undefinedTTL = 10 * time.Second
	maxRejected  = 1024
)

func newResources(opts Options, upstream *rest.Config, d discoverer) (*resources, error) {
	rs := &resources{
		opts: opts, upstream: upstream, discoverer: d, log: opts.Log,
		skipsProof:    map[schema.GroupResource]bool{},
		byGVR:         map[schema.GroupVersionResource]*resource{},
		rejectedUntil: lru.New(maxRejected),
		flush:         watchcache.NewFlushPacer(opts.FlushInterval),
		workers:       workers.New(),
	}
	rs.budget.limit.Store(opts.MemoryBudget)
	for _, name := range opts.TrustCache {
		gvr, err := parseResource(name)
		if err != nil {
			return nil, err
		}
		rs.skipsProof[gvr.GroupResource()] = true
	}
	for _, name := range opts.Resources {
		gvr, err := parseResource(name)
		if err != nil {
			return nil, err
		}
		rs.unresolved = append(rs.unresolved, newResource(rs, gvr, true))
	}
	return rs, nil
}

// run caches the configured resources, and enforces the budget, until ctx ends.
func (rs *resources) run(ctx context.Context) {
	rs.mu.Lock()
	rs.ctx = ctx
	named := slices.Clone(rs.unresolved)
	rs.mu.Unlock()
	for _, res := range named {
		rs.runs.Go(func() { rs.start(ctx, res) })
	}
	ticker := time.NewTicker(budgetInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ticker.C:
			rs.evict(time.Now())
			rs.shedWatches()
		case <-ctx.Done():
		}
	}
	rs.mu.Lock()
	rs.closed = true
	rs.mu.Unlock()
	rs.runs.Wait()
}

// start runs a configured resource, in the version that the upstream prefers if it is configured
// without one.
func (rs *resources) start(ctx context.Context, unresolved *resource) {
	for {
		gvr, err := rs.resolve(ctx, unresolved)
		if err != nil {
			return
		}
		running, cancel := context.WithCancel(ctx)
		res := newResource(rs, gvr, true)
		res.stop, res.created, res.anyVersion = cancel, unresolved.created, unresolved.gvr.Version == ""
		res.failures.Store(unresolved.failures.Load())
		rs.mu.Lock()
		if other := rs.byGVR[gvr]; other != nil {
			other.stop() // added on demand before its version was known
		}
		rs.byGVR[gvr] = res
		rs.unresolved = slices.DeleteFunc(rs.unresolved, func(o *resource) bool { return o == unresolved })
		rs.mu.Unlock()
		err = res.run(running)
		cancel()
		if err == nil {
			return
		}
		rs.log.Info("a resource is cached in another version", "resource", res.name(), "before", gvr.Version)
		rs.mu.Lock()
		if rs.byGVR[gvr] == res {
			delete(rs.byGVR, gvr)
		}
		rs.unresolved = append(rs.unresolved, unresolved)
		rs.mu.Unlock()
	}
}

// resolve returns a configured resource with a version, once the upstream has told which it
// prefers. The error is that of ctx.
func (rs *resources) resolve(ctx context.Context, unresolved *resource) (schema.GroupVersionResource, error) {
	for {
		gvr, err := rs.discoverer.preferredVersion(ctx, unresolved.gvr)
		if err == nil {
			return gvr, nil
		}
		unresolved.recordError(err)
		select {
		case <-time.After(maxRestartDelay):
		case <-ctx.Done():
			return gvr, ctx.Err()
		}
	}
}

// find returns the resource, or nil if it is not cached.
func (rs *resources) find(gvr schema.GroupVersionResource) *resource {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.byGVR[gvr]
}

// canAdd reports whether a resource that is not cached could be cached on demand.
func (rs *resources) canAdd(gvr schema.GroupVersionResource) bool {
	if limit := rs.budget.limit.Load(); limit <= 0 || rs.budget.used.Load() > limit {
		return false
	}
	if until, ok := rs.rejectedUntil.Get(gvr); ok && time.Now().Before(until.(time.Time)) {
		return false
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	taken := 0
	for _, res := range rs.byGVR {
		if !res.configured {
			taken++
		}
	}
	return taken < maxOnDemand
}

// add starts caching a resource on demand. It does not wait.
func (rs *resources) add(gvr schema.GroupVersionResource) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.byGVR[gvr] != nil || rs.ctx == nil || rs.closed {
		return
	}
	res := newResource(rs, gvr, false)
	res.lastRead.Store(time.Now().UnixNano())
	ctx, cancel := context.WithCancel(rs.ctx)
	res.stop = cancel
	rs.byGVR[gvr] = res
	rs.runs.Go(func() {
		if err := res.run(ctx); err != nil {
			rs.reject(gvr, err)
		}
		rs.mu.Lock()
		defer rs.mu.Unlock()
		if rs.byGVR[gvr] == res {
			delete(rs.byGVR, gvr)
		}
	})
}

// drain ends the watches of all resources within over, also of those added meanwhile; see
// [watchcache.Cache.Drain].
func (rs *resources) drain(over time.Duration) {
	end := time.Now().Add(over)
	rs.drainBy.Store(&end)
	for _, res := range rs.all() {
		if s := res.ready.Load(); s != nil {
			s.Cache().Drain(over)
		}
	}
}

// reject remembers that a resource could not be cached because of err, until the next attempt is
// due.
func (rs *resources) reject(gvr schema.GroupVersionResource, err error) {
	until := time.Now().Add(rejectedTTL)
	if errors.Is(err, errUnknownOrigin) && apierrors.IsNotFound(err) || errors.Is(err, reflector.ErrUnknownResource) {
		until = time.Now().Add(undefinedTTL)
	}
	rs.rejectedUntil.Add(gvr, until)
}

// maxShedPerTick bounds the watches that are ended at one check.
const maxShedPerTick = 16

// shedWatches updates the memory kept for slow watches. If watches exceed their memory, it ends
// watches whose clients take nothing, those of the resource for which most is kept first. If
// there are none, it ends those for which most is kept, until that is the excess: their clients
// take something, and less than comes. New watches are then already rejected.
func (rs *resources) shedWatches() {
	rs.kept.Store(rs.keptBytes())
	excess := rs.watchExcess()
	if excess <= 0 {
		return
	}
	sessions := rs.byKept()
	ended := 0
	for _, s := range sessions {
		n := s.Cache().ShedStuck(maxShedPerTick - ended)
		ended += rs.countShed(s, n, "watches whose clients take nothing are ended, to stay within the memory for watches")
	}
	if ended > 0 {
		rs.kept.Store(rs.keptBytes())
		return
	}
	for _, s := range sessions {
		n, bytes := s.Cache().ShedLargest(maxShedPerTick-ended, excess)
		ended, excess = ended+rs.countShed(s, n, "watches whose clients take less than comes are ended, to stay within the memory for watches"), excess-bytes
		if excess <= 0 {
			return
		}
	}
}

// countShed counts n watches of a session that were ended, and returns n.
func (rs *resources) countShed(s *session, n int, why string) int {
	if n > 0 {
		rs.shedCount.Add(uint64(n))
		rs.log.Warn(why, "resource", s.info.GroupVersionResource.GroupResource(), "watches", n, "bytes", s.Cache().BacklogBytes())
	}
	return n
}

// byKept returns the sessions for whose watches something is kept, that with the most first.
func (rs *resources) byKept() []*session {
	kept := map[*session]int64{}
	for _, res := range rs.all() {
		if s := res.running.Load(); s != nil {
			if n := s.Cache().BacklogBytes(); n > 0 {
				kept[s] = n
			}
		}
	}
	return slices.SortedFunc(maps.Keys(kept), func(a, b *session) int { return cmp.Compare(kept[b], kept[a]) })
}

// keptBytes returns the memory kept for slow watches.
func (rs *resources) keptBytes() (n int64) {
	for _, res := range rs.all() {
		if s := res.running.Load(); s != nil {
			n += s.Cache().BacklogBytes()
		}
	}
	return n
}

// all returns the resources in the order of their names.
func (rs *resources) all() []*resource {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	out := slices.Clone(rs.unresolved)
	for _, res := range rs.byGVR {
		out = append(out, res)
	}
	slices.SortFunc(out, func(a, b *resource) int { return cmp.Compare(a.gvr.String(), b.gvr.String()) })
	return out
}
