// Package mirror keeps the resources that the proxy caches equal to the upstream's.
//
// A pure function decides what to do about a resource (step.go). It takes what is known and what
// has happened, and returns what is known then and the actions to perform. A [Resource] drives it:
// it makes each step under its lock, publishes the new [State] as a whole, and then performs the
// actions. testdata/stories has a story for each thing that happens to a resource, with every
// decision in it.
//
// A resource is described, then a [Session] lists and watches it, with a feed of package feed. The
// session serves reads from its first list until it ends. It ends when only a new one can represent
// the upstream: the upstream went back in time or redefined the resource, another server has come
// to serve it, or the proxy may not read it any more. After a pause the next session begins.
//
// The actions and the calls around a step have an order. Each rule closes a race:
//
//   - A list that shows a restore ends all other sessions, and the forwarded watches, before its own
//     session serves. The restore tracker learns that the session serves only afterwards. Otherwise
//     a watch from before the restore would be forwarded.
//   - The tracker learns of the end of a session before the session is withdrawn, for the same
//     reason.
//   - The time of a drain is read after the session serves, and a drain stores the time before it
//     looks for sessions. One of the two finds the other.
//   - Watches expire after their session is withdrawn, so that none starts on it again.
//   - A session that finds a restore ends before those of other resources do. Actions are performed
//     without a lock, since two resources may find a restore at the same time.
//
// A read asks [Mirror.Read] first. Once its caller is authorized, [Read.Wait] returns the session
// that answers it.
package mirror

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/lru"

	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/serve/watchcache"
)

// Mirror is the set of resources that the proxy caches. It is safe for concurrent use.
type Mirror struct {
	cfg        Config
	discoverer discoverer
	Stats      source.Stats           // of the requests to the upstream
	Budget     memoryBudget           // of the resources on demand
	flush      *watchcache.FlushPacer // of all watches
	server     reflector.Server       // of the sessions, whose lists take turns
	Restores   RestoreTracker         // shared by the resources
	Kept       atomic.Int64           // bytes kept for slow watches, at the last check
	Shed       atomic.Uint64          // watches that were ended, since they exceeded their memory
	skipsProof map[schema.GroupResource]bool

	initSeconds *prometheus.HistogramVec // of first lists

	mu sync.Mutex
	// byGVR has a configured resource without a known version as it is configured, most often without
	// one.
	byGVR         map[schema.GroupVersionResource]*Resource
	rejectedUntil *lru.Cache
	runs          sync.WaitGroup
	ctx           context.Context // ends everything; nil before run
	closed        bool            // nothing is added any more
	drainBy       time.Time       // when watches must have ended; zero: no drain
}

const (
	// maxOnDemand bounds the resources cached on demand, each of which has a watch upstream.
	maxOnDemand = 256
	// RejectedTTL is how long reads of a resource that could not be cached are forwarded before the
	// next attempt. maxRejected bounds how many such resources are remembered.
	RejectedTTL = 5 * time.Minute
	// UndefinedTTL is RejectedTTL for a resource without an APIService, which kube-apiserver
	// creates a moment after the resource, and for one that is no longer served, which may come
	// back.
	UndefinedTTL = 10 * time.Second
	maxRejected  = 1024
)

// New returns a mirror that caches nothing before Run.
func New(cfg Config) *Mirror {
	m := &Mirror{
		cfg: cfg, discoverer: discoverer{cfg.Client, cfg.Review},
		skipsProof:    map[schema.GroupResource]bool{},
		byGVR:         map[schema.GroupVersionResource]*Resource{},
		rejectedUntil: lru.New(maxRejected),
		flush:         watchcache.NewFlushPacer(cfg.FlushInterval),
		initSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_watch_cache_initialization_duration_seconds", Help: "How long first lists took.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 180, 600},
		}, []string{"group", "resource"}),
	}
	m.Budget.SetLimit(cfg.MemoryBudget)
	for _, gvr := range cfg.TrustCache {
		m.skipsProof[gvr.GroupResource()] = true
	}
	for _, gvr := range cfg.Resources {
		m.byGVR[gvr] = newResource(m, gvr, settings{unresolved: true, anyVersion: gvr.Version == ""})
	}
	return m
}

