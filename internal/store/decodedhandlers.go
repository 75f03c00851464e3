package store

// The segments latest and forHandlers hold values that handlers have got, because somebody is about
// to need them again.

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

// CacheForHandlers holds a value that one of several handlers has got of a version until so many
// others have got it too (see Object.Cached), for about an eighth of Config.DecodedIdle at most.
// When there is no room the oldest go, about. There is room for some 2,000 pods by default, by
// which handlers may lag behind each other. If the last of them lagged further, each would decode
// everything. CacheForHandlers returns the value that all of them get: another one if somebody was
// first. Safe for concurrent use.
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

// holdForHandlers holds the value of a version for so many other handlers: the one that there is,
// or else box. It returns the value that all of them get. The caller holds the lock.
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
