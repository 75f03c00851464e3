package store

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// decodedList keeps the decoded values of all objects for callers who list everything repeatedly: a
// List then copies a slice. The second List within listIdle makes it, once the store is synced and
// unless the values of all objects do not fit the budget. A cursor brings what has changed, so a
// List decodes only that. The sweep drops it once there was no List for listIdle, and Store.Close
// does. Its bound is the values of all objects, which the result of a List holds in any case, and
// the budget. Values that have been replaced are held until the next List or sweep.
type decodedList struct {
	store *Store
	size  atomic.Int64 // len(values), readable without mu

	mu        sync.Mutex
	last      time.Time // time of the last List
	cursor    *Cursor   // nil: there is no list
	values    []any
	keys      []string // of values
	positions map[string]int
	pending   map[string]*Object // versions to be decoded, by key
}

const listIdle = time.Minute

// perListed estimates the bytes that a list uses for an object, in addition to its value.
const perListed = 96

// List returns the decoded values of all objects, in no order. They are shared, as those of
// Object.Decoded are. List calls failed with the error of each object that cannot be decoded, and
// leaves it out. Safe for concurrent use.
func (s *Store) List(failed func(error)) []any {
	values, errs, ok := s.list.all()
	for _, err := range errs {
		failed(err) // without the lock, because it may list
	}
	if ok {
		return values
	}
	snap := s.Snapshot()
	values = make([]any, 0, snap.Len())
	for o := range snap.All() {
		if value, err := o.Decoded(); err == nil {
			values = append(values, value)
		} else {
			failed(err)
		}
	}
	return values
}

// all returns a copy of the values. It reports false if there is no list, and it is not time to
// make one.
func (l *decodedList) all() (values []any, errs []error, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	repeated := !l.last.IsZero() && now.Sub(l.last) < listIdle
	l.last = now
	if !l.fits() {
		l.drop()
		return nil, nil, false
	}
	if l.cursor == nil {
		if !repeated || !l.store.Synced() || !l.store.decoder.cache.setList(l) {
			return nil, nil, false
		}
		l.cursor, l.positions, l.pending = l.store.lazyCursor(), make(map[string]int, l.store.Len()), make(map[string]*Object)
	}
	l.followChanges()
	decoded, errs := l.decode()
	if l.cursor.Closed() { // closed with its store, which reports no more changes
		l.drop()
		return nil, nil, false
	}
	l.size.Store(int64(len(l.values)))
	l.store.decoder.cache.hits.Add(int64(max(0, len(l.values)-decoded)))
	return append(make([]any, 0, len(l.values)), l.values...), errs, true
}

// fits reports whether the values of all objects fit the budget.
func (l *decodedList) fits() bool {
	budget := l.store.decoder.cache.budget
	l.store.mu.RLock()
	defer l.store.mu.RUnlock()
	return budget <= 0 || decodedFactor*l.store.raw <= budget
}

// followChanges reads the changes since it was last called, and drops the values that they replace.
func (l *decodedList) followChanges() {
	changes := make([]Change, 256)
	for n := l.cursor.Next(changes); n > 0; n = l.cursor.Next(changes) {
		for i := range changes[:n] {
			key := changes[i].Key()
			l.remove(key)
			if changes[i].New == nil {
				delete(l.pending, key)
			} else {
				l.pending[key] = changes[i].New
			}
		}
		clear(changes[:n])
	}
}

// decode decodes what is pending, in key order. It returns how many objects that were, and the
// errors of those that cannot be decoded. These stay pending. So does the rest if a decoder panics.
func (l *decodedList) decode() (decoded int, errs []error) {
	for _, key := range slices.Sorted(maps.Keys(l.pending)) {
		value, err := l.pending[key].decodeCached(2)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		l.positions[key] = len(l.values)
		l.values, l.keys = append(l.values, value), append(l.keys, key)
		delete(l.pending, key)
		decoded++
	}
	if len(l.pending) == 0 && decoded > 0 {
		l.pending = make(map[string]*Object) // an empty one keeps its memory
	}
	return decoded, errs
}

// remove removes a value, if there is one.
func (l *decodedList) remove(key string) {
	at, have := l.positions[key]
	if !have {
		return
	}
	last := len(l.values) - 1
	l.values[at], l.keys[at] = l.values[last], l.keys[last]
	l.positions[l.keys[at]] = at
	delete(l.positions, key)
	l.values[last], l.keys[last] = nil, ""
	l.values, l.keys = l.values[:last], l.keys[:last]
}

// expire drops the list if no caller has listed for listIdle, and otherwise drops values that were
// replaced. It does not wait for a List.
func (l *decodedList) expire() {
	if !l.mu.TryLock() {
		return
	}
	defer l.mu.Unlock()
	switch {
	case time.Since(l.last) >= listIdle || !l.fits():
		l.drop()
	case l.cursor != nil:
		l.followChanges()
		l.size.Store(int64(len(l.values)))
	}
}

// close drops the list. Once the store is closed, no other is made.
func (l *decodedList) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop()
}

// drop drops the list, if there is one. The caller holds mu.
func (l *decodedList) drop() {
	if l.cursor == nil {
		return
	}
	l.store.decoder.cache.setList(nil)
	l.cursor.Close()
	l.cursor, l.values, l.keys, l.positions, l.pending = nil, nil, nil, nil, nil
	l.size.Store(0)
}

// setList sets the list, or unsets it if l is nil. While there is a list, the cache sweeps it, and
// releases no entry because it was not read for a while. setList reports false if the cache is
// closed.
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
