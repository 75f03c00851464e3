package proxy

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/internal/watchcache"
)

// budget is what the resources may take together that nobody named: Options.MemoryBudget. It is
// looked at whenever evictAfterBytes bytes more have come in for them, before they are stored, so
// that they are over it by no more than that; a resource that is let go takes nothing in from then
// on, and its memory is free once its watches have ended, which takes a second at most. Safe for
// concurrent use.
type budget struct {
	limit     atomic.Int64
	used      atomic.Int64 // when it was last looked at
	uncounted atomic.Int64 // bytes that came in since
	evicted   atomic.Uint64
	evicting  sync.Mutex
}

const (
	// evictAfterBytes is how many bytes may come in, as the upstream sends them, before the budget
	// is looked at again; budgetInterval is how often it is looked at in any case.
	evictAfterBytes = 1 << 20
	budgetInterval  = 500 * time.Millisecond
	// idleTTL is how long a resource that nobody named is held without a read.
	idleTTL = 30 * time.Minute
	// historyPointBytes is what an entry of a watchcache.History takes.
	historyPointBytes = 16
)

var errOverBudget = errors.New("it does not fit into the memory budget")

// reserve is told how many bytes are about to be stored. The error says that they must not be.
func (res *resource) reserve(n int) error {
	if res.configured {
		return nil
	}
	if b := &res.resources.budget; b.uncounted.Add(int64(n)) >= evictAfterBytes {
		res.resources.evict(time.Now())
	}
	if res.stopping.Load() {
		return errOverBudget
	}
	return nil
}

// evict lets go of resources that nobody named: those without a read for long, and as many as it
// takes to be within the budget.
func (rs *resources) evict(now time.Time) {
	b := &rs.budget
	b.evicting.Lock()
	defer b.evicting.Unlock()
	b.uncounted.Store(0)
	var total, going int64
	var kept []evictionCandidate
	for _, res := range rs.all() {
		switch c := (evictionCandidate{resource: res, bytes: res.bytes(), now: now}); {
		case res.configured:
		case res.stopping.Load():
			going += c.bytes
		case c.idle() > idleTTL:
			going += c.bytes
			res.end()
		default:
			total += c.bytes
			kept = append(kept, c)
		}
	}
	limit := b.limit.Load()
	for ; total > limit && len(kept) > 0; b.evicted.Add(1) {
		at := 0
		for i := range kept {
			if kept[i].evictBefore(&kept[at], limit) {
				at = i
			}
		}
		worst := kept[at]
		kept = append(kept[:at], kept[at+1:]...)
		rs.log.Warn("a resource is let go, to stay within the memory budget", "resource", worst.name(), "bytes", worst.bytes, "all", total)
		rs.reject(worst.gvr, errOverBudget)
		worst.end()
		total, going = total-worst.bytes, going+worst.bytes
	}
	b.used.Store(total + going)
}

// evictionCandidate is what a resource has in favour of being held on, at one moment.
type evictionCandidate struct {
	*resource
	bytes int64
	now   time.Time
}

// idle returns how long nobody has read or watched the resource.
func (c *evictionCandidate) idle() time.Duration {
	if c.watchers.Load() > 0 {
		return 0
	}
	return c.now.Sub(time.Unix(0, c.lastRead.Load()))
}

// rank orders the resources: the lowest is let go first. What can never fit comes first; what is in
// use has to make room only when there is nothing else, and never for one that is only being read
// in: else one request for something large would empty the cache.
func (c *evictionCandidate) rank(limit int64) int {
	switch {
	case c.bytes > limit:
		return 0
	case c.idle() > rejectedTTL:
		return 1
	case c.ready.Load() == nil:
		return 2
	case c.watchers.Load() == 0:
		return 3
	}
	return 4
}

// evictBefore reports whether c is to be let go before other: the least recently read of those that
// nobody watches, else the largest.
func (c *evictionCandidate) evictBefore(other *evictionCandidate, limit int64) bool {
	mine, its := c.rank(limit), other.rank(limit)
	switch {
	case mine != its:
		return mine < its
	case mine == 1 || mine == 3:
		return c.lastRead.Load() < other.lastRead.Load()
	}
	return c.bytes > other.bytes
}

// bytes returns what the resource takes.
func (res *resource) bytes() int64 {
	s := res.running.Load()
	if s == nil {
		return 0
	}
	points := min(int64(res.events.Load()), watchcache.DefaultHistory)
	return s.store.Memory().Total() + s.cache.Stats().EncodeCacheBytes + s.sink.relistedBytes.Load() + points*historyPointBytes
}
