package store

// The shelves changed and lent hold forms that handlers have got, because somebody is about to need
// them again.

// A form is kept without condition in 1/unconditionalFraction of the bound of the shelf changed.
// The rest is available while more than one in hitThreshold changes has a timely hit: one within
// timelyRounds times as many changes as the bound has room for forms. Holding a form for longer
// costs more than decoding it again.
const (
	unconditionalFraction = 8
	hitThreshold          = 16
	timelyRounds          = 8
	hitWindow             = 1024 // changes
)

// lentFraction is the fraction of the shelf changed that the shelf lent may take: by default some
// 500 pods, by which handlers may lag behind each other.
const lentFraction = 4

// Keep offers the value of a version that a handler has just got as an object's new one: at the
// next change it is the old one and need not be decoded again. Readers find it too. What note
// returns, unless it is nil, comes with it from Take; note is called only if the value is held.
// Keep reports whether it is: until Retire, or until the object has not changed for
// Config.DecodedIdle. What is read then goes on to be held as in Object.Decoded.
//
// So an object that changes all the time, such as a lease or a node, costs one decoding for each
// change. If more objects change in turn than there is room for, few values are ever found again
// and only burden the garbage collector. So a new value never displaces others, and most of the
// room is available only while values are found. Safe for concurrent use.
func (s *Store) Keep(o *Object, value any, note func() any) bool {
	c := s.shared.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || o.size == 0 {
		return false
	}
	if d := o.decoded.Load(); d != nil && d.on == &c.changed {
		return true // another handler was here before
	}
	c.changes++
	c.hitRate -= c.hitRate / hitWindow
	limit := c.ahead
	if c.hitRate < 1./(hitThreshold+1) {
		limit /= unconditionalFraction
	}
	if c.changed.bytes+o.decodedBytes() > limit {
		return false
	}
	box := &decodedBox{value: value}
	if note != nil {
		box.note = note()
	}
	d := c.shelve(o, box, &c.changed)
	d.used.And(^uint32(usedSinceSweep)) // each read sets it again
	d.uses.Store(0)
	d.awaited.Store(true)
	d.change = c.changes
	c.evict()
	return true
}

// found counts a timely hit: the first read of d since Keep, if that was worth holding it.
func (c *decodedCache) found(d *decodedState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !d.awaited.Swap(false) || d.on != &c.changed {
		return
	}
	if int64(c.changes-d.change)*c.changed.bytes <= timelyRounds*int64(len(c.changed.forms))*c.ahead {
		c.hitRate += (1 - c.hitRate) / hitWindow
	}
}

// Retire ends what Keep began, for a version that is not its object's newest any more. If others
// handlers are yet to get the version, it is lent to them. Safe for concurrent use.
func (s *Store) Retire(o *Object, others int) {
	if o.decoded.Load() == nil {
		return
	}
	c := s.shared.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	d := o.decoded.Load()
	switch {
	case d == nil || d.on != &c.changed:
	case others == 0:
		c.release(d)
	default:
		c.lend(o, d.strong.Load(), others)
	}
}

// Lend holds a value that one of several handlers has got of a version until so many others have
// taken it (see Object.Take), for about an eighth of Config.DecodedIdle at most. When there is no
// room the oldest go, about. Lend returns the value that all of them get: another one if somebody
// was first. Safe for concurrent use.
func (s *Store) Lend(o *Object, value any, others int) any {
	if others == 0 || o.size == 0 {
		return value
	}
	c := s.shared.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || o.decodedBytes() > c.ahead/lentFraction {
		return value
	}
	if d := o.decoded.Load(); d != nil {
		if box := d.strong.Load(); box != nil {
			c.took(d)
			return box.value
		}
	}
	return c.lend(o, &decodedBox{value: value}, others)
}

// lend lends the form of a version to so many other handlers: the one that there is, or else box.
// It returns the value that all of them get. The lock is held.
func (c *decodedCache) lend(o *Object, box *decodedBox, others int) any {
	d := c.shelve(o, box, &c.lent)
	d.used.And(^uint32(usedSinceSweep)) // each read sets it again
	d.uses.Store(int32(others))
	value := d.strong.Load().value
	c.evict()
	return value
}

// took notes that one of the handlers that d was lent to has taken it. The lock is held.
func (c *decodedCache) took(d *decodedState) {
	if d.on == &c.lent && d.uses.Add(-1) <= 0 {
		c.giveBack(d)
	}
}

// shelve puts the decoded form of a version on a shelf: the one that there is, or else box. The
// lock is held.
func (c *decodedCache) shelve(o *Object, box *decodedBox, on *shelf) *decodedState {
	for {
		d := o.decoded.Load()
		if has, _ := d.form(); has != nil {
			if box.note != nil {
				has = &decodedBox{has.value, box.note}
			}
			c.detach(d)
			d.strong.Store(has)
			c.attach(o, d, on)
			return d
		}
		fresh := &decodedState{bytes: o.decodedBytes()}
		fresh.used.Store(usedNow)
		fresh.strong.Store(box)
		if o.decoded.CompareAndSwap(d, fresh) {
			if d != nil {
				c.detach(d)
			}
			c.attach(o, fresh, on)
			return fresh
		}
	}
}
