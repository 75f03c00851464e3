package watchcache

import (
	"slices"
	"sync"

	"github.com/weirproject/weir/internal/store"
)

// changeSource is where a watcher gets changes from: a cursor, or a subscription. Except for
// behind, the methods are those of [store.Cursor].
type changeSource interface {
	behind() int // changes or keys that are kept and not taken; safe for concurrent use
	Next(dst []store.Change) int
	Pending() int
	Ready() <-chan struct{}
	Closed() bool
	Close()
}

// cursorSource is a changeSource over a cursor.
type cursorSource struct{ *store.Cursor }

func (l cursorSource) behind() int { return l.Pending() }

// subscription queues changes of the hub for one watcher: in order up to maxQueued changes, beyond
// that one change a key.
type subscription struct {
	hub        *hub
	interest   interest
	offeredSeq uint64 // the last change offered; the hub's lock guards it
	ready      chan struct{}

	mu        sync.Mutex
	queue     []store.Change
	head      int               // of queue
	coalesced bool              // queue holds coalesced changes
	overflow  *coalescedChanges // changes since the queue was full; nil: none
	peers     int               // watchers that the last change was offered to for the same value
	closed    bool
}

const maxQueued = 64

func newSubscription(h *hub, of interest) *subscription {
	return &subscription{hub: h, interest: of, ready: make(chan struct{}, 1)}
}

// offer queues a change, unless its namespace is not the watcher's. The caller holds the hub's
// lock.
func (s *subscription) offer(ch *store.Change, peers int) {
	if ns := s.interest.namespace; ns != "" && namespaceOf(ch) != ns {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers = peers
	defer s.count(s.buffered())
	if s.overflow == nil && (s.hub.inBacklog || s.coalesced || len(s.queue)-s.head >= maxQueued) {
		s.overflow = &coalescedChanges{}
	}
	if s.overflow != nil {
		s.overflow.add(ch)
	} else {
		s.queue = append(s.queue, *ch)
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

// Next takes queued changes, as store.Cursor.Next does.
func (s *subscription) Next(dst []store.Change) int {
	s.hub.backlogLock.RLock()
	defer s.hub.backlogLock.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.count(s.buffered())
	if s.head == len(s.queue) && s.overflow != nil {
		s.overflow.compact()
		s.queue, s.head, s.coalesced, s.overflow = s.overflow.changes, 0, true, nil
	}
	n := copy(dst, s.queue[s.head:])
	clear(s.queue[s.head : s.head+n])
	if s.head += n; s.head == len(s.queue) {
		s.head, s.coalesced = 0, false
		if s.queue = s.queue[:0]; cap(s.queue) > 1 { // most watchers get one change now and then
			s.queue = nil
		}
	}
	return n
}

// buffered returns how many changes are kept. The caller holds the lock.
func (s *subscription) buffered() int {
	n := len(s.queue) - s.head
	if s.overflow != nil {
		n += len(s.overflow.changes)
	}
	return n
}

// count updates the hub's sum of kept changes. The caller holds the lock.
func (s *subscription) count(before int) { s.hub.buffered.Add(int64(s.buffered() - before)) }

// drop drops the queue of a subscription that has left the hub.
func (s *subscription) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.count(s.buffered())
	s.queue, s.head, s.overflow = nil, 0, nil
}

// Pending returns how many coalesced keys wait.
func (s *subscription) Pending() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.coalesced {
		n = len(s.queue) - s.head
	}
	if s.overflow != nil {
		n += len(s.overflow.last)
	}
	return n
}

// behind returns how many changes, or keys, the watcher has not taken yet.
func (s *subscription) behind() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.queue) - s.head
	if s.overflow != nil {
		n += len(s.overflow.last)
	}
	return n
}

// Ready returns a channel that receives when changes wait, as store.Cursor.Ready does.
func (s *subscription) Ready() <-chan struct{} { return s.ready }

// Closed reports whether the store was closed.
func (s *subscription) Closed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Close ends the subscription.
func (s *subscription) Close() { s.hub.leave(s) }

// end marks that no more changes come, and wakes the watcher.
func (s *subscription) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.signal()
}

// peerCount returns how many watchers get the same changes.
func (s *subscription) peerCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peers
}

// coalescedChanges holds one change for each key, in the order of the last.
type coalescedChanges struct {
	changes []store.Change
	last    map[string]int // key to index in changes
}

func (g *coalescedChanges) add(ch *store.Change) {
	if g.last == nil {
		g.last = map[string]int{}
	}
	key, merged := ch.Key(), *ch
	if i, ok := g.last[key]; ok {
		merged.Old, merged.Coalesced = g.changes[i].Old, true
		g.changes[i] = store.Change{}
	}
	if merged.Old == nil && merged.New == nil { // created and deleted
		delete(g.last, key)
		return
	}
	g.last[key] = len(g.changes)
	g.changes = append(g.changes, merged)
	if len(g.changes) > 2*len(g.last)+batch {
		g.compact()
	}
}

// compact removes changes that were coalesced into later ones, so that memory is bounded by the
// number of keys.
func (g *coalescedChanges) compact() {
	g.changes = slices.DeleteFunc(g.changes, func(ch store.Change) bool { return ch.Old == nil && ch.New == nil })
	for i := range g.changes {
		g.last[g.changes[i].Key()] = i
	}
}
