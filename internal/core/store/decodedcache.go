package store

import (
	"sync"
	"sync/atomic"
	"time"
)

// idleTicks is the number of sweeps in one DecodedIdle.
const idleTicks = 8

// sweepChunk bounds how many entries a sweep visits under one lock.
const sweepChunk = 1024

// decodedCache holds decoded values in three segments, by why they are held: because they were read
// (see Object.Decoded), for the object's next change (see Store.CacheLatest), and for other
// handlers (see Store.CacheForHandlers). One budget bounds what all segments hold. What
// exceeds a bound is evicted by the CLOCK algorithm. A hand goes round a segment. An entry that was
// read since the hand came by gets a second chance, and the first other one goes.
//
// One goroutine sweeps all segments and releases entries that were not read for a while. It runs
// while there are any, and ends by itself, or with close. Lock order: no other lock is taken inside
// mu.
type decodedCache struct {
	idle        time.Duration
	budget      int64 // 0: none
	latestLimit int64 // bound of the segment latest, and of the segment forHandlers

	hits, misses atomic.Int64 // reads that found a decoded value, and reads that made one

	mu          sync.Mutex
	read        cacheSegment // has weak entries too; bounded by the number of objects
	latest      cacheSegment
	forHandlers cacheSegment
	changes     uint32       // counts calls of CacheLatest with a new version
	hitRate     float64      // moving average; with h timely hits for each change it tends to h/(1+h)
	list        *decodedList // nil: there is no list
	running     bool
	closed      bool
	done        chan struct{}
	wg          sync.WaitGroup
}

// defaultLatestBytes is the bound of each of the segments latest and forHandlers if there is no
// budget: some 2,000 pods.
const defaultLatestBytes = 32 << 20

func newDecodedCache(idle time.Duration, budget int64) *decodedCache {
	if idle <= 0 {
		idle = time.Minute
	}
	c := &decodedCache{idle: idle, done: make(chan struct{})}
	c.setBudget(budget)
	return c
}

func (c *decodedCache) setBudget(budget int64) {
	c.budget, c.latestLimit = budget, defaultLatestBytes
	if budget > 0 {
		c.latestLimit = budget / 2
	}
}

// cacheSegment is a set of entries. The cache's lock guards it.
type cacheSegment struct {
	entries []*decodedEntry
	bytes   int64 // of those held strongly
	hand    int   // of CLOCK: a position in entries
}

// attach puts d, o's decoded value, into a segment, and has it swept.
func (c *decodedCache) attach(o *Object, d *decodedEntry, segment *cacheSegment) {
	d.owner, d.segment, d.pos, d.age = o, segment, int32(len(segment.entries)), 0
	segment.entries = append(segment.entries, d)
	if d.strong.Load() != nil {
		segment.bytes += d.bytes
	}
	c.startLocked()
}

func (c *decodedCache) startLocked() {
	if !c.running {
		c.running = true
		c.wg.Go(c.run)
	}
}

// detach takes d from its segment, if it is in one. It stays held as it is.
func (c *decodedCache) detach(d *decodedEntry) {
	segment := d.segment
	if segment == nil {
		return
	}
	if d.strong.Load() != nil {
		segment.bytes -= d.bytes
	}
	last := len(segment.entries) - 1
	moved := segment.entries[last]
	segment.entries[d.pos], moved.pos = moved, d.pos
	segment.entries[last] = nil
	segment.entries = segment.entries[:last]
	d.owner, d.segment = nil, nil
	if cap(segment.entries) > 1024 && last < cap(segment.entries)/4 {
		segment.entries = append(make([]*decodedEntry, 0, cap(segment.entries)/2), segment.entries...)
	}
}

// track starts to track d, o's decoded value, which is held weakly.
func (c *decodedCache) track(o *Object, d *decodedEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trackLocked(o, d)
}

