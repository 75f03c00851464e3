package watchcache

import (
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Stats are what a cache has done since it was made, and what it holds now. The names in brackets are those of kube-apiserver's metrics
// that mean the same; apiserver_watch_cache_ is left off. Fields may be added.
type Stats struct {
	// ResourceVersion that the cache is current to [resource_version].
	ResourceVersion uint64
	// Changes that the store has seen, each of them once [events_received_total, events_dispatched_total].
	Changes uint64
	// Gets answered. Reads of collections are in Indexes.
	Gets uint64

	// Watches begun, and Watchers open now, of which the Selective ones are woken by nothing that does not concern them.
	Watches             uint64
	Watchers, Selective int
	// Events sent to all watchers together. InitialEvents are the states that watches began with [init_events_total].
	InitialEvents, Events, Bookmarks uint64
	// CaughtUp counts the times that a watcher had fallen behind the log and was caught up from the table.
	CaughtUp uint64
	// Stalled counts connections that were closed because they had taken nothing for long [terminated_watchers_total].
	Stalled uint64
	// Lag is by how many changes the slowest watcher is behind.
	Lag uint64
	// LateBytes are what is kept for watchers that have not taken it yet.
	LateBytes int64

	// Expired counts requests for a state that is gone, answered 410; TooLarge those for one that had not come in time, answered 504.
	Expired, TooLarge uint64
	// Waits counts requests that waited until the cache was fresh enough, and WaitSeconds how long, together [read_wait_seconds].
	Waits       uint64
	WaitSeconds float64

	// Shared are events that several watchers get, encoded once: how often one was there already, how often it had to be made, and the
	// bytes that are held.
	SharedHits, SharedMisses uint64
	SharedBytes              int64

	// Indexes tells of LISTs and of the states that WATCHes begin with, by the index that they were answered from. The first is the
	// table itself, its name is empty.
	Indexes []IndexStats
	// IndexesBuilt and IndexesDropped count indexes that were made on demand, and that made room for others.
	IndexesBuilt, IndexesDropped uint64
}

// IndexStats is one index, or the table.
type IndexStats struct {
	// Name is empty, or f: and a field, or l: and a label, as in the label index of kube-apiserver's metrics.
	Name string
	// Lists answered from it [apiserver_cache_list_total], and states that watches began with.
	Lists, States uint64
	// Fetched is how many objects were looked at [apiserver_cache_list_fetched_objects_total], Returned how many of them matched
	// [apiserver_cache_list_returned_objects_total].
	Fetched, Returned uint64
	// Bytes that the index takes; 0 for the table.
	Bytes int64
}

// counters are what Stats counts.
type counters struct {
	gets, watches                    atomic.Uint64
	watchers                         atomic.Int64
	initialEvents, events, bookmarks atomic.Uint64
	caughtUp, stalled                atomic.Uint64
	expired, tooLarge                atomic.Uint64
	waits                            atomic.Uint64
	waited                           atomic.Int64 // nanoseconds
}

// failed counts what a request was refused for.
func (n *counters) failed(err error) {
	switch {
	case apierrors.IsResourceExpired(err):
		n.expired.Add(1)
	case apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge):
		n.tooLarge.Add(1)
	}
}

// lateChange is about what a change takes that is kept for one watcher: the change itself, and its part of an old version.
const lateChange = 512

// LateBytes returns what is kept for watchers that have not taken it yet. It may be called often.
func (c *Cache) LateBytes() int64 {
	return c.store.CursorBytes() + c.hub.kept.Load()*lateChange
}

// Shed ends watches whose clients take nothing at the moment, those first for which most is kept, n at most. It returns how many.
func (c *Cache) Shed(n int) int { return c.watching.shed(n) }

// Stats tells what the cache has done and holds. It may be called often.
func (c *Cache) Stats() Stats {
	n := &c.counters
	s := Stats{
		Changes:  c.store.Revision(),
		Gets:     n.gets.Load(),
		Watches:  n.watches.Load(),
		Watchers: int(n.watchers.Load()),

		InitialEvents: n.initialEvents.Load(),
		Events:        n.events.Load(),
		Bookmarks:     n.bookmarks.Load(),
		CaughtUp:      n.caughtUp.Load(),
		Stalled:       n.stalled.Load(),

		Expired:     n.expired.Load(),
		TooLarge:    n.tooLarge.Load(),
		Waits:       n.waits.Load(),
		WaitSeconds: float64(n.waited.Load()) / 1e9,

		Selective:    int(c.hub.n.Load()),
		Lag:          max(c.hub.lag(), c.wide.lag()),
		LateBytes:    c.LateBytes(),
		SharedHits:   c.shared.hits.Load(),
		SharedMisses: c.shared.misses.Load(),
		SharedBytes:  c.shared.held(),

		Indexes:        c.indexes.stats(),
		IndexesBuilt:   c.indexes.built.Load(),
		IndexesDropped: c.indexes.dropped.Load(),
	}
	c.clock.Observe(func(rv uint64) { s.ResourceVersion = rv })
	return s
}
