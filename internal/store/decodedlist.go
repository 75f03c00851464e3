package store

import (
	"sync"
	"sync/atomic"
	"time"
)

// listedForms keeps the decoded forms of all objects for callers who list everything repeatedly: a
// List then copies a slice. The second List within listIdle makes it, once the store is synced and
// unless the forms of all objects do not fit the budget. A cursor brings what has changed, so a
// List decodes only that. The sweep drops it once there was no List for listIdle, and Store.Close
// does. Its bound is the forms of all objects, which the result of a List holds in any case, and
// the budget.
type listedForms struct {
	store *Store
	size  atomic.Int64 // len(forms), readable without mu

	mu        sync.Mutex
	last      time.Time // time of the last List
	cursor    *Cursor   // nil: there is no list
	forms     []any
	keys      []string // of forms
	positions map[string]int
}

const listIdle = time.Minute

// perListed estimates the bytes that a list takes for an object, besides its form.
const perListed = 96

// List returns the decoded forms of all objects, in no order. They are shared, as those of
// Object.Decoded are. List calls failed with the error of each object that cannot be decoded, and
// leaves it out. Safe for concurrent use.
func (s *Store) List(failed func(error)) []any {
	if forms, ok := s.list.all(failed); ok {
		return forms
	}
	snap := s.Snapshot()
	forms := make([]any, 0, snap.Len())
	for o := range snap.All() {
		if form, err := o.Decoded(); err == nil {
			forms = append(forms, form)
		} else {
			failed(err)
		}
	}
	return forms
}

// all returns a copy of the forms. It reports false if there is no list, and it is not time to make
// one.
func (l *listedForms) all(failed func(error)) ([]any, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	again := !l.last.IsZero() && now.Sub(l.last) < listIdle
	l.last = now
	if !l.fits() {
		l.drop()
		return nil, false
	}
	if l.cursor == nil {
		if !again || !l.store.Synced() || !l.store.shared.cache.serve(l) {
			return nil, false
		}
		l.cursor, l.positions = l.store.Cursor(), make(map[string]int, l.store.Len())
	}
	decoded := l.catchUp(failed)
	if l.cursor.Closed() { // closed with its store, which reports no more changes
		l.drop()
		return nil, false
	}
	l.size.Store(int64(len(l.forms)))
	l.store.shared.cache.hits.Add(int64(max(0, len(l.forms)-decoded)))
	return append(make([]any, 0, len(l.forms)), l.forms...), true
}

// fits reports whether the forms of all objects fit the budget.
func (l *listedForms) fits() bool {
	budget := l.store.shared.cache.budget
	l.store.mu.RLock()
	defer l.store.mu.RUnlock()
	return budget <= 0 || decodedFactor*l.store.raw <= budget
}

// catchUp applies the changes since the last List, and returns their number.
func (l *listedForms) catchUp(failed func(error)) (applied int) {
	changes := make([]Change, 256)
	for n := l.cursor.Next(changes); n > 0; n = l.cursor.Next(changes) {
		for i := range changes[:n] {
			l.apply(&changes[i], failed)
		}
		clear(changes[:n])
		applied += n
	}
	return applied
}

func (l *listedForms) apply(change *Change, failed func(error)) {
	key := change.Key()
	at, have := l.positions[key]
	if change.New != nil {
		form, err := change.New.shared(2)
		switch {
		case err == nil && have:
			l.forms[at] = form
			return
		case err == nil:
			l.positions[key] = len(l.forms)
			l.forms, l.keys = append(l.forms, form), append(l.keys, key)
			return
		}
		failed(err)
	}
	if !have {
		return
	}
	last := len(l.forms) - 1
	l.forms[at], l.keys[at] = l.forms[last], l.keys[last]
	l.positions[l.keys[at]] = at
	delete(l.positions, key)
	l.forms[last], l.keys[last] = nil, ""
	l.forms, l.keys = l.forms[:last], l.keys[:last]
}

// expire drops the list if nobody has listed for listIdle. It does not wait for a List.
func (l *listedForms) expire() {
	if !l.mu.TryLock() {
		return
	}
	defer l.mu.Unlock()
	if time.Since(l.last) >= listIdle || !l.fits() {
		l.drop()
	}
}

// close drops the list. Once the store is closed, no other is made.
func (l *listedForms) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop()
}

// drop drops the list, if there is one. The caller holds mu.
func (l *listedForms) drop() {
	if l.cursor == nil {
		return
	}
	l.store.shared.cache.serve(nil)
	l.cursor.Close()
	l.cursor, l.forms, l.keys, l.positions = nil, nil, nil, nil
	l.size.Store(0)
}

// serve has a list swept, and all that was read held for it; nil ends that. It reports false if the
// cache is closed.
func (c *decodedCache) serve(l *listedForms) bool {
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