// trackLocked starts to track d, o's decoded value, unless that is tracked. It returns false if d
// must not be held. A version that is no longer in the table is not held for being read: a writer
// that removes a version from the table clears its owners first and then calls drop. The caller
// holds the lock.
func (c *decodedCache) trackLocked(o *Object, d *decodedEntry) bool {
	if d.segment != nil {
		return true
	}
	if c.closed || !o.live() {
		return false
	}
	c.attach(o, d, &c.read)
	return true
}

// hold holds d strongly, because it was read again soon after.
func (c *decodedCache) hold(o *Object, d *decodedEntry, box *decodedBox) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holdLocked(o, d, box)
}

// holdLocked holds d strongly, if it may be held and fits the budget. The caller holds the lock.
func (c *decodedCache) holdLocked(o *Object, d *decodedEntry, box *decodedBox) {
	if d.strong.Load() != nil || !c.trackLocked(o, d) || c.budget > 0 && d.bytes > c.budget {
		return
	}
	d.strong.Store(box)
	d.segment.bytes += d.bytes
	c.evict()
}

// evict evicts entries until each bound is kept. The caller holds the lock.
func (c *decodedCache) evict() {
	for c.forHandlers.bytes > c.latestLimit {
		c.releaseForHandlers(c.forHandlers.victim())
	}
	for c.budget > 0 && c.read.bytes > 0 && c.held() > c.budget {
		c.weaken(c.read.victim())
	}
}

// held returns the bytes of all entries that are held strongly.
func (c *decodedCache) held() int64 { return c.read.bytes + c.latest.bytes + c.forHandlers.bytes }

// victim moves the hand on to the entry that is to go. One at least is held strongly.
func (s *cacheSegment) victim() *decodedEntry {
	for {
		s.hand++
		if s.hand >= len(s.entries) {
			s.hand = 0
		}
		d := s.entries[s.hand]
		if d.strong.Load() == nil || d.used.And(^uint32(usedSinceHand))&usedSinceHand != 0 {
			continue // not held, or a second chance
		}
		return d
	}
}

// weaken leaves d to the garbage collector, in its segment.
func (c *decodedCache) weaken(d *decodedEntry) {
	if d.strong.Swap(nil) != nil {
		d.segment.bytes -= d.bytes
	}
}

// drop releases d if it was held for being read: its object has left the table, or has another
// decoded value.
func (c *decodedCache) drop(d *decodedEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d.segment == &c.read {
		c.weaken(d)
		c.detach(d)
	}
}

