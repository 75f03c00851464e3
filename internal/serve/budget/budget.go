// Package budget bounds the bytes that callers make a server keep.
//
// A Budget has levels, such as unknown and known callers. A level may have bytes of its own, which
// no other level gets, and competes with the others for the rest. Within a level one share, such as
// one user, may be limited further. A budget may count something else than bytes, such as requests.
package budget

import (
	"fmt"
	"math"
	"sync"
)

// Level configures a level of a Budget. Levels are numbered in the order that New gets them.
type Level struct {
	// Name is the value of a metric's label.
	Name string
	// Reserved is how many bytes no other level gets.
	Reserved int64
	// Most bounds the bytes of the level, reserved ones included. 0: no bound but that of the budget.
	Most int64
	// Share bounds the bytes of one share of the level. 0: no bound but that of the level.
	Share int64
	// Fair has each share leave others as much as it has: of n shares that take what they can, each
	// has a part of n+1 of the level's bytes, and as many are left for the next one.
	Fair bool
}

// Budget counts bytes by level and share, and refuses those above its limit. Only Wait blocks. It
// has no goroutine, and keeps an entry only for shares that have bytes. It is safe for concurrent
// use.
type Budget struct {
	limit  int64        // 0 or less: no bound
	others func() int64 // bytes that count against limit and are of no level; nil: none
	mu     sync.Mutex
	// levels has the same index as the arguments of New.
	levels []levelState
	// waiting has what is waited for; the callers of Wait bound it.
	waiting []*waiter
}

type levelState struct {
	Level
	used, peak int64
	refused    uint64
	shares     map[string]int64
}

// New returns a Budget of limit bytes. A limit of 0 or less is none. New panics if the levels
// reserve more than the limit, which is a mistake of the program.
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

// CountAlso has the bytes that others returns count against the limit, in addition to those of the
// levels. It must be called before any other method. The Budget calls others with its lock held.
func (b *Budget) CountAlso(others func() int64) { b.others = others }

// ExceededError is returned for bytes that a Budget refuses.
type ExceededError struct {
	// Level is the name of the level.
	Level string
	// OfShare is true if the share had too many bytes, and false if the level or the budget had.
	OfShare bool
}

func (e *ExceededError) Error() string {
	if e.OfShare {
		return "budget: one share of level " + e.Level + " uses all bytes that it may"
	}
	return "budget: level " + e.Level + " uses all bytes that it may"
}

// Charge is the bytes of one request, connection or the like. The zero Charge has no bytes, and no
// budget: only Release may be called on it. A Charge must not be copied once it has bytes. It is
// safe for concurrent use.
type Charge struct {
	budget *Budget
	level  int
	share  string
	bytes  int64
}

// Take charges n bytes to a share of a level. The share "" is not limited by Level.Share. It
// returns an *ExceededError if the bytes exceed a bound; nothing is charged then. The caller must
// Release the Charge.
func (b *Budget) Take(level int, share string, n int64) (*Charge, error) {
	c := b.NewCharge(level, share)
	if err := c.Grow(n); err != nil {
		return nil, err
	}
	return c, nil
}

// NewCharge returns a Charge of no bytes, for Grow and Add.
func (b *Budget) NewCharge(level int, share string) *Charge {
	return &Charge{budget: b, level: level, share: share}
}

// Grow adds n bytes, which must not be negative, or returns an *ExceededError and adds nothing.
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

// Add adds n bytes even if they exceed a bound, or removes them if n is negative. It is for bytes
// that are there already.
func (c *Charge) Add(n int64) {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	if c.add(n); n < 0 {
		c.budget.grant()
	}
}

// Move moves the bytes to a share of another level, even if they exceed a bound there: they are in
// memory already.
func (c *Charge) Move(level int, share string) {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	c.move(level, share)
}

// move moves the bytes. The caller holds the lock.
func (c *Charge) move(level int, share string) {
	n := c.bytes
	c.add(-n)
	c.level, c.share = level, share
	c.add(n)
	c.budget.grant()
}

// MoveToShare moves the bytes to a share of another level. It returns an *ExceededError, and moves
// nothing, if the share would have more than Level.Share. It checks no other bound.
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

// Room returns by how many bytes the charge may grow. It is not positive if a bound is reached.
func (c *Charge) Room() int64 {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	return c.budget.shareRoom(c.level, c.share)
}

// add changes the bytes of a charge. The caller holds the lock.
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

// fits returns an *ExceededError unless a share of a level may have n bytes more. The caller holds
// the lock.
func (b *Budget) fits(level int, share string, n int64) error {
	switch {
	case n > b.room(level):
		return &ExceededError{Level: b.levels[level].Name}
	case n > b.shareRoom(level, share):
		return &ExceededError{Level: b.levels[level].Name, OfShare: true}
	}
	return nil
}

// Room returns how many bytes a level may still have. It is not positive if a bound is reached.
func (b *Budget) Room(level int) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.room(level)
}

// room is Room. The caller holds the lock.
func (b *Budget) room(level int) int64 {
	switch l := &b.levels[level]; {
	case b.limit <= 0:
		return math.MaxInt64
	case l.Most > 0:
		return min(b.free(level), l.Most-l.used)
	}
	return b.free(level)
}

// shareRoom returns how many bytes a share of a level may still have. The caller holds the lock.
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

// free returns how many bytes a level may still have by the limit of the budget: what it has
// reserved, and what no level has reserved or uses. The caller holds the lock.
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

// Excess returns by how many bytes a level exceeds its bound, or the budget its limit, whichever is
// more. 0 or less: neither does. It can be positive only by Add and Move.
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

// Usage is what a level of a Budget uses.
type Usage struct {
	// Level is the name of the level.
	Level string
	// Used is its bytes, and Peak the most that it has ever had.
	Used, Peak int64
	// Refused counts the charges that were refused.
	Refused uint64
	// Shares counts the shares that have bytes.
	Shares int
}

// Usage returns the use of each level, in the order of New.
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

// Used returns the bytes of all levels, and those of CountAlso.
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

// Limit returns the bytes of the budget. 0 or less: it has no bound.
func (b *Budget) Limit() int64 { return b.limit }

// ShareBytes returns the bytes of a share of a level.
func (b *Budget) ShareBytes(level int, share string) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.levels[level].shares[share]
}
