// Package budget bounds the bytes that a server retains for its callers.
//
// A Budget has levels, such as unknown and known callers. A level may reserve bytes that no other
// level can use. All levels compete for the rest. A level is divided into shares, such as one share
// per user, and each share may have a bound. A budget may count other units than bytes, such as
// requests.
package budget

import (
	"fmt"
	"math"
	"sync"
)

// Level configures a level of a Budget. The number of a level is its position in the arguments of
// New.
type Level struct {
	// Name identifies the level in errors and metrics.
	Name string
	// Reserved is the number of bytes that only this level can use.
	Reserved int64
	// Most bounds the bytes of the level, including the reserved ones. 0: only the budget's limit
	// applies.
	Most int64
	// Share bounds the bytes of one share of the level. 0: only the level's bound applies.
	Share int64
	// Fair refuses bytes to a share that already uses at least as many bytes as the level has free. If
	// n shares grow at the same pace and in small steps, each share can use about 1/(n+1) of the
	// level's bytes. Another 1/(n+1) stays free for the next share.
	Fair bool
}

// Budget counts bytes by level and share, and refuses bytes above its limit. Only Wait blocks. A
// Budget runs no goroutine, and stores an entry only for a share that uses bytes. It is safe for
// concurrent use.
type Budget struct {
	limit  int64        // 0 or less: no bound
	others func() int64 // bytes outside the levels, which also count against limit; nil: none
	mu     sync.Mutex
	// levels[i] is the level with the number i, see Level.
	levels []levelState
	// waiting contains the waiting calls of Wait. The callers of Wait must bound their number.
	waiting []*waiter
}

type levelState struct {
	Level
	used, peak int64
	refused    uint64
	shares     map[string]int64
}

// New returns a Budget of limit bytes. If limit is 0 or less, the Budget has no limit. New panics
// if the levels reserve more than the limit, which is a bug of the caller.
func New(limit int64, levels ...Level) *Budget {
	b := &Budget{limit: limit}
	var reserved int64
	for _, l := range levels {
		reserved += l.Reserved
		b.levels = append(b.levels, levelState{Level: l, shares: map[string]int64{}})
	}
	if limit > 0 && reserved > limit {
		panic(fmt.Sprintf("budget: levels reserve %d of %d bytes", reserved, limit))
	}
	return b
}

// CountAlso makes the Budget count the result of the function others against the limit, in addition
// to the bytes of the levels. It must be called before any other method. The Budget calls others
// while it holds its lock.
func (b *Budget) CountAlso(others func() int64) { b.others = others }

// ExceededError is returned when a Budget refuses bytes.
type ExceededError struct {
	// Level is the name of the level.
	Level string
	// OfShare is true if the share has reached its bound, and false if the level or the budget has.
	OfShare bool
}

func (e *ExceededError) Error() string {
	if e.OfShare {
		return "budget: one share of level " + e.Level + " uses all bytes that it may"
	}
	return "budget: level " + e.Level + " uses all bytes that it may"
}

// Charge is the number of bytes charged for one request, connection or similar. The zero Charge has
// no bytes and no Budget; call only Release on it. A Charge with bytes must not be copied. It is
// safe for concurrent use.
type Charge struct {
	budget *Budget
	level  int
	share  string
	bytes  int64
}

// Take charges n bytes to a share of a level. Level.Share does not limit the share "". If a bound
// would be exceeded, Take charges nothing and returns an *ExceededError. The caller must Release
// the Charge.
func (b *Budget) Take(level int, share string, n int64) (*Charge, error) {
	c := b.NewCharge(level, share)
	if err := c.Grow(n); err != nil {
		return nil, err
	}
	return c, nil
}

// NewCharge returns a Charge without bytes. Grow and Add add bytes to it.
func (b *Budget) NewCharge(level int, share string) *Charge {
	return &Charge{budget: b, level: level, share: share}
}

// Grow adds n bytes, which must not be negative. If a bound would be exceeded, Grow adds nothing
// and returns an *ExceededError.
func (c *Charge) Grow(n int64) error {
	b := c.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.fits(c.level, c.share, n); err != nil {
		b.levels[c.level].refused++
		return err
	}
	c.add(n)
	return nil
}

// Add adds n bytes even if a bound is exceeded, or removes bytes if n is negative. Use it for bytes
// that are already in memory.
func (c *Charge) Add(n int64) {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	if c.add(n); n < 0 {
		c.budget.grant()
	}
}

// Move moves the bytes to a share of another level, even if a bound of that level is exceeded: the
// bytes are already in memory.
func (c *Charge) Move(level int, share string) {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	c.move(level, share)
}

// move moves the bytes. The caller holds the Budget's lock.
func (c *Charge) move(level int, share string) {
	n := c.bytes
	c.add(-n)
	c.level, c.share = level, share
	c.add(n)
	c.budget.grant()
}

