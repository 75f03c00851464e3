package watchcache

import (
	"sync"
	"sync/atomic"

	"github.com/weirproject/weir/internal/core/store"
)

// changeSource is where a watcher gets changes from: a cursor, or a subscription. The first five
// methods are those of [store.Cursor].
type changeSource interface {
	Next(dst []store.Change) int
	Pending() int
	Ready() <-chan struct{}
	Closed() bool
	Close()
	// release is called when the watcher has sent what Next returned. The next Next does the same.
	release()
	// lag returns how many changes wait for the watcher, and kept the bytes that they and those
	// that Next returned last take. Bytes that are also kept for others count in full. Both are safe
	// for concurrent use.
	lag() uint64
	kept() int64
}

// cursorSource is a changeSource over a cursor.
type cursorSource struct {
	*store.Cursor
	oldest atomic.Uint64 // revision of the first of the changes that Next returned last
	taken  atomic.Int64  // bytes of their old versions
}

func (l *cursorSource) kept() int64 { return l.Bytes() + l.taken.Load() }

func (l *cursorSource) lag() uint64 { return l.Lag() }

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
	peers      atomic.Int64 // watchers that the last change was offered to for the same value
	closed     atomic.Bool  // the store was closed

	mu        sync.Mutex
	queue     []store.Change
	taken     []store.Change // what Next returned last, until it is released
	bytes     int64          // of queue and taken
	coalesced bool           // queue was taken from a coalescer
	overflow  *coalescer     // changes since the queue was full; nil: none
}

const maxQueued = 64

func newSubscription(h *hub, of interest) *subscription {
	return &subscription{hub: h, interest: of, ready: make(chan struct{}, 1)}
}

// offer queues a change, unless its namespace is not the watcher's. If leaves is true, the new
// version does not concern the watcher, and is left out: no later change that the watcher gets
// would have it as the old one. The caller holds the hub's lock.
func (s *subscription) offer(ch store.Change, peers int, leaves bool) {
	if ns := s.interest.namespace; ns != "" && namespaceOf(&ch) != ns {
		return
	}
	if leaves {
		ch.New = nil
	}
	held := &s.hub.cache.held
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers.Store(int64(peers))
	if s.overflow == nil && (s.hub.inBacklog || s.coalesced || len(s.queue) >= maxQueued) {
		s.overflow = newCoalescer(held)
	}
	if s.overflow != nil {
		s.overflow.add(ch)
	} else {
		held.hold(&ch)
		s.queue = append(s.queue, ch)
		s.bytes += sizeOf(&ch)
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
	n := copy(dst, s.queue)
	if n == 0 {
		return 0
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
	for i := range s.taken {
		s.bytes -= s.hub.cache.held.release(&s.taken[i])
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

// Pending returns how many coalesced changes wait.
func (s *subscription) Pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.overflowed()
	if s.coalesced {
		n += len(s.queue)
	}
	return n
}

// overflowed returns how many keys have changes in overflow. The caller holds the lock.
func (s *subscription) overflowed() int {
	if s.overflow == nil {
		return 0
	}
	return len(s.overflow.index)
}

func (s *subscription) lag() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return uint64(len(s.queue) + s.overflowed())
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
func (s *subscription) Closed() bool { return s.closed.Load() }

// Close ends the subscription.
func (s *subscription) Close() { s.hub.leave(s) }

// end marks that no more changes come, and wakes the watcher.
func (s *subscription) end() {
	s.closed.Store(true)
	s.signal()
}