// release releases d, which is in a segment.
func (c *decodedCache) release(d *decodedEntry) {
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

// sweep ages all entries by a tick. It returns false if none is left.
func (c *decodedCache) sweep() bool {
	c.mu.Lock()
	list := c.list
	c.mu.Unlock()
	if list != nil {
		list.expire()
	}
	c.sweepSegment(&c.read, c.ageRead)
	c.sweepSegment(&c.latest, c.ageLatest)
	c.sweepSegment(&c.forHandlers, c.ageForHandlers)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = !c.closed && (c.list != nil || len(c.read.entries)+len(c.latest.entries)+len(c.forHandlers.entries) > 0)
	return c.running
}

// sweepSegment calls age with the entries of a segment, and with the lock held.
func (c *decodedCache) sweepSegment(s *cacheSegment, age func(*decodedEntry)) {
	// From the end, because detach moves the last one into the gap.
	for i := -1; i != 0; {
		c.mu.Lock()
		if i < 0 || i > len(s.entries) {
			i = len(s.entries)
		}
		for stop := max(0, i-sweepChunk); i > stop; i-- {
			if i <= len(s.entries) {
				age(s.entries[i-1])
			}
		}
		c.mu.Unlock()
	}
}

// tick makes d older by a tick, unless it was read since the last one. It returns the age in ticks.
func (d *decodedEntry) tick() int32 {
	if d.used.And(^uint32(usedSinceSweep))&usedSinceSweep != 0 {
		d.age = 0
	} else {
		d.age++
	}
	return d.age
}

// ageRead releases an entry that was not read for idle. A list keeps all.
func (c *decodedCache) ageRead(d *decodedEntry) {
	switch {
	case d.tick() < idleTicks || c.list != nil:
	case d.strong.Load() != nil:
		c.weaken(d)
		d.age = 0
	default:
		c.release(d)
	}
}

// ageLatest releases an entry whose object has not changed for idle. If it was read since
// CacheLatest, it moves to the segment read.
func (c *decodedCache) ageLatest(d *decodedEntry) {
	if d.age++; d.age < idleTicks {
		return
	}
	if d.used.Load()&usedSinceSweep == 0 {
		c.release(d)
		return
	}
	c.moveToRead(d, true)
}

// ageForHandlers releases an entry after one tick: handlers that share it are not far apart.
func (c *decodedCache) ageForHandlers(d *decodedEntry) {
	if d.age++; d.age > 1 {
		c.releaseForHandlers(d)
	}
}

// releaseForHandlers releases an entry that was held for handlers. If it was read as well, it is
// held weakly from then on, as after a first read.
func (c *decodedCache) releaseForHandlers(d *decodedEntry) {
	if d.weak == (weakValue{}) && d.used.Load()&usedSinceSweep == 0 {
		c.release(d)
		return
	}
	c.moveToRead(d, false)
}

// moveToRead moves an entry that was held for handlers to the segment read: held strongly, or as
// after a first read. A version that is no longer in the table is released.
func (c *decodedCache) moveToRead(d *decodedEntry, strongly bool) {
	o, read, box := d.owner, d, &decodedBox{value: d.strong.Load().value}
	if d.weak == (weakValue{}) { // which others read without the lock
		read = newDecodedEntry(box, d.bytes)
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
		c.trackLocked(o, read)
	}
}

// close releases all entries, and blocks until the goroutine has ended.
func (c *decodedCache) close() {
	c.mu.Lock()
	if !c.closed {
		c.closed, c.list = true, nil
		close(c.done)
		for _, s := range []*cacheSegment{&c.read, &c.latest, &c.forHandlers} {
			for len(s.entries) > 0 {
				c.release(s.entries[len(s.entries)-1])
			}
		}
	}
	c.mu.Unlock()
	c.wg.Wait()
}

// footprint returns the estimated bytes of the strongly held values and of the tracking.
func (c *decodedCache) footprint() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	const perEntry = 160 // the entry, its place in a segment, the runtime's weak handle
	n := len(c.read.entries) + len(c.latest.entries) + len(c.forHandlers.entries)
	return c.held() + int64(n)*perEntry
}

// The segments latest and forHandlers hold values that handlers have received, because they are
// about to be needed again.

// A value is cached without condition in 1/unconditionalFraction of the bound of the segment
// latest. The rest is available while more than one in hitThreshold changes has a timely hit: one
// within timelyRounds times as many changes as the bound has room for values. Holding a value for
// longer costs more than decoding it again.
const (
	unconditionalFraction = 8
	hitThreshold          = 16
	timelyRounds          = 8
	hitWindow             = 1024 // changes
)

// CacheLatest offers the cache the value of an object's latest version, which a handler has just
// got: at the next change it is the old one and need not be decoded again. Readers find it too.
// What note returns, unless it is nil, comes with it from Object.Cached; note is called only if the
// value is held. CacheLatest reports whether it is: until ReleaseLatest, or until the object has
// not changed for Config.DecodedIdle. What is read then goes on to be held as in Object.Decoded.
//
// So an object that changes all the time, such as a lease or a node, costs one decoding for each
// change. If more objects change in turn than there is room for, few values are ever found again
// and only burden the garbage collector. So a new value never displaces others, and most of the
// room is available only while values are found. Safe for concurrent use.
func (s *Store) CacheLatest(o *Object, value any, note func() any) bool {
	c := s.decoder.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || o.size == 0 {
		return false
	}
	d := o.decoded.Load()
	if d != nil && (d.segment == &c.latest || d.segment == &c.forHandlers && d.refused) {
		return d.segment == &c.latest // another handler was here before
	}
	c.changes++
	c.hitRate -= c.hitRate / hitWindow
	limit := c.latestLimit
	if c.hitRate < 1./(hitThreshold+1) {
		limit /= unconditionalFraction
	}
	if c.latest.bytes+o.decodedBytes() > limit {
		if d != nil {
			d.refused = true
		}
		return false
	}
	box := &decodedBox{value: value}
	if note != nil {
		box.note = note()
	}
	d = c.insert(o, box, &c.latest)
	d.used.And(^uint32(usedSinceSweep)) // each read sets it again
	d.handlersLeft.Store(0)
	d.awaitsHit.Store(true)
	d.change = c.changes
	c.evict()
	return true
}

