package proxy

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/internal/watchcache"
)

// budget is what the resources may take together that nobody named: Options.MemoryBudget. It is looked at whenever lookAfter bytes more have
// come in for them, before they are stored, so that they are over it by no more than that; a resource that is let go takes nothing in from
// then on, and its memory is free once its watches have ended, which takes a second at most. Safe for concurrent use.
type budget struct {
	limit   atomic.Int64
	used    atomic.Int64 // when it was last looked at
	fresh   atomic.Int64 // bytes that came in since
	evicted atomic.Uint64
	looking sync.Mutex
}

const (
	// lookAfter is how many bytes may come in, as the upstream sends them, before the budget is looked at again; budgetEvery is how
	// often it is looked at in any case.
	lookAfter   = 1 << 20
	budgetEvery = 500 * time.Millisecond
	// idleFor is how long a resource that nobody named is held without a read.
	idleFor = 30 * time.Minute
	// perPoint is what an entry of a watchcache.History takes.
	perPoint = 16
)

var errOverBudget = errors.New("it does not fit into the memory budget")

// grow is told how many bytes are about to be stored. The error says that they must not be.
func (h *held) grow(n int) error {
	if h.named {
		return nil
	}
	if b := &h.holdings.budget; b.fresh.Add(int64(n)) >= lookAfter {
		h.holdings.trim(time.Now())
	}
	if h.stopping.Load() {
		return errOverBudget
	}
	return nil
}

// trim lets go of resources that nobody named: those without a read for long, and as many as it takes to be within the budget.
func (hs *holdings) trim(now time.Time) {
	b := &hs.budget
	b.looking.Lock()
	defer b.looking.Unlock()
	b.fresh.Store(0)
	var total, going int64
	var kept []claim
	for _, h := range hs.all() {
		switch c := (claim{held: h, bytes: h.bytes(), now: now}); {
		case h.named:
		case h.stopping.Load():
			going += c.bytes
		case c.unread() > idleFor:
			going += c.bytes
			h.end()
		default:
			total += c.bytes
			kept = append(kept, c)
		}
	}
	limit := b.limit.Load()
	for ; total > limit && len(kept) > 0; b.evicted.Add(1) {
		at := 0
		for i := range kept {
			if kept[i].weaker(&kept[at], limit) {
				at = i
			}
		}
		worst := kept[at]
		kept = append(kept[:at], kept[at+1:]...)
		hs.log.Warn("a resource is let go, to stay within the memory budget", "resource", worst.name(), "bytes", worst.bytes, "all", total)
		hs.refuse(worst.gvr, errOverBudget)
		worst.end()
		total, going = total-worst.bytes, going+worst.bytes
	}
	b.used.Store(total + going)
}

// claim is what a resource has in favour of being held on, at one moment.
type claim struct {
	*held
	bytes int64
	now   time.Time
}

// unread is how long nobody has read or watched the resource.
func (c *claim) unread() time.Duration {
	if c.watchers.Load() > 0 {
		return 0
	}
	return c.now.Sub(time.Unix(0, c.used.Load()))
}

// rank orders the resources: the lowest is let go first. What can never fit comes first; what is in use has to make room only when there is
// nothing else, and never for one that is only being read in: else one request for something large would empty the cache.
func (c *claim) rank(limit int64) int {
	switch {
	case c.bytes > limit:
		return 0
	case c.unread() > refusedFor:
		return 1
	case c.session.Load() == nil:
		return 2
	case c.watchers.Load() == 0:
		return 3
	}
	return 4
}

// weaker says whether c is to be let go before other: the least recently read of those that nobody watches, else the largest.
func (c *claim) weaker(other *claim, limit int64) bool {
	mine, its := c.rank(limit), other.rank(limit)
	switch {
	case mine != its:
		return mine < its
	case mine == 1 || mine == 3:
		return c.used.Load() < other.used.Load()
	}
	return c.bytes > other.bytes
}

// bytes is what the resource takes.
func (h *held) bytes() int64 {
	s := h.filling.Load()
	if s == nil {
		return 0
	}
	points := min(int64(h.events.Load()), watchcache.DefaultHistory)
	return s.store.Memory().Total() + s.cache.Stats().SharedBytes + s.feed.asideBytes.Load() + points*perPoint
}
