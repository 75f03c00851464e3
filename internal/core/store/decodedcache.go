package store

import (
	"sync"
	"sync/atomic"
	"time"
)

// idleTicks is the number of sweeps in one DecodedIdle.
const idleTicks = 8

// sweepChunk is the maximum number of entries that a sweep visits before it releases the lock.
const sweepChunk = 1024

// decodedCache tracks the decoded values that readers use. It refers strongly to the values that
// are read repeatedly: see Object.Decoded. A budget bounds the values with a strong reference. If
// these values exceed the budget, the CLOCK algorithm drops strong references: a hand moves around
// the entries, skips each entry that was read after the hand last passed it, and drops the
// reference of the next one.
//
// One goroutine sweeps the entries, and releases those that were not read for the idle time. The
// goroutine starts when the first entry or list is added. It ends when there is neither an entry
// nor a list, or when close is called. A goroutine that holds mu takes no other lock.
type decodedCache struct {
	idle   time.Duration
	budget int64 // 0: none

	hits, misses atomic.Int64 // reads that found a decoded value, and reads that decoded one
	forHandlers  atomic.Int64 // bytes of the log's values for handlers; part of the budget

	mu      sync.Mutex
	entries []*decodedEntry // also those with only a weak reference; at most one for each object
	bytes   int64           // of the values that the cache refers to strongly
	hand    int             // of CLOCK: a position in entries
	list    *decodedList    // nil: there is no list
	running bool
	closed  bool
	done    chan struct{}
	wg      sync.WaitGroup
}

func newDecodedCache(idle time.Duration, budget int64) *decodedCache {
	if idle <= 0 {
		idle = time.Minute
	}
	return &decodedCache{idle: idle, budget: budget, done: make(chan struct{})}
}

func (c *decodedCache) startLocked() {
	if !c.running {
		c.running = true
		c.wg.Go(c.run)
	}
}

// trackLocked starts to track d, o's decoded value, unless d is already tracked. It returns false
// if the cache must not track d, because the cache is closed or the version has left the table. (A
// writer that removes a version from the table first clears its owners and then calls drop.) The
// caller holds the lock.
func (c *decodedCache) trackLocked(o *Object, d *decodedEntry) bool {
	if d.owner != nil {
		return true
	}
	if c.closed || !o.live() {
		return false
	}
	d.owner, d.pos, d.age = o, int32(len(c.entries)), 0
	c.entries = append(c.entries, d)
	c.startLocked()
	return true
}

// detach stops tracking d, if d is tracked, and drops the strong reference to its value.
func (c *decodedCache) detach(d *decodedEntry) {
	if d.owner == nil {
		return
	}
	c.weaken(d)
	last := len(c.entries) - 1
	moved := c.entries[last]
	c.entries[d.pos], moved.pos = moved, d.pos
	c.entries[last] = nil
	c.entries, d.owner = c.entries[:last], nil
	if cap(c.entries) > 1024 && last < cap(c.entries)/4 {
		c.entries = append(make([]*decodedEntry, 0, cap(c.entries)/2), c.entries...)
	}
}

// replace starts to track fresh, the entry of o's new decoded value. It stops tracking d, the entry
// of the previous value, which no longer exists. d may be nil.
func (c *decodedCache) replace(o *Object, d, fresh *decodedEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d != nil {
		c.detach(d)
	}
	c.trackLocked(o, fresh)
}

// hold makes the cache refer to d's value strongly, because a caller has read the value twice. It
// is a no-op if the version has left the table, or if the value is larger than the budget.
func (c *decodedCache) hold(o *Object, d *decodedEntry, box *decodedBox) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d.strong.Load() != nil || !c.trackLocked(o, d) || c.budget > 0 && d.bytes > c.budget {
		return
	}
	d.strong.Store(box)
	c.bytes += d.bytes
	c.evictLocked()
}

// evictLocked evicts entries until the values fit the budget. The caller holds the lock.
func (c *decodedCache) evictLocked() {
	for c.budget > 0 && c.bytes > 0 && c.bytes+c.forHandlers.Load() > c.budget {
		c.weaken(c.victim())
	}
}