// MoveToShare moves the bytes to a share of another level. If the share would exceed Level.Share,
// MoveToShare moves nothing and returns an *ExceededError. It checks no other bound.
func (c *Charge) MoveToShare(level int, share string) error {
	b := c.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	l := &b.levels[level]
	if b.limit > 0 && share != "" && l.Share > 0 && l.shares[share]+c.bytes > l.Share {
		l.refused++
		return &ExceededError{Level: l.Name, OfShare: true}
	}
	c.move(level, share)
	return nil
}

// Release removes all bytes. A second call does nothing.
func (c *Charge) Release() {
	if c == nil || c.budget == nil {
		return
	}
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	c.add(-c.bytes)
	c.budget.grant()
}

// Bytes returns the bytes of the charge.
func (c *Charge) Bytes() int64 {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	return c.bytes
}

// Room returns by how many bytes the charge may grow. If a bound is reached, the result is 0 or
// negative.
func (c *Charge) Room() int64 {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	return c.budget.shareRoom(c.level, c.share)
}

// add adds n bytes to a charge; n may be negative. The caller holds the Budget's lock.
func (c *Charge) add(n int64) {
	l := &c.budget.levels[c.level]
	c.bytes += n
	l.used += n
	l.peak = max(l.peak, l.used)
	if c.share == "" {
		return
	}
	if l.shares[c.share] += n; l.shares[c.share] == 0 {
		delete(l.shares, c.share)
	}
}

// fits returns an *ExceededError unless a share of a level may use n more bytes. The caller holds
// b.mu.
func (b *Budget) fits(level int, share string, n int64) error {
	switch {
	case n > b.room(level):
		return &ExceededError{Level: b.levels[level].Name}
	case n > b.shareRoom(level, share):
		return &ExceededError{Level: b.levels[level].Name, OfShare: true}
	}
	return nil
}

// Room returns how many more bytes a level may use. If a bound is reached, the result is 0 or
// negative.
func (b *Budget) Room(level int) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.room(level)
}

// room is Room for a caller that holds b.mu.
func (b *Budget) room(level int) int64 {
	switch l := &b.levels[level]; {
	case b.limit <= 0:
		return math.MaxInt64
	case l.Most > 0:
		return min(b.free(level), l.Most-l.used)
	}
	return b.free(level)
}

// shareRoom returns how many more bytes a share of a level may use. The caller holds b.mu.
func (b *Budget) shareRoom(level int, share string) int64 {
	l, room := &b.levels[level], b.room(level)
	if used := l.shares[share]; share != "" && b.limit > 0 {
		if l.Fair && used >= room && used > 0 {
			return 0
		}
		if l.Share > 0 {
			return min(room, l.Share-used)
		}
	}
	return room
}

// free returns how many more bytes a level may use within the budget's limit: the rest of its
// reserved bytes, and the bytes that no level uses or reserves. The caller holds b.mu.
func (b *Budget) free(level int) int64 {
	free := b.limit
	if b.others != nil {
		free -= b.others()
	}
	for i := range b.levels {
		if l := &b.levels[i]; i == level {
			free -= l.used
		} else {
			free -= max(l.used, l.Reserved)
		}
	}
	return free
}

// Excess returns by how many bytes a level exceeds its bound, or by how many bytes the Budget
// exceeds its limit. It returns the larger of both numbers. If the result is 0 or less, neither the
// bound nor the limit is exceeded. Only Add, Move, MoveToShare and the function of CountAlso can
// cause an excess.
func (b *Budget) Excess(level int) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.limit <= 0 {
		return 0
	}
	over := -b.free(level)
	if l := &b.levels[level]; l.Most > 0 {
		over = max(over, l.used-l.Most)
	}
	return over
}

// Usage contains the statistics of a level of a Budget.
type Usage struct {
	// Level is the name of the level.
	Level string
	// Used is the number of bytes that the level uses, and Peak the highest such number so far.
	Used, Peak int64
	// Refused counts the charges that were refused.
	Refused uint64
	// Shares counts the shares that use bytes.
	Shares int
}

// Usage returns the usage of each level, in the order of New's arguments.
func (b *Budget) Usage() []Usage {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]Usage, 0, len(b.levels))
	for i := range b.levels {
		l := &b.levels[i]
		all = append(all, Usage{Level: l.Name, Used: l.used, Peak: l.peak, Refused: l.refused, Shares: len(l.shares)})
	}
	return all
}

// Used returns the bytes of all levels, plus the result of CountAlso's function.
func (b *Budget) Used() (n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.others != nil {
		n = b.others()
	}
	for i := range b.levels {
		n += b.levels[i].used
	}
	return n
}

// Limit returns the limit of the budget in bytes. 0 or less: it has no limit.
func (b *Budget) Limit() int64 { return b.limit }

// ShareBytes returns the bytes of a share of a level.
func (b *Budget) ShareBytes(level int, share string) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.levels[level].shares[share]
}
