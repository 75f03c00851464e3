package mirror

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"
)

// memoryBudget bounds the memory of the resources that are cached on demand (Options.MemoryBudget).
// The mirror checks the bound before EvictAfterBytes more bytes are stored, so the resources exceed
// the bound by at most EvictAfterBytes. An evicted resource stores nothing more and announces no
// later resourceVersion. The memory of an evicted resource is free within a second after its
// watches have ended. memoryBudget is safe for concurrent use.
type memoryBudget struct {
	mu        sync.Mutex
	limit     int64
	used      int64 // at the last check
	uncounted int64 // bytes stored since the last check
	evicted   uint64
}

const (
	// EvictAfterBytes is the number of received bytes after which the budget is checked.
	// budgetInterval is the time between regular checks.
	EvictAfterBytes = 1 << 20
	budgetInterval  = 500 * time.Millisecond
	// IdleTTL is how long a resource that was added on demand stays cached without a read.
	IdleTTL = 30 * time.Minute
)

var errOverBudget = errors.New("it does not fit into the memory budget")

// reserve counts n bytes that are about to be stored for a resource on demand. When EvictAfterBytes
// bytes are uncounted, it evicts resources until the remaining ones fit into the budget. reserve
// returns errOverBudget if this resource stops, for instance because it was evicted. The caller
// must then not store the bytes.
func (res *Resource) reserve(n int) error {
	if !res.onDemand {
		return nil
	}
	if res.mirror.Budget.count(n) {
		res.mirror.Evict(time.Now())
	}
	if res.State().stopping {
		return errOverBudget
	}
	return nil
}

// count adds n bytes that are about to be stored, and reports whether a check is due.
func (b *memoryBudget) count(n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.uncounted += int64(n)
	return b.uncounted >= EvictAfterBytes
}

// hasRoom reports whether the budget allows another resource on demand.
func (b *memoryBudget) hasRoom() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.limit > 0 && b.used <= b.limit
}

// SetLimit changes the bound. The next check uses it.
func (b *memoryBudget) SetLimit(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limit = n
}

// Usage returns the bound, the bytes in use at the last check, and the number of evictions.
func (b *memoryBudget) Usage() (limit, used int64, evicted uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.limit, b.used, b.evicted
}

// Evict stops caching resources on demand: first idle resources, and then others until the
// remaining resources fit into the budget.
func (m *Mirror) Evict(now time.Time) {
	b := &m.Budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.uncounted = 0
	var total, going int64
	var kept []evictionCandidate
	for _, res := range m.All() {
		st := res.State()
		switch c := res.candidate(st.Bytes(), b.limit, st.serving() != nil, now); {
		case !res.onDemand:
		case st.stopping:
			going += c.bytes
		case c.idle > IdleTTL:
			going += c.bytes
			res.take(input{typ: inStop})
		default:
			total += c.bytes
			kept = append(kept, c)
		}
	}
	slices.SortFunc(kept, evictionCandidate.compare)
	for ; total > b.limit && len(kept) > 0; b.evicted++ {
		worst := kept[0]
		kept = kept[1:]
		m.cfg.Log.Warn("evicted a resource, because the memory budget is used up", "resource", worst.name(), "bytes", worst.bytes, "all", total)
		m.reject(worst.GVR(), errOverBudget)
		worst.take(input{typ: inStop})
		total, going = total-worst.bytes, going+worst.bytes
	}
	b.used = total + going
}

// evictionCandidate describes the use of a resource at one moment.
type evictionCandidate struct {
	*Resource
	bytes, lastRead int64
	idle            time.Duration // since a client last read the resource; 0 while clients watch it
	// rank orders candidates; the lowest is evicted first. A resource that can never fit comes first.
	// Resources in use come last. Resources in use are never evicted for a resource that is still
	// being loaded: otherwise a request for a large resource would empty the cache.
	rank int
}

const (
	rankTooLarge = iota
	rankIdle
	rankLoading
	rankUnwatched
	rankWatched
)

// candidate returns the use of the resource. serves says whether it serves reads.
func (res *Resource) candidate(bytes, limit int64, serves bool, now time.Time) evictionCandidate {
	c := evictionCandidate{Resource: res, bytes: bytes, lastRead: res.lastRead.Load()}
	watched := res.watchers.Load() > 0
	if !watched {
		c.idle = now.Sub(time.Unix(0, c.lastRead))
	}
	switch {
	case bytes > limit:
		c.rank = rankTooLarge
	case c.idle > RejectedTTL:
		c.rank = rankIdle
	case !serves:
		c.rank = rankLoading
	case !watched:
		c.rank = rankUnwatched
	default:
		c.rank = rankWatched
	}
	return c
}

// compare is negative if c is evicted before other. It compares the ranks first. If no client
// watches the two resources, it then compares the times of their last reads, earliest first. Last
// it compares the sizes, largest first.
func (c evictionCandidate) compare(other evictionCandidate) int {
	byAge := 0
	if c.rank == rankIdle || c.rank == rankUnwatched {
		byAge = cmp.Compare(c.lastRead, other.lastRead)
	}
	return cmp.Or(cmp.Compare(c.rank, other.rank), byAge, cmp.Compare(other.bytes, c.bytes))
}

// Bytes returns the memory that the resource uses, in bytes.
func (s *State) Bytes() int64 {
	if s.Session == nil {
		return 0
	}
	return s.Session.Bytes()
}
