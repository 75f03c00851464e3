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
	newest uint64 // the highest revision that was added, at the last point or after it
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
	return &History{points: []point{{rv: rv, revision: revision}}, limit: max(limit, 2), newest: revision}
}

// Add says that the store has at revision what there is at resourceVersion rv. revision must not be lower than in any call before. Where rv
// is not higher than in any call before, what changed has no resourceVersion of its own: a client at the newest one is told of it as long as
// the log has it, and after that goes on without it.
func (h *History) Add(rv, revision uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.newest = revision
	if rv > h.at(len(h.points)-1).rv {
		h.add(point{rv: rv, revision: revision})
	}
}

// Tear says that the states from rv on are not known, until Add gives one that is: a relist has found what changed meanwhile, but not
// when. rv must be higher than in any call before. No WATCH can be resumed from in between.
func (h *History) Tear(rv uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.add(point{rv: rv, torn: true})
}

func (h *History) add(p point) {
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
	h.newest = revision
}

func (h *History) at(i int) point { return h.points[(h.first+i)%len(h.points)] }

var (
	errForgotten = errors.New("the state is not known any more")
	errTorn      = errors.New("the state was passed over by a relist")
)

// revisions are where a client at rv may go on: what there is at rv or before is in the store at both. Where the log does not reach back to
// least, most will do, which is higher only at the newest resourceVersion: see Add. The error is errForgotten or errTorn.
func (h *History) revisions(rv uint64) (least, most uint64, err error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	after := sort.Search(len(h.points), func(i int) bool { return h.at(i).rv > rv })
	if after == 0 {
		return 0, 0, errForgotten
	}
	p := h.at(after - 1)
	switch {
	case p.torn:
		return 0, 0, errTorn
	case after == len(h.points):
		return p.revision, h.newest, nil
	}
	return p.revision, p.revision, nil
}
