package clientgo

import (
	"sync"
	"time"

	"github.com/weirproject/weir/store"
)

// recent keeps what handlers were handed as the new version of an object that has changed: at its next change it is the old
// one, and then need not be decoded. It is held until the object has not changed for idle. So what is held is at most one
// value for each object that has changed within idle, and no more than budget; with several handlers two, of which the slower
// ones still want the first. A value shares with the one before what is the same in both.
//
// Objects that change all the time, such as leases and nodes, thus cost one decoding of what has changed in them.
//
// The initial list does not come by here. Safe for concurrent use.
type recent struct {
	idle   time.Duration
	budget int64 // bytes, estimated

	mu      sync.Mutex
	entries map[string]*entry // by key
	bytes   int64
	sweeper *time.Timer // runs while there are entries
	closed  bool
}

// entry is what is held of an object.
type entry struct {
	now, before version // before may be none
	last        time.Time
}

// version is a version and its value.
type version struct {
	object *store.Object
	value  any
	parts  []part // without their bytes
}

// valueFactor estimates the memory of a value from its bytes, as package store does.
const valueFactor = 3

func (e *entry) bytes() (n int64) {
	for _, v := range []*version{&e.before, &e.now} {
		if v.object != nil {
			n += valueFactor * int64(v.object.Size())
		}
	}
	return n
}

// recentBudget is the budget where Options.DecodedBudget says none: some 2,000 pods.
const recentBudget = 32 << 20

func newRecent(idle time.Duration, budget int64) *recent {
	if budget == 0 {
		budget = recentBudget
	}
	return &recent{idle: idle, budget: budget, entries: map[string]*entry{}}
}

// get finds a version that is held.
func (r *recent) get(o *store.Object) (version, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[o.Key()]
	switch {
	case e == nil:
	case e.now.object == o:
		return e.now, true
	case e.before.object == o:
		return e.before, true
	}
	return version{}, false
}

// has reports whether a version is held.
func (r *recent) has(o *store.Object) bool {
	_, ok := r.get(o)
	return ok
}

// hasRoom says whether put is worth what it costs to prepare: an object that is new here may not drive out others.
func (r *recent) hasRoom(o *store.Object) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.entries[o.Key()] != nil || r.bytes+valueFactor*int64(o.Size()) <= r.budget
}

// put holds the value of a version, in place of the version before; with another handler that may still have to see the
// change, both. What there is no room for is not held: what is there is about to be wanted just as much.
func (r *recent) put(v version, several bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[v.object.Key()]
	switch {
	case r.closed:
		return
	case e == nil:
		e = &entry{}
		r.entries[v.object.Key()] = e
	case e.now.object.Revision() >= v.object.Revision():
		return // another handler was ahead
	}
	r.bytes -= e.bytes()
	e.before, e.now, e.last = e.now, v, time.Now()
	if !several {
		e.before = version{}
	}
	if r.bytes += e.bytes(); r.bytes > r.budget {
		r.drop(v.object.Key())
		return
	}
	if r.sweeper == nil {
		r.sweeper = time.AfterFunc(r.idle/sweeps, r.sweep)
	}
}

// forget lets go of an object that is gone.
func (r *recent) forget(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(key)
}

func (r *recent) drop(key string) {
	if e := r.entries[key]; e != nil {
		r.bytes -= e.bytes()
		delete(r.entries, key)
	}
}

// sweeps is how many sweeps make up one idle.
const sweeps = 4

// sweep lets go of what has not changed for long, and comes again while there is anything.
func (r *recent) sweep() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for key, e := range r.entries {
		if now.Sub(e.last) >= r.idle {
			r.drop(key)
		}
	}
	if len(r.entries) == 0 {
		r.entries, r.sweeper = map[string]*entry{}, nil // a map keeps its room
		return
	}
	r.sweeper.Reset(r.idle / sweeps)
}

// close lets go of everything, for good.
func (r *recent) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.sweeper != nil {
		r.sweeper.Stop()
	}
	clear(r.entries)
	r.bytes = 0
}
