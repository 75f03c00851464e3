package store

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// decodedList caches the values of the last List, for callers that list all objects repeatedly. It
// caches the result of a List under three conditions: the store is synced, another List was called
// at most listIdle before, and the values of all objects fit the budget. The sweep drops the values
// of objects that were replaced. It drops all values when List was not called for listIdle.
// Store.Close also drops all values. Two bounds limit the memory: the budget, and the size of all
// decoded objects, which is also the size of the result of each List.
type decodedList struct {
	store *Store
	size  atomic.Int64 // the number of values, readable without mu

	mu   sync.Mutex
	last time.Time // time of the last List
	kept *listed   // nil: no result is cached
}

// listed is the result of a List. It never changes. The leaves of a snapshot's table do not change
// either, so the next List decodes only the objects of new leaves.
type listed struct {
	root   *leaf // the root of the snapshot's table; nil: some values are missing
	values []any
	leaves map[*leaf][]any // the part of values for each leaf whose objects could all be decoded
}

const listIdle = time.Minute

// perListed estimates the bytes that a decodedList uses for each object in addition to the object's
// value.
const perListed = 24

// List returns the decoded values of all objects, in no order. Callers share the values, as with
// Object.Decoded. If an object cannot be decoded, List calls failed with the error and omits the
// object. List is safe for concurrent use.
func (s *Store) List(failed func(error)) []any {
	known, keep := s.list.begin()
	snap := s.Snapshot()
	if known == nil || known.root == nil || known.root != snap.table.root {
		known = known.update(snap, func(values []any, o *Object) []any {
			value, err := o.Decoded()
			if err != nil {
				failed(err)
				return values
			}
			return append(values, value)
		})
	} else {
		s.decoder.cache.hits.Add(int64(len(known.values)))
	}
	if keep {
		s.list.keep(known)
	}
	return slices.Clone(known.values)
}

// update returns the values of a snapshot's objects. For a leaf that has not changed, it copies the
// values from the earlier list (was). For the objects of other leaves it calls add, which appends
// their values. There may be no earlier list.
func (was *listed) update(snap *Snapshot, add func(values []any, o *Object) []any) *listed {
	is := &listed{root: snap.table.root, values: make([]any, 0, snap.Len()), leaves: make(map[*leaf][]any, 1+snap.Len()/maxTreeNode)}
	var known map[*leaf][]any
	if was != nil {
		known = was.leaves
	}
	snap.table.eachLeaf(func(l *leaf) {
		from := len(is.values)
		if values, ok := known[l]; ok {
			is.values = append(is.values, values...)
		} else {
			for i := range l.items {
				is.values = add(is.values, l.items[i].val)
			}
		}
		if part := is.values[from:]; len(part) == len(l.items) {
			is.leaves[l] = part
		} else {
			is.root = nil
		}
	})
	return is
}

// begin returns the cached result of the last List, or nil, and whether the result of this List
// must be cached.
func (l *decodedList) begin() (known *listed, keep bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	keep = now.Sub(l.last) < listIdle && l.store.Synced() && l.fits()
	l.last = now
	if !keep {
		l.drop()
	}
	return l.kept, keep
}

// fits reports whether the values of all objects fit the budget.
func (l *decodedList) fits() bool {
	budget := l.store.decoder.cache.budget
	l.store.mu.RLock()
	defer l.store.mu.RUnlock()
	return budget <= 0 || decodedFactor*l.store.raw <= budget
}

func (l *decodedList) keep(is *listed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.store.decoder.cache.setList(l) {
		l.kept = is
		l.size.Store(int64(len(is.values)))
	}
}

// expire drops the cached list if no caller has listed for listIdle, or if the values no longer fit
// the budget. Otherwise it drops the values of objects that were replaced.
func (l *decodedList) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept == nil || time.Since(l.last) >= listIdle || !l.fits() {
		l.drop()
		return
	}
	if snap := l.store.Snapshot(); l.kept.root != snap.table.root {
		l.kept = l.kept.update(snap, func(values []any, _ *Object) []any { return values })
		l.size.Store(int64(len(l.kept.values)))
	}
}

// close drops the cached list. The decodedCache is already closed, so no list is cached after that.
func (l *decodedList) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop()
}

// drop drops the cached list, if there is one. The caller holds mu.
func (l *decodedList) drop() {
	l.store.decoder.cache.setList(nil)
	l.kept = nil
	l.size.Store(0)
}

// setList sets the list that the cache sweeps, or removes it if l is nil. It returns false if the
// cache is closed.
func (c *decodedCache) setList(l *decodedList) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	if c.list = l; l != nil {
		c.startLocked()
	}
	return true
}
