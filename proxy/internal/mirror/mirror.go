// Package mirror keeps the proxy's copies of the cached resources equal to the upstream's
// resources.
//
// A pure function, step in step.go, decides what the proxy does about a resource. Its arguments are
// the [State] of the resource and an input, something that has happened. It returns the next State
// and the actions to perform. A [Resource] drives step: it makes each step under its lock,
// publishes the new State, and then performs the actions. testdata/stories has a story for each
// thing that can happen to a resource, with every decision.
//
// The proxy first asks the upstream to describe a resource. Then a [Session] lists and watches it,
// with a feed of package feed. The session serves reads from its first list until it ends. It ends
// when only a new session can represent the upstream: the upstream went back in time or redefined
// the resource, another server serves the resource now, or the proxy may no longer read it. After a
// pause the next session begins.
//
// The actions and the calls around a step have an order. Each rule prevents a race:
//
//   - A list that shows a restore ends all other sessions, and the forwarded watches, before its
//     own session serves. After the session has started to serve, the [RestoreTracker] is notified
//     of it. If it were notified earlier, a watch from before the restore would be forwarded.
//   - When a session has ended, the RestoreTracker is notified first. After that, the session is
//     withdrawn, that is, it stops serving reads. Otherwise a watch from before a restore could be
//     forwarded in between.
//   - A drain (see [Mirror.Drain]) first stores the time by which watches must end, and then looks
//     for sessions. A new session first starts to serve, and then reads that time. So the drain
//     finds the session, or the session finds the time.
//   - Watches expire after their session is withdrawn, so that no new watch starts on it.
//   - A session that finds a restore ends before the sessions of other resources do. Actions are
//     performed without a lock, because two resources may find a restore at the same time.
//
// The proxy calls [Mirror.Read] for each read first. After it has authorized the caller,
// [Read.Wait] returns the session that answers the read.
package mirror

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
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
	flush      *watchcache.FlushPacer // shared by all watches
	server     reflector.Server       // shared by the sessions, whose lists take turns
	Restores   RestoreTracker         // shared by the resources
	Kept       atomic.Int64           // bytes kept for slow watches at the last check
	Shed       atomic.Uint64          // watches ended because all watches used too much memory
	skipsProof map[schema.GroupResource]bool
	drainBy    atomic.Int64 // when watches must have ended, in Unix nanoseconds; 0: no drain

	initSeconds *prometheus.HistogramVec // durations of first lists

	mu sync.Mutex
	// byGVR contains the resources by GVR. A configured resource whose version is not known yet has
	// the GVR of the configuration, usually without a version.
	byGVR         map[schema.GroupVersionResource]*Resource
	rejectedUntil *lru.Cache
	runs          sync.WaitGroup
	ctx           context.Context // its end ends everything; nil before Run
	closed        bool            // no more resources are added
}

const (
	// maxOnDemand bounds the resources that are cached on demand. Each of them has a watch upstream.
	maxOnDemand = 256
	// RejectedTTL is how long reads of a resource that could not be cached are forwarded before the
	// proxy tries again to cache it. maxRejected bounds how many such resources are remembered.
	RejectedTTL = 5 * time.Minute
	// UndefinedTTL replaces RejectedTTL for two kinds of resources. A resource without an APIService
	// may soon get one, because kube-apiserver creates it a moment after the resource. A resource that
	// is no longer served may soon be served again.
	UndefinedTTL = 10 * time.Second
	maxRejected  = 1024
)

// New returns a Mirror. It caches nothing before Run.
func New(cfg Config) *Mirror {
	m := &Mirror{
		cfg: cfg, discoverer: discoverer{cfg.Client, cfg.Review},
		skipsProof:    map[schema.GroupResource]bool{},
		byGVR:         map[schema.GroupVersionResource]*Resource{},
		rejectedUntil: lru.New(maxRejected),
		flush:         watchcache.NewFlushPacer(cfg.FlushInterval),
		initSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_watch_cache_initialization_duration_seconds", Help: "The duration of first lists.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 180, 600},
		}, []string{"group", "resource"}),
	}
	m.Budget.SetLimit(cfg.MemoryBudget)
	for _, gvr := range cfg.TrustCache {
		m.skipsProof[gvr.GroupResource()] = true
	}
	for _, gvr := range cfg.Resources {
		m.byGVR[gvr] = newResource(m, gvr, settings{anyVersion: gvr.Version == ""})
	}
	return m
}

// Run caches the configured resources, and enforces the bounds of memory, until ctx ends.
func (m *Mirror) Run(ctx context.Context) {
	m.mu.Lock()
	m.ctx = ctx
	named := slices.Collect(maps.Values(m.byGVR)) // no resource can have been added on demand yet
	m.mu.Unlock()
	for _, res := range named {
		m.runs.Go(func() { _ = res.run(ctx) })
	}
	wait.UntilWithContext(ctx, func(context.Context) {
		m.Evict(time.Now())
		m.shedWatches()
	}, budgetInterval)
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.runs.Wait()
}

