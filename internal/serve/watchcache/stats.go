package watchcache

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/store"
)

// Stats contains the counters and gauges of a cache. A name in brackets is the kube-apiserver
// metric with the same meaning, without the prefix apiserver_watch_cache_. Later versions may add
// fields.
type Stats struct {
	// ResourceVersion is the resourceVersion up to which the cache is current [resource_version].
	ResourceVersion uint64
	// Changes counts the changes in the store after the first list. Each counts once, even without a
	// watcher [events_dispatched_total].
	Changes uint64
	// Gets counts GETs of objects that exist. Reads of collections are in Indexes.
	Gets uint64

	// Watches counts started watches. Selective is the number of open watches that the hub serves.
	Watches   uint64
	Selective int
	// InitialEvents, Events and Bookmarks count the events sent to all watchers. InitialEvents counts
	// the events of the initial states of watches [init_events_total].
	InitialEvents, Events, Bookmarks uint64
	// CaughtUp counts how often a watcher was so slow that the cache coalesced the changes that waited
	// for it.
	CaughtUp uint64
	// Stalled counts connections that the cache closed because a write took longer than
	// writeTimeout, the client read a state too slowly, or the watch was shed
	// [terminated_watchers_total].
	Stalled uint64
	// Lag is the number of changes by which the slowest watcher is behind.
	Lag uint64
	// BacklogBytes is the memory retained for slow watchers.
	BacklogBytes int64

	// PagedBytes is the memory retained for later pages of LISTs: old versions of objects that changed
	// since the first page.
	PagedBytes int64

	// Expired counts requests that were answered 410, and watches that ended with 410. TooLarge counts
	// requests for a state that the cache did not reach in time, answered 504.
	Expired, TooLarge uint64
	// Waits counts requests that waited for the cache to become fresh enough. WaitSeconds is the sum
	// of these waits [read_wait_seconds].
	Waits       uint64
	WaitSeconds float64

	// EncodeCacheHits, EncodeCacheMisses and EncodeCacheBytes describe the cache of encoded events.
	EncodeCacheHits, EncodeCacheMisses uint64
	EncodeCacheBytes                   int64

	// Indexes counts LISTs and initial states of WATCHes by the index that they used. The first entry
	// is the table, which contains all objects; its name is empty.
	Indexes []IndexStats
	// IndexesBuilt counts indexes built on demand. IndexesDropped counts indexes dropped to make room.
	IndexesBuilt, IndexesDropped uint64
}

// IndexStats describes one index, or the table.
type IndexStats struct {
	// Name is "f:" followed by a field, or "l:" followed by a label, as in kube-apiserver's metrics.
	// It is "label sets" for the index of Config.LabelSets, and empty for the table.
	Name string
	// Lists counts LISTs answered from the index [apiserver_cache_list_total]. States counts
	// initial states of watches.
	Lists, States uint64
	// Fetched counts visited objects [apiserver_cache_list_fetched_objects_total]. Returned counts the
	// objects that matched [apiserver_cache_list_returned_objects_total].
	Fetched, Returned uint64
	// Bytes is the size of the index; 0 for the table.
	Bytes int64
}

// counters contains the counters behind Stats.
type counters struct {
	gets, watches                    atomic.Uint64
	watchers                         atomic.Int64
	initialEvents, events, bookmarks atomic.Uint64
	caughtUp, stalled                atomic.Uint64
	expired, tooLarge                atomic.Uint64
	waits                            atomic.Uint64
	waited                           atomic.Int64 // nanoseconds
}

// failed counts a request that was refused with err.
func (n *counters) failed(err error) {
	if apierrors.IsResourceExpired(err) {
		n.expired.Add(1)
	} else if apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		n.tooLarge.Add(1)
	}
}

// BacklogBytes returns the memory that the cache retains for slow watchers. It counts the changes
// that wait for them, and the changes that they took and have not sent, each with its old version.
// It also counts the old versions in the initial states that watchers are sending. It is cheap.
func (c *Cache) BacklogBytes() int64 {
	held := c.held.bytes.Load()
	taken, states, waiting := c.watchWrites.backlog(c.store.LogStart())
	// A state retains the old versions of the changes that wait for its watchers: do not count these
	// twice.
	return c.store.CursorBytes() + max(held, states, held+states-waiting) + taken
}

// Shed ends up to n watches that read more slowly than changes arrive. It starts with the watches
// for which the cache retains the most memory, and stops when the sum of their memory is at least
// wanted.
//
// If stuck is true, Shed cuts off watches whose clients do not read at the moment. Otherwise it
// marks watches whose clients read, but do not catch up. A marked watch ends before its next event;
// a client that requested bookmarks first receives a last bookmark. A watch that is being caught
// up, or is sending its state, ends with 410 Expired, because its client could not resume. Watches
// that an earlier call marked, and that have not ended yet, count toward wanted.
//
// Shed returns the number of watches that this call ended or marked, and the sum of the memory of
// these watches and of the watches that were marked before.
func (c *Cache) Shed(stuck bool, n int, wanted int64) (ended int, bytes int64) {
	return c.watchWrites.shed(stuck, n, wanted)
}