// Run caches the configured resources, and enforces the budget, until ctx ends.
func (m *Mirror) Run(ctx context.Context) {
	m.mu.Lock()
	m.ctx = ctx
	named := slices.Collect(maps.Values(m.byGVR)) // none was added on demand yet
	m.mu.Unlock()
	for _, res := range named {
		m.runs.Go(func() { m.start(ctx, res) })
	}
	ticker := time.NewTicker(budgetInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ticker.C:
			m.Evict(time.Now())
			m.shedWatches()
		case <-ctx.Done():
		}
	}
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.runs.Wait()
}

// start runs a configured resource, in the version that the upstream prefers if it is configured
// without one.
func (m *Mirror) start(ctx context.Context, unresolved *Resource) {
	for {
		if unresolved.run(ctx); ctx.Err() != nil {
			return
		}
		running, stop := context.WithCancel(ctx)
		res := newResource(m, unresolved.preferred, settings{anyVersion: unresolved.anyVersion})
		res.stop, res.created = stop, unresolved.created
		first := newState(res.settings)
		first.failures = unresolved.State().failures
		res.published.Store(first)
		m.replace(unresolved, res)
		err := res.run(running)
		stop()
		if err == nil {
			return
		}
		m.cfg.Log.Info("a resource is cached in another version", "resource", res.name(), "before", res.GVR.Version)
		m.mu.Lock()
		if m.byGVR[res.GVR] == res {
			delete(m.byGVR, res.GVR)
		}
		m.byGVR[unresolved.GVR] = unresolved
		m.mu.Unlock()
	}
}

// replace replaces a configured resource without a known version by one with it. One that was added
// on demand before the version was known ends.
func (m *Mirror) replace(unresolved, res *Resource) {
	m.mu.Lock()
	if m.byGVR[unresolved.GVR] == unresolved {
		delete(m.byGVR, unresolved.GVR)
	}
	other := m.byGVR[res.GVR]
	m.byGVR[res.GVR] = res
	m.mu.Unlock()
	if other != nil {
		other.take(input{typ: inStop})
	}
}

// Find returns the resource, or nil if it is not cached.
func (m *Mirror) Find(gvr schema.GroupVersionResource) *Resource {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byGVR[gvr]
}

// CanAdd reports whether a resource that is not cached could be cached on demand.
func (m *Mirror) CanAdd(gvr schema.GroupVersionResource) bool {
	if !m.Budget.hasRoom() || time.Now().Before(m.Rejection(gvr)) {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	taken := 0
	for _, res := range m.byGVR {
		if res.onDemand {
			taken++
		}
	}
	return taken < maxOnDemand
}

// add starts caching a resource on demand. It does not wait.
func (m *Mirror) add(gvr schema.GroupVersionResource) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byGVR[gvr] != nil || m.ctx == nil || m.closed {
		return
	}
	res := newResource(m, gvr, settings{onDemand: true})
	res.lastRead.Store(time.Now().UnixNano())
	ctx, cancel := context.WithCancel(m.ctx)
	res.stop = cancel
	m.byGVR[gvr] = res
	m.runs.Go(func() {
		if err := res.run(ctx); err != nil {
			m.reject(gvr, err)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.byGVR[gvr] == res {
			delete(m.byGVR, gvr)
		}
	})
}

// Drain ends the watches of all resources within over, also of those added meanwhile; see
// [watchcache.Cache.Drain].
func (m *Mirror) Drain(over time.Duration) {
	m.mu.Lock()
	m.drainBy = time.Now().Add(over)
	m.mu.Unlock()
	for _, res := range m.All() {
		if s := res.Serving(); s != nil {
			s.Cache().Drain(over)
		}
	}
}

// drainTime returns when watches must have ended. Zero: there is no drain.
func (m *Mirror) drainTime() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.drainBy
}

// CatchUp proves the watched resources current, so that the last bookmarks are as new as possible.
// Another replica may have started after the last change, and then knows nothing of
// resourceVersions before its start.
func (m *Mirror) CatchUp(ctx context.Context) {
	var all sync.WaitGroup
	for _, res := range m.All() {
		if s := res.Serving(); s != nil && res.watchers.Load() > 0 {
			all.Go(func() { s.ProveCurrent(ctx) })
		}
	}
	all.Wait()
}