// victim moves the hand to the entry to evict. The cache must refer to at least one value strongly.
func (c *decodedCache) victim() *decodedEntry {
	for {
		c.hand++
		if c.hand >= len(c.entries) {
			c.hand = 0
		}
		d := c.entries[c.hand]
		if d.strong.Load() == nil || d.used.And(^uint32(usedSinceHand))&usedSinceHand != 0 {
			continue // weak, or read since the hand last passed
		}
		return d
	}
}

// weaken drops the strong reference to d's value. The cache still tracks d.
func (c *decodedCache) weaken(d *decodedEntry) {
	if d.strong.Swap(nil) != nil {
		c.bytes -= d.bytes
	}
}

// drop stops tracking d, because its object has left the table.
func (c *decodedCache) drop(d *decodedEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.detach(d)
}

// addForHandlers adds n, which may be negative, to the bytes of the values that the log keeps for
// handlers. If the values then exceed the budget, it evicts some.
func (c *decodedCache) addForHandlers(n int64) {
	if c.forHandlers.Add(n); n > 0 && c.budget > 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.evictLocked()
	}
}

func (c *decodedCache) run() {
	ticker := time.NewTicker(max(c.idle/idleTicks, 1))
	defer ticker.Stop()
	for {
		select {
		case <-c.done:
			return
		case <-ticker.C:
			if !c.sweep() {
				return
			}
		}
	}
}

// sweep ages all entries by a tick, and expires the list. It returns false if the goroutine must
// end: no entry and no list is left, or the cache is closed.
func (c *decodedCache) sweep() bool {
	c.mu.Lock()
	list := c.list
	c.mu.Unlock()
	if list != nil {
		list.expire()
	}
	// Sweep from the end, because detach moves the last entry into the gap.
	for i := -1; i != 0; {
		c.mu.Lock()
		if i < 0 || i > len(c.entries) {
			i = len(c.entries)
		}
		for stop := max(0, i-sweepChunk); i > stop; i-- {
			if i <= len(c.entries) {
				c.age(c.entries[i-1])
			}
		}
		c.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = !c.closed && (c.list != nil || len(c.entries) > 0)
	return c.running
}

// age makes d older by a tick, unless it was read since the last tick. After the idle time without
// a read, age drops the strong reference. If d has none, age releases d. The caller holds the lock.
func (c *decodedCache) age(d *decodedEntry) {
	if d.used.And(^uint32(usedSinceSweep))&usedSinceSweep != 0 {
		d.age = 0
	} else {
		d.age++
	}
	switch {
	case d.used.Load() == 0 && !d.weak.alive(): // never read, and freed by the garbage collector
		c.release(d)
	case d.age < idleTicks:
	case d.strong.Load() != nil:
		c.weaken(d)
		d.age = 0
	default:
		c.release(d)
	}
}

// release stops tracking d. If the garbage collector has freed the value, the object also drops its
// reference to d.
func (c *decodedCache) release(d *decodedEntry) {
	o := d.owner
	if c.detach(d); !d.weak.alive() {
		o.decoded.CompareAndSwap(d, nil)
	}
}

// close releases all entries, and blocks until the goroutine has ended.
func (c *decodedCache) close() {
	c.mu.Lock()
	if !c.closed {
		c.closed, c.list = true, nil
		close(c.done)
		for len(c.entries) > 0 {
			c.release(c.entries[len(c.entries)-1])
		}
	}
	c.mu.Unlock()
	c.wg.Wait()
}

// footprint estimates the bytes of the values to which the store refers strongly, and of the
// entries. listed is the size of the values in the decodedList; the cache may also refer to some of
// these values.
func (c *decodedCache) footprint(listed int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	const perEntry = 128 // the entry, its slot, the runtime's weak handle
	return max(c.bytes, listed) + c.forHandlers.Load() + int64(len(c.entries))*perEntry
}
