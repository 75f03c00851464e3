package watchcache

import (
	"sync"
	"sync/atomic"

	"github.com/weirproject/weir/internal/core/store"
)

// changeSource is where a watcher gets changes from: a cursor, or a subscription. Except for kept
// and release, the methods are those of [store.Cursor].
type changeSource interface {
	// kept returns the bytes of what is kept for the watcher: what it has not taken, and what it has
	// taken last and not released. What is kept for others too counts in full. Safe for concurrent
	// use.
	kept() int64
	// release tells that the watcher has done with what Next has returned, as the next Next does.
	release()
	Next(dst []store.Change) int
	Pending() int
	Ready() <-chan struct{}
	Closed() bool
	Close()
}

// cursorSource is a changeSource over a cursor.
type cursorSource struct {
	*store.Cursor
	oldest atomic.Uint64 // revision of the first of the changes that Next returned last
	taken  atomic.Int64  // bytes of their old versions
}

func (l *cursorSource) kept() int64 { return l.Bytes() + l.taken.Load() }

func (l *cursorSource) release() { l.taken.Store(0) }

// Next takes changes. It counts their old versions, without those of others that have taken the
// same: while the log has them too, they do not matter.
func (l *cursorSource) Next(dst []store.Change) int {
	n := l.Cursor.Next(dst)
	bytes := int64(0)
	for i := range dst[:n] {
		if old := dst[i].Old; old != nil {
			bytes += old.Footprint()
		}
	}
	if n > 0 {
		l.oldest.Store(dst[0].Revision)
	}
	l.taken.Store(bytes)
	return n
}

// subscription queues changes of the hub for one watcher: in order up to maxQueued changes, beyond
// that one change a key.
type subscription struct {
	hub        *hub
	interest   interest
	offeredSeq uint64 // the last change offered; the hub's lock guards it
	ready      chan struct{}

	mu        sync.Mutex
	queue     []*heldChange
	taken     []*heldChange     // what Next returned last, until it is released
	bytes     int64             // of queue and taken
	coalesced bool              // queue holds coalesced changes
	overflow  *coalescedChanges // changes since the queue was full; nil: none
	peers     int               // watchers that the last change was offered to for the same value
	closed    bool
}

const maxQueued = 64

func newSubscription(h *hub, of interest) *subscription {
	return &subscription{hub: h, interest: of, ready: make(chan struct{}, 1)}
}

// offer queues a change, unless its namespace is not the watcher's. leaves tells that the new
// version is none of the watcher's interest. The caller holds the hub's lock.
func (s *subscription) offer(of *offering, peers int, leaves bool) {
	if ns := s.interest.namespace; ns != "" && namespaceOf(of.change) != ns {
		return
	}
	held := of.get(leaves)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers = peers
	if s.overflow == nil && (s.hub.inBacklog || s.coalesced || len(s.queue) >= maxQueued) {
		s.overflow = newCoalescedChanges(of.held)
	}
	if s.overflow != nil {
		s.overflow.add(held)
	} else {
		held.refs.Add(1)
		s.queue = append(s.queue, held)
		s.bytes += int64(held.size)
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
	s.releaseTaken()
	if len(s.queue) == 0 && s.overflow != nil {
		s.queue, s.bytes = s.overflow.take()
		s.coalesced, s.overflow = true, nil
	}
	n := min(len(dst), len(s.queue))
	if n == 0 {
		return 0
	}
	for i, held := range s.queue[:n] {
		dst[i] = held.Change
	}
	s.taken, s.queue = s.queue[:n], s.queue[n:]
	if len(s.queue) == 0 {
		s.queue, s.coalesced = nil, false
	}
	return n
}

// release releases what Next has returned last.
func (s *subscription) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseTaken()
}

// releaseTaken is release for a caller that holds the lock.
func (s *subscription) releaseTaken() {
	for _, held := range s.taken {
		s.bytes -= int64(held.size)
		s.hub.cache.held.release(held)
	}
	clear(s.taken)
	if s.queue == nil && cap(s.taken) == 1 { // most watchers get one change now and then
		s.queue = s.taken[:0]
	}
	s.taken = nil
}

// drop drops the queue of a subscription that has left the hub.
func (s *subscription) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseTaken()
	s.taken, s.queue = s.queue, nil
	s.releaseTaken()
	if s.overflow != nil {
		s.overflow.close()
		s.overflow = nil
	}
}

// Pending returns how many coalesced keys wait.
func (s *subscription) Pending() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.coalesced {
		n = len(s.queue)
	}
	if s.overflow != nil {
		n += len(s.overflow.last)
	}
	return n
}

// behind returns how many changes, or keys, the watcher has not taken yet. Safe for concurrent use.
func (s *subscription) behind() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.queue)
	if s.overflow != nil {
		n += len(s.overflow.last)
	}
	return n
}

func (s *subscription) kept() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.bytes
	if s.overflow != nil {
		n += s.overflow.bytes.Load()
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