// countHit counts a timely hit: the first of d since CacheLatest, if that was worth holding it.
func (c *decodedCache) countHit(d *decodedEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !d.awaitsHit.Swap(false) || d.segment != &c.latest {
		return
	}
	if int64(c.changes-d.change)*c.latest.bytes <= timelyRounds*int64(len(c.latest.entries))*c.latestLimit {
		c.hitRate += (1 - c.hitRate) / hitWindow
	}
}

// ReleaseLatest releases what CacheLatest holds of a version that is not its object's latest any
// more. others is the number of handlers that are yet to get the version: it is held for them, as
// by CacheForHandlers. Safe for concurrent use.
func (s *Store) ReleaseLatest(o *Object, others int) {
	if o.decoded.Load() == nil {
		return
	}
	c := s.decoder.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	d := o.decoded.Load()
	switch {
	case d == nil || d.segment != &c.latest:
	case others == 0:
		c.release(d)
	default:
		c.holdForHandlers(o, d.strong.Load(), others)
	}
}

// CacheForHandlers caches the value of a version that one of several handlers has received, until
// that many others have received it too (see Object.Cached), for about an eighth of
// Config.DecodedIdle at most. When there is no room, it evicts about the oldest. By default there
// is room for about 2,000 pods, by which handlers may lag behind each other. If the last of them
// lagged further, each would decode everything. CacheForHandlers returns the value that all of them
// get: another one if another handler was first. Safe for concurrent use.
func (s *Store) CacheForHandlers(o *Object, value any, others int) any {
	if others == 0 || o.size == 0 {
		return value
	}
	c := s.decoder.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || o.decodedBytes() > c.latestLimit {
		return value
	}
	if d := o.decoded.Load(); d != nil {
		if box := d.strong.Load(); box != nil {
			c.handlerTook(d)
			return box.value
		}
	}
	return c.holdForHandlers(o, &decodedBox{value: value}, others)
}

// holdForHandlers holds the value of a version for a number of other handlers: the cached one, or
// else box. It returns the value that all of them get. The caller holds the lock.
func (c *decodedCache) holdForHandlers(o *Object, box *decodedBox, others int) any {
	d := c.insert(o, box, &c.forHandlers)
	d.used.And(^uint32(usedSinceSweep)) // each read sets it again
	d.handlersLeft.Store(int32(others))
	value := d.strong.Load().value
	c.evict()
	return value
}

// handlerTook counts that one of the handlers that d is held for has got it. The caller holds the
// lock.
func (c *decodedCache) handlerTook(d *decodedEntry) {
	if d.segment == &c.forHandlers && d.handlersLeft.Add(-1) <= 0 {
		c.releaseForHandlers(d)
	}
}

// insert puts the decoded value of a version into a segment: the one that there is, or else box.
// The caller holds the lock.
func (c *decodedCache) insert(o *Object, box *decodedBox, segment *cacheSegment) *decodedEntry {
	for {
		d := o.decoded.Load()
		if has, _ := d.load(); has != nil {
			if box.note != nil {
				has = &decodedBox{has.value, box.note}
			}
			c.detach(d)
			d.strong.Store(has)
			c.attach(o, d, segment)
			return d
		}
		fresh := &decodedEntry{bytes: o.decodedBytes()}
		fresh.used.Store(usedNow)
		fresh.strong.Store(box)
		if o.decoded.CompareAndSwap(d, fresh) {
			if d != nil {
				c.detach(d)
			}
			c.attach(o, fresh, segment)
			return fresh
		}
	}
}
