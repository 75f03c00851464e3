package store

import (
	"sync"
	"time"
)

// idleTicks is the number of sweeps in one DecodedIdle.
const idleTicks = 8

// sweepChunk bounds how many objects a sweep visits under one lock.
const sweepChunk = 1024

// decodedCache lets go of decoded forms that nobody has read for a while. When those that it holds
// take more than the budget, it evicts by the CLOCK algorithm. A hand goes round. A form that was
// read since the hand came by gets a second chance, and the first other one goes.
//
// It tracks the objects of the table that have a decoded form, and is bounded by their number. Its
// one goroutine runs while it tracks any; it ends by itself, or with close. Lock order: no other
// lock is taken inside mu.
type decodedCache struct {
	idle   time.Duration
	budget int64 // 0: none

	mu      sync.Mutex
	tracked []*decodedState
	strong  int64 // bytes held strongly
	hand    int   // of CLOCK: a position in tracked
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

// watch starts to track d, o's decoded form, which is held weakly.
func (c *decodedCache) watch(o *Object, d *decodedState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.track(o, d)
}

// track is watch with the lock held. It returns false if d must not be held. A version that is no
// longer in the table is never held: whoever takes it out of the table marks it first and then
// calls drop.
func (c *decodedCache) track(o *Object, d *decodedState) bool {
	if d.owner != nil {
		return true
	}
	if c.closed || !o.live() {
		return false
	}
	d.owner, d.pos, d.age = o, len(c.tracked), 0
	c.tracked = append(c.tracked, d)
	if !c.running {
		c.running = true
		c.wg.Go(c.run)
	}
	return true
}

// hold holds d strongly, because it was read again soon after.
func (c *decodedCache) hold(o *Object, d *decodedState, box *decodedBox) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d.strong.Load() != nil || !c.track(o, d) || c.budget > 0 && d.bytes > c.budget {
		return
	}
	d.strong.Store(box)
	c.strong += d.bytes
	c.evict()
}

// evict moves the hand on until the strongly held forms fit the budget. The lock is held.
func (c *decodedCache) evict() {
	if c.budget <= 0 {
		return
	}
	for c.strong > c.budget {
		c.hand++
		if c.hand >= len(c.tracked) {
			c.hand = 0
		}
		d := c.tracked[c.hand]
		if d.strong.Load() == nil {
			continue
		}
		if d.used.And(^uint32(usedSinceHand))&usedSinceHand != 0 {
			continue // a second chance
		}
		c.weaken(d)
	}
}

func (c *decodedCache) weaken(d *decodedState) {
	if d.strong.Swap(nil) != nil {
		c.strong -= d.bytes
	}
}

// drop stops tracking d. Its object has left the table, or has another decoded form.
func (c *decodedCache) drop(d *decodedState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.untrack(d)
}

func (c *decodedCache) untrack(d *decodedState) {
	if d.owner == nil {
		return
	}
	c.weaken(d)
	last := len(c.tracked) - 1
	moved := c.tracked[last]
	c.tracked[d.pos], moved.pos = moved, d.pos
	c.tracked[last] = nil
	c.tracked = c.tracked[:last]
	d.owner, d.pos = nil, -1
	if cap(c.tracked) > 1024 && last < cap(c.tracked)/4 {
		c.tracked = append(make([]*decodedState, 0, cap(c.tracked)/2), c.tracked...)
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

// sweep ages all tracked forms by a tick. It returns false if none is left.
func (c *decodedCache) sweep() bool {
	// From the end, because untrack moves the last one into the gap.
	for i := -1; ; {
		c.mu.Lock()
		if i < 0 || i > len(c.tracked) {
			i = len(c.tracked)
		}
		for stop := max(0, i-sweepChunk); i > stop; i-- {
			if i <= len(c.tracked) {
				c.age(c.tracked[i-1])
			}
		}
		if i > 0 {
			c.mu.Unlock()
			continue
		}
		c.running = len(c.tracked) > 0 && !c.closed
		running := c.running
		c.mu.Unlock()
		return running
	}
}

func (c *decodedCache) age(d *decodedState) {
	if d.used.And(^uint32(usedSinceSweep))&usedSinceSweep != 0 {
		d.age = 0
		return
	}
	if d.age++; d.age < idleTicks {
		return
	}
	if d.strong.Load() != nil {
		c.weaken(d)
		d.age = 0
		return
	}
	o := d.owner
	c.untrack(d)
	if !d.weak.alive() {
		o.decoded.CompareAndSwap(d, nil)
	}
}

// close lets go of everything, and blocks until the goroutine has ended.
func (c *decodedCache) close() {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.done)
		for len(c.tracked) > 0 {
			c.untrack(c.tracked[len(c.tracked)-1])
		}
	}
	c.mu.Unlock()
	c.wg.Wait()
}

// footprint returns the estimated bytes of the strongly held forms and of the tracking.
func (c *decodedCache) footprint() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	const perTracked = 160 // state, list slot, the runtime's weak handle
	return c.strong + int64(len(c.tracked))*perTracked
}