// Stats returns the cache's statistics. It is cheap.
func (c *Cache) Stats() Stats {
	n := &c.counters
	s := Stats{
		Changes: c.store.Changes(),
		Gets:    n.gets.Load(),
		Watches: n.watches.Load(),

		InitialEvents: n.initialEvents.Load(),
		Events:        n.events.Load(),
		Bookmarks:     n.bookmarks.Load(),
		CaughtUp:      n.caughtUp.Load(),
		Stalled:       n.stalled.Load(),

		Expired:     n.expired.Load(),
		TooLarge:    n.tooLarge.Load(),
		Waits:       n.waits.Load(),
		WaitSeconds: float64(n.waited.Load()) / 1e9,

		Selective:         int(c.hub.n.Load()),
		Lag:               c.watchWrites.lag(),
		BacklogBytes:      c.BacklogBytes(),
		PagedBytes:        c.pagedStates.size(),
		EncodeCacheHits:   c.encoded.hits.Load(),
		EncodeCacheMisses: c.encoded.misses.Load(),
		EncodeCacheBytes:  c.encoded.size(),

		Indexes:        c.indexes.stats(),
		IndexesBuilt:   c.indexes.built.Load(),
		IndexesDropped: c.indexes.dropped.Load(),
	}
	c.clock.Observe(func(rv uint64) { s.ResourceVersion = rv })
	return s
}

// slowAfter is how long a write must block before its client is considered stalled.
const slowAfter = time.Second

// shed implements [Cache.Shed]. If stuck is true, it considers the watchers whose current write has
// blocked for slowAfter. Otherwise it considers the watchers that have been sending for slowAfter
// without catching up.
func (ds *writeDeadlines) shed(stuck bool, n int, wanted int64) (ended int, bytes int64) {
	since, end := (*writeDeadline).sendingSince, pendingWrite.mark
	if stuck {
		since, end = (*writeDeadline).writingSince, pendingWrite.cut
	}
	all := ds.before(time.Now().Add(-slowAfter), since)
	kept := map[*writeDeadline]int64{}
	for _, w := range all {
		kept[w.writeDeadline] = w.kept()
		if w.shed.Load() {
			bytes += kept[w.writeDeadline]
		}
	}
	slices.SortFunc(all, func(a, b pendingWrite) int { return cmp.Compare(kept[b.writeDeadline], kept[a.writeDeadline]) })
	for _, w := range all {
		size := kept[w.writeDeadline]
		if ended == n || bytes >= wanted || size == 0 {
			break
		}
		if end(w) {
			ds.stalled.Add(1)
			ended, bytes = ended+1, bytes+size
		}
	}
	return ended, bytes
}

// from returns the source of a watcher's changes, or nil.
func (wd *writeDeadline) from() changeSource {
	if from := wd.source.Load(); from != nil {
		return *from
	}
	return nil
}

// kept returns the bytes that the cache retains for a watcher.
func (wd *writeDeadline) kept() (n int64) {
	if from := wd.from(); from != nil {
		n = from.kept()
	}
	if sn := wd.state.Load(); sn != nil {
		n = max(n, sn.KeptBytes(nil)) // the state retains the old versions of the waiting changes
	}
	if c := wd.catchUp.Load(); c != nil {
		n += c.bytes.Load()
	}
	return n
}

// lag returns the number of changes that wait for the slowest watcher.
func (ds *writeDeadlines) lag() (most uint64) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for wd := range ds.active {
		if from := wd.from(); from != nil {
			most = max(most, from.lag())
		}
		if c := wd.catchUp.Load(); c != nil {
			most = max(most, uint64(c.keys.Load()))
		}
	}
	return most
}

// backlog returns three sums of bytes. taken is the size of changes that watchers with cursors have
// taken, and that the log has dropped; the log starts at revision logStart. states is the size of
// the states that watchers are sending. waiting is the size of the changes that wait for a watcher
// that is sending its state. It is the maximum over all such watchers, not the sum, because several
// watchers may wait for the same changes.
func (ds *writeDeadlines) backlog(logStart uint64) (taken, states, waiting int64) {
	var all []*store.Snapshot
	ds.mu.Lock()
	for wd := range ds.active {
		from := wd.from()
		if l, ok := from.(*cursorSource); ok && l.oldest.Load() < logStart {
			taken += l.taken.Load()
		}
		if sn := wd.state.Load(); sn != nil {
			all = append(all, sn)
			if from != nil {
				waiting = max(waiting, from.kept())
			}
		}
	}
	ds.mu.Unlock()
	slices.SortFunc(all, func(a, b *store.Snapshot) int { return cmp.Compare(b.Revision(), a.Revision()) })
	var later *store.Snapshot
	for _, sn := range all {
		states, later = states+sn.KeptBytes(later), sn
	}
	return taken, states, waiting
}
