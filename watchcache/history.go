package watchcache

import (
	"errors"
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

// point says that from rv on, until the next point, the store's state is that of revision.
type point struct {
	rv, revision uint64
	torn         bool // nobody knows the states from here to the next point
}

// DefaultHistory is how many changes a History remembers unless told otherwise: 2 MiB of them, at most.
const DefaultHistory = 128 << 10

// NewHistory makes a history of at most limit changes, 0: DefaultHistory. The store is known from rv on, which it has at revision.
func NewHistory(limit int, rv, revision uint64) *History {
	if limit <= 0 {
		limit = DefaultHistory
	}
	return &History{points: []point{{rv: rv, revision: revision}}, limit: max(limit, 2)}
}

// Add says that the change that made revision has resourceVersion rv. Both must be higher than in any call before.
func (h *History) Add(rv, revision uint64) {
	h.add(point{rv: rv, revision: revision})
}

// Tear says that the states from rv on are not known, until Add gives one that is: a relist has found what changed meanwhile, but not
// when. rv must be higher than in any call before. No WATCH can be resumed from in between.
func (h *History) Tear(rv uint64) {
	h.add(point{rv: rv, torn: true})
}

func (h *History) add(p point) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.points) < h.limit {
		h.points = append(h.points, p)
		return
	}
	h.points[h.first] = p
	h.first = (h.first + 1) % h.limit
}

// Reset forgets everything: the store is now known from rv on, which it has at revision.
func (h *History) Reset(rv, revision uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.points, h.first = append(h.points[:0], point{rv: rv, revision: revision}), 0
}

func (h *History) at(i int) point { return h.points[(h.first+i)%len(h.points)] }

var (
	errForgotten = errors.New("the state is not known any more")
	errTorn      = errors.New("the state was passed over by a relist")
)

// revision returns the newest revision of the store whose changes are all at rv or before. The error is errForgotten or errTorn.
func (h *History) revision(rv uint64) (uint64, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	after := sort.Search(len(h.points), func(i int) bool { return h.at(i).rv > rv })
	switch {
	case after == 0:
		return 0, errForgotten
	case h.at(after - 1).torn:
		return 0, errTorn
	}
	return h.at(after - 1).revision, nil
}