// move registers a configured resource under its present version. Until now the resource had a
// different version, or its version was unknown. If a client's read has already added a resource on
// demand in the present version, move stops that resource.
func (m *Mirror) move(res *Resource, from schema.GroupVersionResource) {
	to := res.GVR()
	m.mu.Lock()
	if m.byGVR[from] == res {
		delete(m.byGVR, from)
	}
	other := m.byGVR[to]
	m.byGVR[to] = res
	m.mu.Unlock()
	if other != nil {
		other.take(input{typ: inStop})
	}
	if from.Version != "" {
		m.cfg.Log.Info("cached another version of a resource", "resource", res.name(), "before", from.Version)
	}
}

// Find returns the resource, or nil if it is not cached.
func (m *Mirror) Find(gvr schema.GroupVersionResource) *Resource {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byGVR[gvr]
}

// CanAdd reports whether a resource that is not cached can be cached on demand.
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

// add starts caching a resource on demand. It does nothing if the resource is cached already, or if
// the Mirror does not run. It does not block.
func (m *Mirror) add(gvr schema.GroupVersionResource) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byGVR[gvr] != nil || m.ctx == nil || m.closed {
		return
	}
	res := newResource(m, gvr, settings{onDemand: true})
	res.lastRead.Store(time.Now().UnixNano())
	ctx := m.ctx
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

// Drain ends the watches of all resources within the given duration, including watches that start
// in the meantime. See [watchcache.Cache.Drain].
func (m *Mirror) Drain(over time.Duration) {
	m.drainBy.Store(time.Now().Add(over).UnixNano())
	for _, res := range m.All() {
		if s := res.Serving(); s != nil {
			s.Cache().Drain(over)
		}
	}
}

// CatchUp proves that the watched resources are current, so that the last bookmarks of the watches
// are as new as possible. Clients may resume at another replica that has started after the last
// change, and such a replica cannot serve resourceVersions from before its start.
func (m *Mirror) CatchUp(ctx context.Context) {
	var all sync.WaitGroup
	for _, res := range m.All() {
		if s := res.Serving(); s != nil && res.watchers.Load() > 0 {
			all.Go(func() { s.ProveCurrent(ctx) })
		}
	}
	all.Wait()
}

// endOthers ends the sessions of all other resources and the forwarded watches, because one
// resource (by) has found that the upstream was restored from a backup.
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

// reject records that a resource could not be cached because of err. CanAdd returns false until the
// next attempt is due.
func (m *Mirror) reject(gvr schema.GroupVersionResource, err error) {
	until := time.Now().Add(RejectedTTL)
	if errors.Is(err, errUnknownOrigin) && apierrors.IsNotFound(err) || errors.Is(err, reflector.ErrUnknownResource) {
		until = time.Now().Add(UndefinedTTL)
	}
	m.rejectedUntil.Add(gvr, until)
}

// Rejection returns the time until which the resource is not cached on demand, because it could not
// be cached before. If the time is zero or in the past, the resource may be cached.
func (m *Mirror) Rejection(gvr schema.GroupVersionResource) (until time.Time) {
	if at, ok := m.rejectedUntil.Get(gvr); ok {
		until = at.(time.Time)
	}
	return until
}

// maxShedPerTick bounds how many watches one check ends.
const maxShedPerTick = 16

// shedWatches measures the memory that is kept for slow watches. If the memory of all watches
// together exceeds the limit, it ends slow watches. First it ends watches whose clients read
// nothing, starting with the resource that keeps the most memory for slow watches. If all clients
// read, and some of them read more slowly than changes arrive, it ends the watches that keep the
// most memory. It continues until enough memory is free. New watches already get 429 at this point.
func (m *Mirror) shedWatches() {
	sessions, kept := m.slow()
	m.Kept.Store(kept)
	excess := m.cfg.WatchExcess()
	if excess <= 0 {
		return
	}
	if m.shed(sessions, true, math.MaxInt64, "ended watches whose clients read nothing, because the memory for watches is used up") {
		_, kept = m.slow()
		m.Kept.Store(kept)
		return
	}
	m.shed(sessions, false, excess, "ended watches whose clients read more slowly than changes arrive, because the memory for watches is used up")
}

// shed ends slow watches of the sessions, at most maxShedPerTick of them. It stops earlier when at
// least the given number of bytes (wanted) was kept for the ended watches. It counts and logs the
// ended watches, and reports whether there are any. See [watchcache.Cache.Shed].
func (m *Mirror) shed(sessions []*Session, stuck bool, wanted int64, why string) bool {
	ended := 0
	for _, s := range sessions {
		n, bytes := s.Cache().Shed(stuck, maxShedPerTick-ended, wanted)
		ended, wanted = ended+n, wanted-bytes
		if n > 0 {
			m.Shed.Add(uint64(n))
			m.cfg.Log.Warn(why, "resource", s.Info.GroupVersionResource.GroupResource(), "watches", n, "bytes", s.Cache().BacklogBytes())
		}
	}
	return ended > 0
}

// slow returns the sessions that keep memory for slow watches, in descending order of that memory.
// bytes is the sum of that memory.
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
	return slices.SortedFunc(maps.Values(m.byGVR), func(a, b *Resource) int { return cmp.Compare(a.GVR().String(), b.GVR().String()) })
}

// byPreference returns the resources in order of preference: configured resources first, because
// New creates them, and then the resources that were requested earliest. Metrics describe only the
// first version of a resource in this order.
func (m *Mirror) byPreference() []*Resource {
	all := m.All()
	slices.SortStableFunc(all, func(a, b *Resource) int { return a.created.Compare(b.created) })
	return all
}
