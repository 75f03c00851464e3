package store

import (
	"fmt"
	"slices"
	"sync"
)

// funcIndex is an index by somebody's function. It is kept by those who query
// it, under its own lock, inside which the store's and the log's are taken.
type funcIndex struct {
	s    *Store
	name string
	fn   func(decoded any) ([]string, error)

	mu      sync.Mutex
	built   bool
	upTo    uint64            // revision of the newest snapshot that it was caught up with
	dirty   dirtyKeys         // what has changed since; guarded by the log's lock
	later   map[string]uint64 // what has changed after upTo
	entries tree[indexKey, struct{}]
	known   map[string]funcEntry // by object key
	failed  map[string]funcFailure
}

// funcFailure is why there is nothing of an object.
type funcFailure struct {
	err       error
	undecoded bool // the function was not called
}

// funcEntry is what the function made of one version.
type funcEntry struct {
	revision uint64
	values   []string
}

func newFuncIndex(s *Store, name string, fn func(any) ([]string, error)) *funcIndex {
	return &funcIndex{s: s, name: name, fn: fn}
}

// by returns the objects of sn under value, in key order.
func (x *funcIndex) by(sn *Snapshot, value string) ([]*Object, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.catchUp(sn)
	var objects []*Object
	x.entries.ascend(indexKey{value: value}, func(k indexKey, _ struct{}) bool {
		if k.value != value {
			return false
		}
		o, ok := sn.table.get(k.key)
		if !ok {
			return true
		}
		if o.revision != x.known[k.key].revision {
			// The snapshot is older than the index: ask for its version.
			if values, fail := x.call(o); fail.err != nil || !slices.Contains(values, value) {
				return true
			}
		}
		objects = append(objects, o)
		return true
	})
	return objects, x.err(false)
}

func (x *funcIndex) distinct(sn *Snapshot) (values []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.catchUp(sn)
	eachValue(&x.entries, func(v string) bool {
		values = append(values, v)
		return true
	})
	return values
}

// allErr is err with the objects that could not be decoded.
func (x *funcIndex) allErr(sn *Snapshot) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.catchUp(sn)
	return x.err(true)
}

// err names the first object that the function failed for, or that could not be decoded if that counts.
func (x *funcIndex) err(undecoded bool) error {
	first, n := "", 0
	for key, f := range x.failed {
		if f.undecoded && !undecoded {
			continue
		}
		if n++; n == 1 || key < first {
			first = key
		}
	}
	if n == 0 {
		return nil
	}
	return &IndexError{Index: x.name, Key: first, More: n - 1, Err: x.failed[first].err}
}

// catchUp moves the index on to sn, if sn is newer.
func (x *funcIndex) catchUp(sn *Snapshot) {
	if !x.built {
		x.build(sn)
		return
	}
	if sn.revision <= x.upTo {
		return
	}
	revs, lost := x.s.log.take(&x.dirty)
	if lost {
		x.build(sn)
		return
	}
	x.upTo = sn.revision
	later := x.later
	x.later = nil
	x.derive(sn, later)
	x.derive(sn, revs)
}

func (x *funcIndex) derive(sn *Snapshot, revs map[string]uint64) {
	for key, rev := range revs {
		if rev > sn.revision {
			if x.later == nil {
				x.later = make(map[string]uint64)
			}
			x.later[key] = rev
		}
		o, _ := sn.table.get(key)
		x.change(key, o)
	}
}

// build derives everything anew from sn, and notes what has changed since sn.
func (x *funcIndex) build(sn *Snapshot) {
	x.s.mu.Lock()
	x.s.log.collect(&x.dirty)
	current := x.s.snapshotLocked()
	x.s.mu.Unlock()
	x.built, x.upTo, x.later = true, sn.revision, differences(sn, current)
	x.entries = newTree[indexKey, struct{}](compareIndexKeys)
	x.known, x.failed = make(map[string]funcEntry), make(map[string]funcFailure)
	for o := range sn.All() {
		x.change(o.key, o)
	}
}

// differences are the keys that are not the same in both snapshots.
func differences(a, b *Snapshot) map[string]uint64 {
	if a.revision == b.revision {
		return nil
	}
	revs := make(map[string]uint64)
	for o := range a.All() {
		if other, _ := b.Get(o.key); other != o {
			revs[o.key] = b.revision
		}
	}
	for o := range b.All() {
		if _, ok := a.Get(o.key); !ok {
			revs[o.key] = b.revision
		}
	}
	return revs
}

// change puts the values of o, nil if there is none, in place of what is there
// for key.
func (x *funcIndex) change(key string, o *Object) {
	was, ok := x.known[key]
	if ok && o != nil && was.revision == o.revision {
		return
	}
	for _, v := range was.values {
		x.entries.delete(indexKey{v, key})
	}
	delete(x.known, key)
	delete(x.failed, key)
	if o == nil {
		return
	}
	values, fail := x.call(o)
	if fail.err != nil {
		x.failed[o.key] = fail
		return
	}
	own := make([]string, 0, len(values))
	for _, v := range values {
		if shared, ok := firstValue(&x.entries, v, func(s string) bool { return s == v }); ok {
			v = shared
		}
		x.entries.set(indexKey{v, o.key}, struct{}{})
		own = append(own, v)
	}
	x.known[o.key] = funcEntry{o.revision, own}
}

// call calls the function; a panic is an error. An object that cannot be decoded has no values: who reads that object gets
// the error, and nobody else should go without the others.
func (x *funcIndex) call(o *Object) (values []string, fail funcFailure) {
	decoded, err := o.peek()
	if err != nil {
		return nil, funcFailure{err, true}
	}
	defer func() {
		if p := recover(); p != nil {
			values, fail = nil, funcFailure{err: fmt.Errorf("panic: %v", p)}
		}
	}()
	values, err = x.fn(decoded)
	return values, funcFailure{err: err}
}

// footprint estimates the memory. An index that is being queried is waited for.
func (x *funcIndex) footprint() int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := x.entries.footprint(32)
	for _, e := range x.known {
		n += 64
		for _, v := range e.values {
			n += 16 + int64(len(v))
		}
	}
	return n
}
