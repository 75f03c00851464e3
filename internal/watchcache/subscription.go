package watchcache

import (
	"sync"

	"github.com/weirproject/weir/internal/store"
)

// changes is where a watcher gets from what has changed: a cursor, or a subscription to what concerns the watcher. The methods are those of
// [store.Cursor], and behind, which anybody may call.
type changes interface {
	behind() int // how many changes, or keys, are kept that the watcher has not taken yet
	Next(dst []store.Change) int
	Pending() int
	Ready() <-chan struct{}
	Closed() bool
	Close()
}

// logged is a cursor of a watcher.
type logged struct{ *store.Cursor }

func (l logged) behind() int { return l.Pending() }

// subscription is one watcher's part of a hub. What the watcher has not taken yet is kept in order up to maxWaiting changes, beyond that
// in one change for each key.
type subscription struct {
	hub       *hub
	route     route
	offeredAt uint64 // the change that was offered last; guarded by the hub
	ready     chan struct{}

	mu      sync.Mutex
	waiting []store.Change
	taken   int       // of waiting
	merged  bool      // waiting was late
	late    *gathered // what came when waiting was full; nil: nothing
	peers   int       // how many watchers the last change was for, because of the same value
	closed  bool
}

const maxWaiting = 64

func newSubscription(h *hub, r route) *subscription {
	return &subscription{hub: h, route: r, ready: make(chan struct{}, 1)}
}

// offer takes a change, unless its namespace is not the watcher's. The hub's lock is held.
func (s *subscription) offer(ch *store.Change, peers int) {
	if ns := s.route.namespace; ns != "" && namespaceOf(ch) != ns {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers = peers
	defer s.count(s.kept())
	if s.late == nil && (s.hub.late || s.merged || len(s.waiting)-s.taken >= maxWaiting) {
		s.late = &gathered{}
	}
	if s.late != nil {
		s.late.add(ch)
	} else {
		s.waiting = append(s.waiting, *ch)
	}
	s.signal()
}

func namespaceOf(ch *store.Change) string {
	if ch.New != nil {
		return ch.New.Namespace()
	}
	return ch.Old.Namespace()
}

func (s *subscription) signal() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// Next is a cursor's.
func (s *subscription) Next(dst []store.Change) int {
	s.hub.gate.RLock()
	defer s.hub.gate.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.count(s.kept())
	if s.taken == len(s.waiting) && s.late != nil {
		s.late.compact()
		s.waiting, s.taken, s.merged, s.late = s.late.changes, 0, true, nil
	}
	n := copy(dst, s.waiting[s.taken:])
	clear(s.waiting[s.taken : s.taken+n])
	if s.taken += n; s.taken == len(s.waiting) {
		s.taken, s.merged = 0, false
		if s.waiting = s.waiting[:0]; cap(s.waiting) > 1 { // most watchers wait for one change now and then
			s.waiting = nil
		}
	}
	return n
}

// kept is how many changes are held. The lock is held.
func (s *subscription) kept() int {
	n := len(s.waiting) - s.taken
	if s.late != nil {
		n += len(s.late.changes)
	}
	return n
}

// count tells the hub how many changes are held after there were before. The lock is held.
func (s *subscription) count(before int) { s.hub.kept.Add(int64(s.kept() - before)) }

// drop lets go of what has not been taken. Nothing comes any more.
func (s *subscription) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.count(s.kept())
	s.waiting, s.taken, s.late = nil, 0, nil
}

// Pending is how many keys the watcher is late with.
func (s *subscription) Pending() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.merged {
		n = len(s.waiting) - s.taken
	}
	if s.late != nil {
		n += len(s.late.last)
	}
	return n
}

// behind is how many changes, or keys, the watcher has not taken yet.
func (s *subscription) behind() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.waiting) - s.taken
	if s.late != nil {
		n += len(s.late.last)
	}
	return n
}

// Ready is a cursor's.
func (s *subscription) Ready() <-chan struct{} { return s.ready }

// Closed reports that the store was closed.
func (s *subscription) Closed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Close ends the subscription.
func (s *subscription) Close() { s.hub.leave(s) }

// end says that nothing will come any more.
func (s *subscription) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.signal()
}

// company is how many watchers get the same changes.
func (s *subscription) company() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peers
}
