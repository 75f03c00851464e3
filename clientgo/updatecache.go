package clientgo

import (
	"sync"
	"time"

	"github.com/weirproject/weir/internal/store"
)

// updateCache keeps the value of each object's newest version after a handler got it as an update:
// at the next change it is the old value and need not be decoded again. An entry is dropped once
// its object has not changed for idle. The bound is budget bytes, and one value for each object
// that has changed within idle; with several handlers two, because slower ones still need the
// previous version. With ShareDecoded a value shares unchanged fields with the previous one.
//
// So an object that changes all the time, such as a lease or a node, costs one decoding of what has
// changed. If more objects change in turn than the budget has room for, few entries are ever found
// again and only burden the garbage collector. Most of the budget is therefore available only while
// entries are found.
//
// Objects of the initial list bypass this cache. Safe for concurrent use.
type updateCache struct {
	idle   time.Duration
	budget int64 // bytes, estimated

	mu      sync.Mutex
	entries map[string]*updateEntry // by key
	bytes   int64
	changes int         // counts calls of admit
	hitRate float64     // moving average; with h timely hits for each change it tends to h/(1+h)
	timer   *time.Timer // runs while there are entries; ends with close
	closed  bool
}

// updateEntry holds one object's values.
type updateEntry struct {
	current, previous cachedVersion // previous may be empty
	last              time.Time
	change            int // updateCache.changes at the last change
}

// cachedVersion is a version of an object and its value.
type cachedVersion struct {
	object *store.Object
	value  any
	fields []wireField // digests, without bytes; only with ShareDecoded
}

// valueFactor estimates a value's memory from the size of its bytes, as package store does.
const valueFactor = 3

func (e *updateEntry) bytes() (n int64) {
	for _, v := range []*cachedVersion{&e.previous, &e.current} {
		if v.object != nil {
			n += valueFactor * int64(v.object.Size())
		}
	}
	return n
}

// updateCacheBudget is the default budget, in bytes: some 2,000 pods.
const updateCacheBudget = 32 << 20

func newUpdateCache(idle time.Duration, budget int64) *updateCache {
	if budget == 0 {
		budget = updateCacheBudget
	}
	return &updateCache{idle: idle, budget: budget, entries: map[string]*updateEntry{}}
}

// A value is admitted without condition into 1/unconditionalFraction of the budget. The rest is
// available while more than one in hitThreshold changes has a timely hit: one within timelyRounds
// times as many changes as the budget has room for values. Holding a value for longer costs more
// than decoding it again.
const (
	unconditionalFraction = 8
	hitThreshold          = 16
	timelyRounds          = 8
	hitWindow             = 1024 // changes
)

// get returns the cached value of a version.
func (c *updateCache) get(o *store.Object) (cachedVersion, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.lookup(o)
	if ok && c.isTimely(c.changes-c.entries[o.Key()].change) {
		c.hitRate += (1 - c.hitRate) / hitWindow
	}
	return v, ok
}

// has reports whether a version is cached. It does not count as a hit.
func (c *updateCache) has(o *store.Object) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.lookup(o)
	return ok
}

// isTimely reports whether a value that is found so many changes after its own was worth holding.
func (c *updateCache) isTimely(changes int) bool {
	return int64(changes)*c.bytes <= timelyRounds*int64(len(c.entries))*c.budget
}

// lookup returns the cached value of a version. The caller holds mu.
func (c *updateCache) lookup(o *store.Object) (cachedVersion, bool) {
	e := c.entries[o.Key()]
	switch {
	case e == nil:
	case e.current.object == o:
		return e.current, true
	case e.previous.object == o:
		return e.previous, true
	}
	return cachedVersion{}, false
}

// admit reports whether a value of this version should be put. A new object never displaces others.
// admit is called once for each change; if it reports false it drops the object's previous value.
func (c *updateCache) admit(o *store.Object) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	c.hitRate -= c.hitRate / hitWindow
	limit := c.budget
	if c.hitRate < 1./(hitThreshold+1) {
		limit /= unconditionalFraction
	}
	if c.entries[o.Key()] == nil {
		return c.bytes+valueFactor*int64(o.Size()) <= limit
	}
	if c.bytes > limit {
		c.removeLocked(o.Key())
		return false
	}
	return true
}

// put caches the value of a version in place of the previous one; with several handlers it keeps
// the previous one too, for those that have yet to get the change. A value that exceeds the budget
// is not cached, because the cached ones are as likely to be needed.
func (c *updateCache) put(v cachedVersion, several bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[v.object.Key()]
	switch {
	case c.closed:
		return
	case e == nil:
		e = &updateEntry{}
		c.entries[v.object.Key()] = e
	case e.current.object.Revision() >= v.object.Revision():
		return // a faster handler was here before
	}
	c.bytes -= e.bytes()
	e.previous, e.current, e.last, e.change = e.current, v, time.Now(), c.changes
	if !several {
		e.previous = cachedVersion{}
	}
	if c.bytes += e.bytes(); c.bytes > c.budget {
		c.removeLocked(v.object.Key())
		return
	}
	if c.timer == nil {
		c.timer = time.AfterFunc(c.idle/checksPerIdle, c.expire)
	}
}

// remove drops the values of an object that was deleted.
func (c *updateCache) remove(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeLocked(key)
}

// removeLocked is remove for a caller that holds mu.
func (c *updateCache) removeLocked(key string) {
	if e := c.entries[key]; e != nil {
		c.bytes -= e.bytes()
		delete(c.entries, key)
	}
}

// checksPerIdle is how many times the timer fires within idle.
const checksPerIdle = 4

// expire drops the values of objects that have not changed for idle, and restarts the timer while
// there are others.
func (c *updateCache) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for key, e := range c.entries {
		if now.Sub(e.last) >= c.idle {
			c.removeLocked(key)
		}
	}
	if len(c.entries) == 0 {
		c.entries, c.timer = map[string]*updateEntry{}, nil // a map never shrinks
		return
	}
	c.timer.Reset(c.idle / checksPerIdle)
}

// close empties the cache for good.
func (c *updateCache) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
	clear(c.entries)
	c.bytes = 0
}
