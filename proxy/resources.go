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
	skipsProof     map[schema.GroupResource]bool

	initSeconds *prometheus.HistogramVec // of first lists

	mu            sync.Mutex
	byGVR         map[schema.GroupVersionResource]*resource
	unresolved    []*resource // configured resources without a known version
	rejectedUntil *lru.Cache
	runs          sync.WaitGroup
	ctx           context.Context // ends everything; nil before run
	closed        bool            // nothing is added any more
	drainBy       time.Time       // when watches must have ended; zero: no drain
	shedCount     uint64          // watches that were ended, since they exceeded their memory
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
	rs.budget.limit = opts.MemoryBudget
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
		rs.unresolved = append(rs.unresolved, newResource(rs, gvr, settings{unresolved: true, anyVersion: gvr.Version == ""}))
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
		if unresolved.run(ctx); ctx.Err() != nil {
			return
		}
		running, stop := context.WithCancel(ctx)
		res := newResource(rs, unresolved.preferred, settings{anyVersion: unresolved.anyVersion})
		res.stop, res.created = stop, unresolved.created
		first := newState(res.settings)
		first.failures = unresolved.state().failures
		res.published.Store(first)
		rs.replace(unresolved, res)
		err := res.run(running)
		stop()
		if err == nil {
			return
		}
		rs.log.Info("a resource is cached in another version", "resource", res.name(), "before", res.gvr.Version)
		rs.mu.Lock()
		if rs.byGVR[res.gvr] == res {
			delete(rs.byGVR, res.gvr)
		}
		rs.unresolved = append(rs.unresolved, unresolved)
		rs.mu.Unlock()
	}
}

// replace replaces a configured resource without a known version by one with it. One that was added
// on demand before the version was known ends.
func (rs *resources) replace(unresolved, res *resource) {
	rs.mu.Lock()
	other := rs.byGVR[res.gvr]
	rs.byGVR[res.gvr] = res
	rs.unresolved = slices.DeleteFunc(rs.unresolved, func(o *resource) bool { return o == unresolved })
	rs.mu.Unlock()
	if other != nil {
		other.take(input{typ: inStop})
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
	if !rs.budget.hasRoom() {
		return false
	}
	if until, ok := rs.rejectedUntil.Get(gvr); ok && time.Now().Before(until.(time.Time)) {
		return false
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	taken := 0
	for _, res := range rs.byGVR {
		if res.onDemand {
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
	res := newResource(rs, gvr, settings{onDemand: true})
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
	rs.mu.Lock()
	rs.drainBy = time.Now().Add(over)
	rs.mu.Unlock()
	for _, res := range rs.all() {
		if s := res.serving(); s != nil {
			s.Cache().Drain(over)
		}
	}
}

// drainTime returns when watches must have ended. Zero: there is no drain.
func (rs *resources) drainTime() time.Time {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.drainBy
}

// catchUp proves the watched resources current, so that the last bookmarks are as new as possible.
// Another replica may have started after the last change, and then knows nothing of
// resourceVersions before its start.
func (rs *resources) catchUp(ctx context.Context) {
	var all sync.WaitGroup
	for _, res := range rs.all() {
		if s := res.serving(); s != nil && res.watchers.Load() > 0 {
			all.Go(func() { s.ProveCurrent(ctx) })
		}
	}
	all.Wait()
}

// endOthers ends what continues from before a restore that one resource has found.
func (rs *resources) endOthers(by *resource) {
	all := rs.all()
	for _, res := range all {
		if s := res.state().session; s != nil {
			rs.restoreTracker.observe(s.Version())
		}
	}
	rs.restoreTracker.wentBack()
	for _, res := range all {
		if res != by {
			res.take(input{typ: inRestored})
		}
	}
	rs.onWentBack()
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
		rs.mu.Lock()
		rs.shedCount += uint64(n)
		rs.mu.Unlock()
		rs.log.Warn(why, "resource", s.info.GroupVersionResource.GroupResource(), "watches", n, "bytes", s.Cache().BacklogBytes())
	}
	return n
}

// byKept returns the sessions for whose watches something is kept, that with the most first.
func (rs *resources) byKept() []*session {
	kept := map[*session]int64{}
	for _, res := range rs.all() {
		if s := res.state().session; s != nil {
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
		if s := res.state().session; s != nil {
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

// shed returns how many watches were ended since they exceeded their memory.
func (rs *resources) shed() uint64 {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.shedCount
}

// initialLoadTimeout is how long the first load of a resource delays readiness. After that its
// reads are forwarded meanwhile.
const initialLoadTimeout = 5 * time.Minute

// readiness is how a configured resource is doing.
type readiness struct {
	name   string
	how    string
	delays bool // the replica must not be ready
}

// readiness returns how the configured resources are doing. well says whether the upstream is.
func (rs *resources) readiness(well bool) (all []readiness) {
	for _, res := range rs.all() {
		if res.onDemand {
			continue
		}
		if !well {
			res.take(input{typ: inUnwell})
		}
		r := readiness{name: res.name(), delays: res.delaysReadiness(time.Now())}
		switch st := res.state().standing(); {
		case r.delays:
			r.how = st.String()
		case st == standingCurrent:
			r.how = "ok"
		case st == standingBehind:
			r.how = "ok, but behind"
		default:
			r.how = "forwarded: " + st.String()
		}
		all = append(all, r)
	}
	return all
}

// delaysReadiness reports whether the replica must not be ready because of the resource: it is
// configured, and is being loaded for the first time. A resource that cannot be cached, that the
// upstream fails to list, or that was cached before does not delay readiness.
func (res *resource) delaysReadiness(now time.Time) bool {
	s := res.state()
	return !res.onDemand && s.standing() == standingLoading && s.readySessions == 0 && now.Sub(res.created) < initialLoadTimeout
}
