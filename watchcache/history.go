package watchcache

import (
	"sort"
	"sync"
)

// History knows which revision of a store belongs to which resourceVersion, so that a WATCH can be resumed. Whoever writes to the store
// adds to it. Safe for concurrent use.
type History struct {
	mu     sync.RWMutex
	points []point // a ring, from first on
	first  int
	limit  int
}

type point struct{ rv, revision uint64 }

// DefaultHistory is how many changes a History remembers unless told otherwise: 2 MiB of them, at most.
const DefaultHistory = 128 << 10

// NewHistory makes a history of at most limit changes, 0: DefaultHistory. The store is known from rv on, which it has at revision.
func NewHistory(limit int, rv, revision uint64) *History {
	if limit <= 0 {
		limit = DefaultHistory
	}
	return &History{points: []point{{rv, revision}}, limit: max(limit, 2)}
}

// Add says that the change that made revision has resourceVersion rv. Both must be higher than in any call before.
func (h *History) Add(rv, revision uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.points) < h.limit {
		h.points = append(h.points, point{rv, revision})
		return
	}
	h.points[h.first] = point{rv, revision}
	h.first = (h.first + 1) % h.limit
}

// Reset forgets everything: the store is now known from rv on, which it has at revision.
func (h *History) Reset(rv, revision uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.points, h.first = append(h.points[:0], point{rv, revision}), 0
}

func (h *History) at(i int) point { return h.points[(h.first+i)%len(h.points)] }

// revision is the newest revision of the store whose changes are all at rv or before.
func (h *History) revision(rv uint64) (revision uint64, ok bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	after := sort.Search(len(h.points), func(i int) bool { return h.at(i).rv > rv })
	if after == 0 {
		return 0, false
	}
	return h.at(after - 1).revision, true
}
