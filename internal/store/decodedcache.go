package store

import (
	"sync"
	"sync/atomic"
	"time"
)

// idleTicks is the number of sweeps in one DecodedIdle.
const idleTicks = 8

// sweepChunk bounds how many forms a sweep visits under one lock.
const sweepChunk = 1024

// decodedCache holds decoded forms on three shelves, by why they are held: because they were read
// (see Object.Decoded), for the object's next change (see Store.Keep), and for other handlers (see
// Store.Lend). One budget bounds what all shelves hold. Whatever goes over a bound is evicted by
// the CLOCK algorithm. A hand goes round a shelf. A form that was read since the hand came by gets
// a second chance, and the first other one goes.
//
// One goroutine sweeps all shelves and lets go of forms that nobody has read for a while. It runs
// while there are any, and ends by itself, or with close. Lock order: no other lock is taken inside
// mu.
type decodedCache struct {
	idle   time.Duration
	budget int64 // 0: none
	ahead  int64 // bound of the shelf changed; that of lent is a quarter of it

	hits, misses atomic.Int64 // reads that found a decoded form, and reads that made one

	mu      sync.Mutex
	read    shelf // has weak forms too; bounded by the number of objects
	changed shelf
	lent    shelf
	changes uint32       // counts calls of Keep with a new version
	hitRate float64      // moving average; with h timely hits for each change it tends to h/(1+h)
	list    *listedForms // nil: there is no list
	running bool
	closed  bool
	done    chan struct{}
	wg      sync.WaitGroup
}

// aheadBytes is the bound of the shelf changed if there is no budget: some 2,000 pods.
const aheadBytes = 32 << 20

func newDecodedCache(idle time.Duration, budget int64) *decodedCache {
	if idle <= 0 {
		idle = time.Minute
	}
	c := &decodedCache{idle: idle, done: make(chan struct{})}
	c.setBudget(budget)
	return c
}

func (c *decodedCache) setBudget(budget int64) {
	c.budget, c.ahead = budget, aheadBytes
	if budget > 0 {
		c.ahead = budget / 2
	}
}

// shelf is a set of forms. The cache's lock guards it.
type shelf struct {
	forms []*decodedState
	bytes int64 // of those held strongly
	hand  int   // of CLOCK: a position in forms
}

// attach puts d, o's decoded form, on a shelf, and has it swept.
func (c *decodedCache) attach(o *Object, d *decodedState, on *shelf) {
	d.owner, d.on, d.pos, d.age = o, on, int32(len(on.forms)), 0
	on.forms = append(on.forms, d)
	if d.strong.Load() != nil {
		on.bytes += d.bytes
	}
	c.startLocked()
}

func (c *decodedCache) startLocked() {
	if !c.running {
		c.running = true
		c.wg.Go(c.run)
	}
}

// detach takes d from its shelf, if it is on one. It stays held as it is.
func (c *decodedCache) detach(d *decodedState) {
	on := d.on
	if on == nil {
		return
	}
	if d.strong.Load() != nil {
		on.bytes -= d.bytes
	}
	last := len(on.forms) - 1
	moved := on.forms[last]
	on.forms[d.pos], moved.pos = moved, d.pos
	on.forms[last] = nil
	on.forms = on.forms[:last]
	d.owner, d.on = nil, nil
	if cap(on.forms) > 1024 && last < cap(on.forms)/4 {
		on.forms = append(make([]*decodedState, 0, cap(on.forms)/2), on.forms...)
	}
}

// watch starts to track d, o's decoded form, which is held weakly.
func (c *decodedCache) watch(o *Object, d *decodedState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.track(o, d)
}

// track starts to track d, o's decoded form, unless that is tracked. It returns false if d must not
// be held. A version that is no longer in the table is not held for being read: whoever takes it
// out of the table marks it first and then calls drop. The lock is held.
func (c *decodedCache) track(o *Object, d *decodedState) bool {
	if d.on != nil {
		return true
	}
	if c.closed || !o.live() {
		return false
	}
	c.attach(o, d, &c.read)
	return true
}

// hold holds d strongly, because it was read again soon after.
func (c *decodedCache) hold(o *Object, d *decodedState, box *decodedBox) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holdLocked(o, d, box)
}

// holdLocked holds d strongly, if it may be held and fits the budget. The lock is held.
func (c *decodedCache) holdLocked(o *Object, d *decodedState, box *decodedBox) {
	if d.strong.Load() != nil || !c.track(o, d) || c.budget > 0 && d.bytes > c.budget {
		return
	}
	d.strong.Store(box)
	d.on.bytes += d.bytes
	c.evict()
}

// evict brings what is held down to its bounds. The lock is held.
func (c *decodedCache) evict() {
	for c.lent.bytes > c.ahead/lentFraction {
		c.giveBack(c.lent.victim())
	}
	for c.budget > 0 && c.read.bytes > 0 && c.held() > c.budget {
		c.weaken(c.read.victim())
	}
}

// held returns the bytes of all forms that are held strongly.
func (c *decodedCache) held() int64 { return c.read.bytes + c.changed.bytes + c.lent.bytes }

