package clientgo

import (
	"sync"
	"time"

	"github.com/weirproject/weir/internal/store"
)

// recent keeps what handlers were handed as the new version of an object that has changed: at its next change it is the old
// one, and then need not be decoded. It is held until the object has not changed for idle. So what is held is at most one
// value for each object that has changed within idle, and no more than budget; with several handlers two, of which the slower
// ones still want the first. A value shares with the one before what is the same in both.
//
// Objects that change all the time, such as leases and nodes, thus cost one decoding of what has changed in them. Where more objects
// change in turn than there is room for, hardly any is found again, and what is held only makes the garbage collector work. So most of
// the budget is for values that are found.
//
// The initial list does not come by here. Safe for concurrent use.
type updateCache struct {
	idle   time.Duration
	budget int64 // bytes, estimated

	mu      sync.Mutex
	entries map[string]*updateEntry // by key
	bytes   int64
	changes int         // so far
	hitRate float64     // how often a value was found soon, lately: nears h/(1+h) if h are found for each change
	timer   *time.Timer // runs while there are entries
	closed  bool
}

// entry is what is held of an object.
type updateEntry struct {
	current, previous cachedVersion // before may be none
	last              time.Time
	change            int // of recent.changes: the last
}

// version is a version and its value.
type cachedVersion struct {
	object *store.Object
	value  any
	fields []wireField // without their bytes
}

// valueFactor estimates the memory of a value from its bytes, as package store does.
const valueFactor = 3

func (e *updateEntry) bytes() (n int64) {
	for _, v := range []*cachedVersion{&e.previous, &e.current} {
		if v.object != nil {
			n += valueFactor * int64(v.object.Size())
		}
	}
	return n
}

// recentBudget is the budget where Options.DecodedBudget says none: some 2,000 pods.
const updateCacheBudget = 32 << 20

func newUpdateCache(idle time.Duration, budget int64) *updateCache {
	if budget == 0 {
		budget = updateCacheBudget
	}
	return &updateCache{idle: idle, budget: budget, entries: map[string]*updateEntry{}}
}

// One freeShare-th of the budget is there for any value. The rest is there while for each change more than one in worthShare is found
// soon: within soonTurns times as many changes as the budget has room for values. To hold a value for longer costs more than to
// decode it again.
const (
	unconditionalFraction = 8
	hitThreshold          = 16
	timelyRounds          = 8
	hitWindow             = 1024 // changes
)

// get finds a version that is held.
func (r *updateCache) get(o *store.Object) (cachedVersion, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.lookup(o)
	if ok && r.isTimely(r.changes-r.entries[o.Key()].change) {
		r.hitRate += (1 - r.hitRate) / hitWindow
	}
	return v, ok
}

// has reports whether a version is held.
func (r *updateCache) has(o *store.Object) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.lookup(o)
	return ok
}

// isSoon reports whether a value that is found so many changes after it came was worth holding.
func (r *updateCache) isTimely(changes int) bool {
	return int64(changes)*r.bytes <= timelyRounds*int64(len(r.entries))*r.budget
}

func (r *updateCache) lookup(o *store.Object) (cachedVersion, bool) {
	e := r.entries[o.Key()]
	switch {
	case e == nil:
	case e.current.object == o:
		return e.current, true
	case e.previous.object == o:
		return e.previous, true
	}
	return cachedVersion{}, false
}

// hasRoom says whether put is worth what it costs to prepare: an object that is new here may not drive out others. It is asked once for a
// change, and lets go of the version before if the new one is not to be held.
func (r *updateCache) admit(o *store.Object) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes++
	r.hitRate -= r.hitRate / hitWindow
	limit := r.budget
	if r.hitRate < 1./(hitThreshold+1) {
		limit /= unconditionalFraction
	}
	if r.entries[o.Key()] == nil {
		return r.bytes+valueFactor*int64(o.Size()) <= limit
	}
	if r.bytes > limit {
		r.removeLocked(o.Key())
		return false
	}
	return true
}

// put holds the value of a version, in place of the version before; with another handler that may still have to see the
// change, both. What there is no room for is not held: what is there is about to be wanted just as much.
func (r *updateCache) put(v cachedVersion, several bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[v.object.Key()]
	switch {
	case r.closed:
		return
	case e == nil:
		e = &updateEntry{}
		r.entries[v.object.Key()] = e
	case e.current.object.Revision() >= v.object.Revision():
		return // another handler was ahead
	}
	r.bytes -= e.bytes()
	e.previous, e.current, e.last, e.change = e.current, v, time.Now(), r.changes
	if !several {
		e.previous = cachedVersion{}
	}
	if r.bytes += e.bytes(); r.bytes > r.budget {
		r.removeLocked(v.object.Key())
		return
	}
	if r.timer == nil {
		r.timer = time.AfterFunc(r.idle/checksPerIdle, r.expire)
	}
}

// forget lets go of an object that is gone.
func (r *updateCache) remove(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removeLocked(key)
}

func (r *updateCache) removeLocked(key string) {
	if e := r.entries[key]; e != nil {
		r.bytes -= e.bytes()
		delete(r.entries, key)
	}
}

// sweeps is how many sweeps make up one idle.
const checksPerIdle = 4

// sweep lets go of what has not changed for long, and comes again while there is anything.
func (r *updateCache) expire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for key, e := range r.entries {
		if now.Sub(e.last) >= r.idle {
			r.removeLocked(key)
		}
	}
	if len(r.entries) == 0 {
		r.entries, r.timer = map[string]*updateEntry{}, nil // a map keeps its room
		return
	}
	r.timer.Reset(r.idle / checksPerIdle)
}

// close lets go of everything, for good.
func (r *updateCache) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.timer != nil {
		r.timer.Stop()
	}
	clear(r.entries)
	r.bytes = 0
}
