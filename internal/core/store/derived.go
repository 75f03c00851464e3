package store

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// derivedValues holds what the function of an index has returned for versions that the index has
// not reached yet: see Store.Derive.
type derivedValues struct {
	calls sync.Mutex // held while the function is called, by whomever; inside the index's lock

	mu      sync.Mutex
	reached uint64                 // what is older, the index has come to
	values  map[string]funcDerived // by object key; no more than there are objects, and dirtySlack
}

type funcDerived struct {
	revision uint64
	values   []string
	failed   bool // who queries the index finds out why
}

// deriveWait bounds how long Derive waits for functions. A busy machine keeps a goroutine from the
// processor for less than that.
const deriveWait = 100 * time.Millisecond

// derivation is a call of Derive. Its goroutine ends when the functions have returned. There is at
// most one for each caller of Derive. While one is left to itself, none begins.
type derivation struct {
	object  *Object
	decoded any
	done    chan struct{}
	state   atomic.Int32
}

// The states of a derivation, after 0.
const (
	derivationEnded = iota + 1
	derivationLeft  // no caller waits for it any more
)

// Derive calls the functions of indexes for a version that the caller has decoded anyway, so
// that the next query need not decode it once more. If several have decoded the version, the values
// of the first count.
//
// Derive waits for no query, and at most a short time for a function that blocks. It returns false
// if a function still reads the decoded value, which the caller must not change then. While a
// function blocks, Derive does nothing and returns true. Safe for concurrent use.
func (s *Store) Derive(o *Object, decoded any) bool {
	all := s.derives.Load()
	if all == nil || s.blocked.Load() > 0 || !o.live() {
		return true
	}
	wanted := false
	for _, x := range *all {
		wanted = wanted || x.derived.wants(o)
	}
	if !wanted {
		return true
	}
	d := &derivation{object: o, decoded: decoded, done: make(chan struct{})}
	go d.run(s, *all)
	patience := time.NewTimer(deriveWait)
	defer patience.Stop()
	select {
	case <-d.done:
		return true
	case <-patience.C:
	}
	s.blocked.Add(1)
	if d.state.CompareAndSwap(0, derivationLeft) {
		return false
	}
	s.blocked.Add(-1)
	return true
}

func (d *derivation) run(s *Store, all []*funcIndex) {
	defer d.end(s) // also when a function ends its goroutine
	for _, x := range all {
		x.derive(d.object, d.decoded)
	}
}

func (d *derivation) end(s *Store) {
	if d.state.CompareAndSwap(0, derivationEnded) {
		close(d.done)
	} else {
		s.blocked.Add(-1)
	}
}

// DropDerived drops what Derive has kept of the object under key. Call it when the object is
// gone.
func (s *Store) DropDerived(key string) {
	all := s.derives.Load()
	if all == nil {
		return
	}
	for _, x := range *all {
		x.derived.mu.Lock()
		delete(x.derived.values, key)
		x.derived.mu.Unlock()
	}
}

// derive computes the values of a version and keeps them for the next query.
func (x *funcIndex) derive(o *Object, decoded any) {
	d := &x.derived
	d.calls.Lock()
	defer d.calls.Unlock()
	if !d.wants(o) {
		return // another caller was faster
	}
	values, fail := x.callLocked(decoded)
	own := make([]string, len(values))
	for i, v := range values {
		own[i] = strings.Clone(v) // it may be a part of a longer one
	}
	d.put(o, funcDerived{o.revision, own, fail.err != nil}, x.s)
}

// wants reports whether neither the index nor the derived values have the version, or a newer one.
func (d *derivedValues) wants(o *Object) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.values[o.key].revision < o.revision && d.reached < o.revision
}

func (d *derivedValues) put(o *Object, v funcDerived, s *Store) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reached >= v.revision || !o.live() {
		return
	}
	if len(d.values) > dirtySlack && len(d.values) > s.Len()+dirtySlack {
		d.values = nil // those of objects that are gone are among them
	}
	if d.values == nil {
		d.values = make(map[string]funcDerived)
	}
	d.values[o.key] = v
}

// take returns the values that were derived from a version. ok is false if there are none.
func (d *derivedValues) take(o *Object) (values []string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v, ok := d.values[o.key]
	return v.values, ok && v.revision == o.revision && !v.failed
}

// reach drops the values of versions that the index has reached with a revision.
func (d *derivedValues) reach(revision uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reached = revision
	for key, v := range d.values {
		if v.revision <= revision {
			delete(d.values, key)
		}
	}
	if len(d.values) == 0 {
		d.values = nil // a map keeps its room
	}
}

func (d *derivedValues) footprint() (n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, v := range d.values {
		n += 80
		for _, value := range v.values {
			n += 16 + int64(len(value))
		}
	}
	return n
}