// victim moves the hand on to the form that is to go. One form at least is held strongly.
func (s *shelf) victim() *decodedState {
	for {
		s.hand++
		if s.hand >= len(s.forms) {
			s.hand = 0
		}
		d := s.forms[s.hand]
		if d.strong.Load() == nil || d.used.And(^uint32(usedSinceHand))&usedSinceHand != 0 {
			continue // not held, or a second chance
		}
		return d
	}
}

// weaken leaves d to the garbage collector, on its shelf.
func (c *decodedCache) weaken(d *decodedState) {
	if d.strong.Swap(nil) != nil {
		d.on.bytes -= d.bytes
	}
}

// drop lets go of d if it was held for being read: its object has left the table, or has another
// decoded form.
func (c *decodedCache) drop(d *decodedState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d.on == &c.read {
		c.weaken(d)
		c.detach(d)
	}
}

// release lets go of d, which is on a shelf.
func (c *decodedCache) release(d *decodedState) {
	o := d.owner
	c.weaken(d)
	c.detach(d)
	if !d.weak.alive() {
		o.decoded.CompareAndSwap(d, nil)
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

// sweep ages all forms by a tick. It returns false if none is left.
func (c *decodedCache) sweep() bool {
	c.mu.Lock()
	list := c.list
	c.mu.Unlock()
	if list != nil {
		list.expire()
	}
	c.sweepShelf(&c.read, c.ageRead)
	c.sweepShelf(&c.changed, c.ageChanged)
	c.sweepShelf(&c.lent, c.ageLent)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = !c.closed && (c.list != nil || len(c.read.forms)+len(c.changed.forms)+len(c.lent.forms) > 0)
	return c.running
}

// sweepShelf calls age with the forms of a shelf, and with the lock held.
func (c *decodedCache) sweepShelf(s *shelf, age func(*decodedState)) {
	// From the end, because detach moves the last one into the gap.
	for i := -1; i != 0; {
		c.mu.Lock()
		if i < 0 || i > len(s.forms) {
			i = len(s.forms)
		}
		for stop := max(0, i-sweepChunk); i > stop; i-- {
			if i <= len(s.forms) {
				age(s.forms[i-1])
			}
		}
		c.mu.Unlock()
	}
}

// grow makes d older by a tick, unless it was read since the last one. It returns the age in ticks.
func (d *decodedState) grow() int32 {
	if d.used.And(^uint32(usedSinceSweep))&usedSinceSweep != 0 {
		d.age = 0
	} else {
		d.age++
	}
	return d.age
}

// ageRead lets go of a form that was not read for idle. A list keeps all.
func (c *decodedCache) ageRead(d *decodedState) {
	switch {
	case d.grow() < idleTicks || c.list != nil:
	case d.strong.Load() != nil:
		c.weaken(d)
		d.age = 0
	default:
		c.release(d)
	}
}

// ageChanged lets go of a form whose object has not changed for idle. If the form was read since
// Keep, it moves to those that are held for being read.
func (c *decodedCache) ageChanged(d *decodedState) {
	if d.age++; d.age < idleTicks {
		return
	}
	if d.used.Load()&usedSinceSweep == 0 {
		c.release(d)
		return
	}
	c.toReaders(d, true)
}

// ageLent lets go of a form after one tick: handlers that share it are not far apart.
func (c *decodedCache) ageLent(d *decodedState) {
	if d.age++; d.age > 1 {
		c.giveBack(d)
	}
}

// giveBack lets go of a form that was lent. If it was read as well, it is held weakly from then on,
// as after a first read.
func (c *decodedCache) giveBack(d *decodedState) {
	if d.weak == (weakValue{}) && d.used.Load()&usedSinceSweep == 0 {
		c.release(d)
		return
	}
	c.toReaders(d, false)
}

// toReaders moves a form that was held for handlers to those that are held for being read:
// strongly, or as after a first read. A version that is no longer in the table is let go of.
func (c *decodedCache) toReaders(d *decodedState, strongly bool) {
	o, read, box := d.owner, d, &decodedBox{value: d.strong.Load().value}
	if d.weak == (weakValue{}) { // which others read without the lock
		read = newDecodedState(box, d.bytes)
		if !o.decoded.CompareAndSwap(d, read) {
			c.release(d)
			return
		}
	}
	c.weaken(d)
	c.detach(d)
	if strongly {
		c.holdLocked(o, read, box)
	} else {
		c.track(o, read)
	}
}

// close lets go of everything, and blocks until the goroutine has ended.
func (c *decodedCache) close() {
	c.mu.Lock()
	if !c.closed {
		c.closed, c.list = true, nil
		close(c.done)
		for _, s := range []*shelf{&c.read, &c.changed, &c.lent} {
			for len(s.forms) > 0 {
				c.release(s.forms[len(s.forms)-1])
			}
		}
	}
	c.mu.Unlock()
	c.wg.Wait()
}

// footprint returns the estimated bytes of the strongly held forms and of the tracking.
func (c *decodedCache) footprint() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	const perForm = 160 // state, place on a shelf, the runtime's weak handle
	n := len(c.read.forms) + len(c.changed.forms) + len(c.lent.forms)
	return c.held() + int64(n)*perForm
}
