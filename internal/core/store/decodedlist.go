package store

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// decodedList keeps the values of the last List for callers who list everything repeatedly. The
// second List within listIdle is the first to be kept, once the store is synced and unless the
// values of all objects do not fit the budget. The sweep drops the values of objects that were
// replaced, and all values once there was no List for listIdle. Store.Close does too. The bound is
// the values of all objects, which the result of a List refers to in any case, and the budget.
type decodedList struct {
	store *Store
	size  atomic.Int64 // the number of values, readable without mu

	mu   sync.Mutex
	last time.Time // time of the last List
	kept *listed   // nil: there is no list
}

// listed is the result of a List. It does not change. A leaf of a snapshot's table does not either,
// so the next List decodes only the leaves that others have replaced.
type listed struct {
	root   *leaf // of the table; nil: some values are missing
	values []any
	leaves map[*leaf][]any // parts of values; only of leaves all of whose objects could be decoded
}

const listIdle = time.Minute

// perListed estimates the bytes that a list uses for an object, in addition to its value.
const perListed = 24

// List returns the decoded values of all objects, in no order. They are shared, as those of
// Object.Decoded are. List calls failed with the error of each object that cannot be decoded, and
// leaves it out. Safe for concurrent use.
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

// update returns the values of a snapshot's objects: known ones, and those that add appends of
// other objects. was may be nil.
func (was *listed) update(snap *Snapshot, add func(values []any, o *Object) []any) *listed {
	is := &listed{root: snap.table.root, values: make([]any, 0, snap.Len()), leaves: make(map[*leaf][]any, 1+snap.Len()/maxTreeNode)}
	snap.table.eachLeaf(func(l *leaf) {
		from := len(is.values)
		if values, ok := was.of(l); ok {
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

// of returns the values of a leaf, if they are known. was may be nil.
func (was *listed) of(l *leaf) (values []any, ok bool) {
	if was != nil {
		values, ok = was.leaves[l]
	}
	return values, ok
}

// begin returns the last List's result, if it is kept, and whether that of this one is to be kept.
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

// expire drops the list if no caller has listed for listIdle, and otherwise the values of objects
// that were replaced.
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

// close drops the list. Once the store is closed, no other is kept.
func (l *decodedList) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop()
}

// drop drops the list, if there is one. The caller holds mu.
func (l *decodedList) drop() {
	l.store.decoder.cache.setList(nil)
	l.kept = nil
	l.size.Store(0)
}

// setList sets the list, or unsets it if l is nil. While there is a list, the cache sweeps it.
// setList reports false if the cache is closed.
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
