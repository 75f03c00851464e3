package store

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// derivedValues stores results of an index's function. They are for versions that are newer than
// the index; see Store.Derive.
type derivedValues struct {
	mu      sync.Mutex
	reached uint64               // the revision that the index has reached
	values  map[string]funcEntry // by object key; at most dirtySlack more than the number of objects
}

// deriveWait limits how long Derive waits for functions. Even on a busy machine, a goroutine waits
// less than deriveWait for a processor, so only a slow function exceeds it.
const deriveWait = 100 * time.Millisecond

// Derive calls the functions of indexes for a version that the caller has already decoded, so that
// the next query need not decode it again. If a function is running for another caller, Derive
// skips it, and the next query calls it for the version. If several callers derive from the same
// version, the store keeps the values of the first call.
//
// Derive waits at most deriveWait for the functions. If a function has not returned after that
// time, Derive returns false, and the caller must not modify the decoded value. Until that function
// returns, further calls of Derive are no-ops and return true. Each call starts at most two
// goroutines, which end when the functions have returned. Derive is safe for concurrent use.
func (s *Store) Derive(o *Object, decoded any) bool {
	all := s.derives.Load()
	if all == nil || s.blocked.Load() > 0 || !o.live() {
		return true
	}
	wants := func(x *funcIndex) bool { return x.derived.wants(o) }
	if !slices.ContainsFunc(*all, wants) {
		return true
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended) // also if a function ends its goroutine
		for _, x := range *all {
			if wants(x) && x.calls.TryLock() {
				x.derive(o, decoded)
			}
		}
	}()
	patience := time.NewTimer(deriveWait)
	defer patience.Stop()
	select {
	case <-ended:
		return true
	case <-patience.C:
	}
	s.blocked.Add(1)
	go func() {
		<-ended
		s.blocked.Add(-1)
	}()
	return false
}

// derive computes the values of a version and stores them for the next query. The caller has locked
// x.calls, and derive unlocks it.
func (x *funcIndex) derive(o *Object, decoded any) {
	defer x.calls.Unlock()
	if !x.derived.wants(o) {
		return // another caller has derived the values
	}
	values, err := x.callLocked(decoded)
	if err != nil {
		return // the query calls the function again and reports the error
	}
	own := make([]string, len(values))
	for i, v := range values {
		own[i] = strings.Clone(v) // v may be part of a longer string, and would keep it in memory
	}
	x.derived.put(o, own, x.s)
}

// DropDerived drops the values that Derive has stored for the object under key. A caller of Derive
// should call it after the object was deleted.
func (s *Store) DropDerived(key string) {
	if all := s.derives.Load(); all != nil {
		for _, x := range *all {
			x.derived.mu.Lock()
			delete(x.derived.values, key)
			x.derived.mu.Unlock()
		}
	}
}

// wants reports whether neither the index nor the derived values have this version or a newer one.
func (d *derivedValues) wants(o *Object) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.values[o.key].revision < o.revision && d.reached < o.revision
}

func (d *derivedValues) put(o *Object, values []string, s *Store) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reached >= o.revision || !o.live() {
		return
	}
	if len(d.values) > dirtySlack && len(d.values) > s.Len()+dirtySlack {
		d.values = nil // some of them belong to deleted objects
	}
	if d.values == nil {
		d.values = make(map[string]funcEntry)
	}
	d.values[o.key] = funcEntry{o.revision, values}
}

// take returns the values that were derived from a version. ok is false if there are none.
func (d *derivedValues) take(o *Object) (values []string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, ok := d.values[o.key]
	return e.values, ok && e.revision == o.revision
}

// reach drops the values of versions up to revision, which the index has reached.
func (d *derivedValues) reach(revision uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reached = revision
	maps.DeleteFunc(d.values, func(_ string, e funcEntry) bool { return e.revision <= revision })
	if len(d.values) == 0 {
		d.values = nil // a map does not shrink
	}
}

func (d *derivedValues) footprint() (n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.values {
		n += e.footprint()
	}
	return n
}
