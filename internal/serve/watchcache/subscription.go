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

// subscription queues changes of the hub for one watcher. It coalesces them when more than
// maxQueued wait, or the hub has fallen behind the log.
type subscription struct {
	hub        *hub
	interest   interest
	offeredSeq uint64 // the last change offered; the hub's lock guards it
	ready      chan struct{}
	closed     atomic.Bool // the store was closed

	mu    sync.Mutex
	queue changeQueue
	taken []store.Change // what Next returned last, until it is released
}

const maxQueued = 128

func newSubscription(h *hub, of interest) *subscription {
	return &subscription{hub: h, interest: of, ready: make(chan struct{}, 1), queue: changeQueue{held: &h.cache.held}}
}

// offer queues a change, unless its namespace is not the watcher's. If leaves is true, the new
// version does not concern the watcher, and is left out: no later change that the watcher gets
// would have it as the old one. The caller holds the hub's lock.
func (s *subscription) offer(ch store.Change, leaves bool) {
	if ns := s.interest.namespace; ns != "" && namespaceOf(&ch) != ns {
		return
	}
	if leaves {
		ch.New = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hub.inBacklog || s.queue.keys.Load() >= maxQueued {
		s.queue.coalesce()
	}
	s.queue.add(ch)
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
	n := s.queue.take(dst)
	s.taken = append(s.taken, dst[:n]...)
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
		s.queue.release(&s.taken[i])
	}
	clear(s.taken)
	s.taken = reusable(s.taken)
}

// drop drops the queue of a subscription that has left the hub.
func (s *subscription) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseTaken()
	s.queue.close()
}

// Pending returns how many coalesced changes wait.
func (s *subscription) Pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue.index)
}

func (s *subscription) lag() uint64 { return uint64(s.queue.keys.Load()) }

func (s *subscription) kept() int64 { return s.queue.bytes.Load() }

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
