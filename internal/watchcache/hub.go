package watchcache

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirproject/weir/internal/store"
)

// hub reads each change once for all watchers that can be routed, and hands it to those that it concerns. Nobody else is woken. It has
// one goroutine while there are such watchers. Safe for concurrent use.
type hub struct {
	cache *Cache
	n     atomic.Int64 // subscriptions
	kept  atomic.Int64 // changes that they have not taken yet

	mu      sync.Mutex
	cursor  *store.Cursor // what was handed on; nil while there is nobody
	all     map[*subscription]struct{}
	routes  routes
	reader  matcher
	changes [batch]store.Change
	late    bool // the changes are part of what the log dropped before the hub read it

	// gate is held while the latter are handed on: they stand for several changes each, and make sense only together.
	gate sync.RWMutex
}

// subscribe begins a subscription to what comes after a snapshot, which it returns with its resourceVersion.
func (h *hub) subscribe(r route) (sub *subscription, sn *store.Snapshot, rv uint64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.open(); err != nil {
		return nil, nil, 0, err
	}
	for {
		h.pump() // most of it without keeping a writer waiting
		h.cache.clock.Observe(func(now uint64) {
			rv, sn = now, h.cache.store.Snapshot()
			h.pump()
		})
		if h.cursor.Revision() == sn.Revision() || h.cursor.Closed() { // else a clock without a lock: again
			return h.add(newSubscription(h, r)), sn, rv, nil
		}
	}
}

// join begins a subscription to what comes after what cursor has told, or, of what concerns it, has yet to tell; and closes cursor. The
// subscription begins with the latter.
func (h *hub) join(r route, cursor *store.Cursor) (*subscription, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer cursor.Close()
	if err := h.open(); err != nil {
		return nil, err
	}
	sub := newSubscription(h, r)
	for {
		h.pump()
		for n := cursor.Next(h.changes[:]); n > 0; n = cursor.Next(h.changes[:]) {
			for i := range h.changes[:n] {
				sub.offer(&h.changes[i], 1) // the watcher matches all the same
			}
			clear(h.changes[:n])
		}
		if h.cursor.Revision() == cursor.Revision() || h.cursor.Closed() { // else something came in between: again
			return h.add(sub), nil
		}
	}
}

// open begins to follow the store, with the first subscription. The lock is held.
func (h *hub) open() error {
	if h.cursor != nil {
		return nil
	}
	cursor, err := h.cache.store.CursorAt(h.cache.store.Snapshot().Revision())
	for errors.Is(err, store.ErrTrimmed) {
		cursor, err = h.cache.store.CursorAt(h.cache.store.Snapshot().Revision())
	}
	if err != nil {
		return err
	}
	h.cursor = cursor
	h.reader = matcher{cache: h.cache}
	go h.run(cursor)
	return nil
}

// run hands on what comes, until the last subscription or the store is closed.
func (h *hub) run(cursor *store.Cursor) {
	for range cursor.Ready() {
		h.mu.Lock()
		if cursor.Closed() {
			break
		}
		h.pump()
		h.mu.Unlock()
	}
	defer h.mu.Unlock()
	if h.cursor == cursor { // the store's end
		for s := range h.all {
			s.end()
		}
	}
}

// settle hands on everything that the store holds now. It returns false if the store was closed, which then may hold more.
func (h *hub) settle() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cursor == nil {
		return true
	}
	h.pump()
	return !h.cursor.Closed()
}

// pump hands on what has come. The lock is held.
func (h *hub) pump() {
	for n := h.cursor.Next(h.changes[:]); n > 0; n = h.cursor.Next(h.changes[:]) {
		merged := slices.ContainsFunc(h.changes[:n], func(ch store.Change) bool { return ch.Coalesced })
		if h.cursor.Pending() > 0 || merged {
			h.pumpLate(n)
		} else {
			h.offer(n)
		}
	}
	h.reader.forget()
}

// pumpLate hands on all that the log has dropped, the first n of which are there.
func (h *hub) pumpLate(n int) {
	h.gate.Lock()
	defer h.gate.Unlock()
	h.late = true
	h.offer(n)
	for h.cursor.Pending() > 0 {
		h.offer(h.cursor.Next(h.changes[:]))
	}
	h.late = false
}

func (h *hub) offer(n int) {
	for i := range h.changes[:n] {
		ch := &h.changes[i]
		if h.routes.offer(&h.reader, ch) == nil {
			continue
		}
		for s := range h.all { // each finds the error for itself
			if s.offeredAt != h.routes.at {
				s.offer(ch, len(h.all))
			}
		}
	}
	clear(h.changes[:n])
}

func (h *hub) add(s *subscription) *subscription {
	if h.all == nil {
		h.all = map[*subscription]struct{}{}
	}
	h.all[s] = struct{}{}
	h.n.Add(1)
	h.routes.add(s)
	if h.cursor.Closed() {
		s.end()
	}
	return s
}

// leave ends a subscription, and with the last the following.
func (h *hub) leave(s *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.all[s]; !ok {
		return
	}
	delete(h.all, s)
	h.n.Add(-1)
	s.drop()
	h.routes.remove(s)
	if len(h.all) == 0 {
		h.cursor.Close()
		h.cursor = nil
		h.reader = matcher{}
	}
}

// lag is by how many changes the slowest is behind.
func (h *hub) lag() (most uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.all {
		most = max(most, uint64(s.behind()))
	}
	return most
}

// cursors are watchers' cursors. The zero value is empty. Safe for concurrent use.
type cursors struct {
	n atomic.Int64

	mu   sync.Mutex
	open map[*store.Cursor]struct{}
}

func (cs *cursors) add(c *store.Cursor) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.open == nil {
		cs.open = map[*store.Cursor]struct{}{}
	}
	cs.open[c] = struct{}{}
	cs.n.Store(int64(len(cs.open)))
}

func (cs *cursors) remove(c *store.Cursor) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.open, c)
	cs.n.Store(int64(len(cs.open)))
}

func (cs *cursors) lag() (most uint64) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for c := range cs.open {
		most = max(most, c.Lag())
	}
	return most
}
