package watchcache

import (
	"errors"
	"math"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
)

// History maps resourceVersions to revisions of a store, so that a WATCH can be resumed. Each
// writer to the store adds to it. It is safe for concurrent use.
type History struct {
	mu     sync.RWMutex
	points []historyPoint // a ring that starts at first; up to limit points
	first  int
	limit  int
	newest uint64 // highest revision added, at the last point or after it

	relists    []relistRange // the newest relists, in order
	forgotten  uint64        // the last revision of the dropped relists
	relistedTo atomic.Uint64 // the last revision of any relist; MaxUint64 while a relist runs
}

// relistRange says that a relist at rv added the revisions from+1, from+2, …, to.
type relistRange struct{ from, to, rv uint64 }

// maxRelists bounds the relists that a History keeps. For older revisions, relisted always returns
// true, even if no relist has added them.
const maxRelists = 64

// historyPoint says that the store at revision is the state at rv. The state is the same at later
// resourceVersions, up to the next point.
type historyPoint struct{ rv, revision uint64 }

// gap is the revision of a point that starts a range of unknown states. The range ends at the next
// point.
const gap = math.MaxUint64

const (
	historyPointBytes = 16
	relistRangeBytes  = 24
)

// DefaultHistory is the default maximum number of points of a History. These points use 2 MiB.
const DefaultHistory = 128 << 10

// NewHistory returns a history of at most limit points. If limit is 0 or less, the maximum is
// DefaultHistory. Its first point says that the store at revision is the state at rv.
func NewHistory(limit int, rv, revision uint64) *History {
	if limit <= 0 {
		limit = DefaultHistory
	}
	h := &History{points: []historyPoint{{rv: rv, revision: revision}}, limit: max(limit, 2), newest: revision, forgotten: revision}
	h.relistedTo.Store(revision)
	return h
}

// Add records that the store at revision is the state at resourceVersion rv. revision must not
// decrease from call to call. rv may be the same as in the previous call, for a change without a
// separate resourceVersion. A client that resumes at that rv receives the change as long as the log
// contains it, and later misses it.
func (h *History) Add(rv, revision uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.newest = revision
	if rv > h.at(len(h.points)-1).rv {
		h.add(historyPoint{rv: rv, revision: revision})
	}
}

// AddGap records that the states from rv up to the next Add are unknown: a relist found what
// changed, but not when. rv must be higher than in any earlier call. No WATCH can resume within the
// gap.
func (h *History) AddGap(rv uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.add(historyPoint{rv: rv, revision: gap})
}

func (h *History) add(p historyPoint) {
	if len(h.points) < h.limit {
		h.points = append(h.points, p)
		return
	}
	h.points[h.first] = p
	h.first = (h.first + 1) % h.limit
}

// Reset deletes all points and relists, and records that the store at revision is the state at rv.
func (h *History) Reset(rv, revision uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.points, h.first = append(h.points[:0], historyPoint{rv: rv, revision: revision}), 0
	h.newest = revision
	h.relists, h.forgotten = nil, revision
	h.relistedTo.Store(revision)
}

// Bytes returns the memory of the history.
func (h *History) Bytes() int64 {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return int64(cap(h.points))*historyPointBytes + int64(cap(h.relists))*relistRangeBytes
}

// BeginRelist records that a relist changes the store after revision. At EndRelist, the store is
// the state at rv. A watcher receives the changes of a relist in the order of their versions. But
// each of them may replace several changes, so the watcher announces these changes as coalesced. A
// second BeginRelist before EndRelist continues the first, up to the higher rv.
func (h *History) BeginRelist(revision, rv uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.relists); n > 0 && h.relists[n-1].to == math.MaxUint64 {
		h.relists[n-1].rv = max(h.relists[n-1].rv, rv)
		return
	}
	if len(h.relists) == maxRelists {
		h.forgotten = h.relists[0].to
		h.relists = append(h.relists[:0], h.relists[1:]...)
	}
	h.relists = append(h.relists, relistRange{revision, math.MaxUint64, rv})
	h.relistedTo.Store(math.MaxUint64)
}

// EndRelist ends the relist that BeginRelist started. revision is the last revision that the relist
// added.
func (h *History) EndRelist(revision uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.relists); n > 0 && h.relists[n-1].to == math.MaxUint64 {
		h.relists[n-1].to = revision
		h.relistedTo.Store(revision)
	}
}

// relisted reports whether a relist added the change with this revision, and the resourceVersion of
// that relist.
func (h *History) relisted(revision uint64) (rv uint64, ok bool) {
	if revision > h.relistedTo.Load() {
		return 0, false
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	if revision <= h.forgotten {
		return 0, true
	}
	for _, r := range slices.Backward(h.relists) {
		if revision > r.from {
			return r.rv, revision <= r.to
		}
	}
	return 0, false
}

func (h *History) at(i int) historyPoint { return h.points[(h.first+i)%len(h.points)] }

var (
	errCompacted = errors.New("the state has expired")
	errGap       = errors.New("a relist has skipped the state")
)

// resumeRange returns two revisions from which a client at rv can resume. At both revisions, the
// store contains every change up to rv. Use least if the log still contains the changes after it,
// else most. least and most differ only if rv is the newest resourceVersion or later; see Add. The
// error is errCompacted or errGap.
func (h *History) resumeRange(rv uint64) (least, most uint64, err error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	after := sort.Search(len(h.points), func(i int) bool { return h.at(i).rv > rv })
	if after == 0 {
		return 0, 0, errCompacted
	}
	p := h.at(after - 1)
	switch {
	case p.revision == gap:
		return 0, 0, errGap
	case after == len(h.points):
		return p.revision, h.newest, nil
	}
	return p.revision, p.revision, nil
}