// endOthers ends what continues from before a restore that one resource has found.
func (m *Mirror) endOthers(by *Resource) {
	all := m.All()
	for _, res := range all {
		if s := res.State().Session; s != nil {
			m.Restores.Observe(s.Version())
		}
	}
	m.Restores.WentBack()
	for _, res := range all {
		if res != by {
			res.take(input{typ: inRestored})
		}
	}
	m.cfg.OnWentBack()
}

// reject remembers that a resource could not be cached because of err, until the next attempt is
// due.
func (m *Mirror) reject(gvr schema.GroupVersionResource, err error) {
	until := time.Now().Add(RejectedTTL)
	if errors.Is(err, errUnknownOrigin) && apierrors.IsNotFound(err) || errors.Is(err, reflector.ErrUnknownResource) {
		until = time.Now().Add(UndefinedTTL)
	}
	m.rejectedUntil.Add(gvr, until)
}

// Rejection returns until when a resource is not cached on demand, since it could not be. Zero: it
// may be cached.
func (m *Mirror) Rejection(gvr schema.GroupVersionResource) (until time.Time) {
	if at, ok := m.rejectedUntil.Get(gvr); ok {
		until = at.(time.Time)
	}
	return until
}

// maxShedPerTick bounds the watches that are ended at one check.
const maxShedPerTick = 16

// shedWatches updates the memory kept for slow watches. If watches exceed their memory, it ends
// watches whose clients take nothing, those of the resource for which most is kept first. If
// there are none, it ends those for which most is kept, until that is the excess: their clients
// take something, and less than comes. New watches are then already rejected.
func (m *Mirror) shedWatches() {
	sessions, kept := m.slow()
	m.Kept.Store(kept)
	excess := m.cfg.WatchExcess()
	if excess <= 0 {
		return
	}
	ended := 0
	for _, s := range sessions {
		n := s.Cache().ShedStuck(maxShedPerTick - ended)
		ended += m.countShed(s, n, "watches whose clients take nothing are ended, to stay within the memory for watches")
	}
	if ended > 0 {
		_, kept = m.slow()
		m.Kept.Store(kept)
		return
	}
	for _, s := range sessions {
		n, bytes := s.Cache().ShedLargest(maxShedPerTick-ended, excess)
		ended, excess = ended+m.countShed(s, n, "watches whose clients take less than comes are ended, to stay within the memory for watches"), excess-bytes
		if excess <= 0 {
			return
		}
	}
}

// countShed counts n watches of a session that were ended, and returns n.
func (m *Mirror) countShed(s *Session, n int, why string) int {
	if n > 0 {
		m.Shed.Add(uint64(n))
		m.cfg.Log.Warn(why, "resource", s.Info.GroupVersionResource.GroupResource(), "watches", n, "bytes", s.Cache().BacklogBytes())
	}
	return n
}

// slow returns the sessions for whose watches something is kept, that with the most first, and the
// bytes of all.
func (m *Mirror) slow() (sessions []*Session, bytes int64) {
	kept := map[*Session]int64{}
	for _, res := range m.All() {
		if s := res.State().Session; s != nil {
			if n := s.Cache().BacklogBytes(); n > 0 {
				kept[s] = n
				bytes += n
			}
		}
	}
	return slices.SortedFunc(maps.Keys(kept), func(a, b *Session) int { return cmp.Compare(kept[b], kept[a]) }), bytes
}

// All returns the resources in the order of their names.
func (m *Mirror) All() []*Resource {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.byGVR), func(a, b *Resource) int { return cmp.Compare(a.GVR.String(), b.GVR.String()) })
}

// byPreference returns the resources. The first of several versions of one is what its metrics are
// about: that which is configured, or else that which was asked for first.
func (m *Mirror) byPreference() []*Resource {
	all := m.All()
	slices.SortStableFunc(all, func(a, b *Resource) int {
		switch {
		case !a.onDemand && b.onDemand:
			return -1
		case !b.onDemand && a.onDemand:
			return 1
		}
		return a.created.Compare(b.created)
	})
	return all
}
