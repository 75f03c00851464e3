package watchcache

import (
	"sync"
	"sync/atomic"

	"github.com/weirproject/weir/internal/core/store"
)

// changeSource delivers changes to a watcher. It is a cursor or a subscription. The first five
// methods are methods of [store.Cursor].
type changeSource interface {
	Next(dst []store.Change) int
	Pending() int
	Ready() <-chan struct{}
	Closed() bool
	Close()
	// release is called when the watcher has sent the changes that Next returned. The following call
	// of Next releases them too.
	release()
	// lag returns the number of changes that wait for the watcher. kept returns the bytes of these
	// changes and of the changes that the last Next returned. Bytes that other watchers share count in
	// full. Both are safe for concurrent use.
	lag() uint64
	kept() int64
}

// cursorSource is a changeSource over a cursor.
type cursorSource struct {
	*store.Cursor
	oldest atomic.Uint64 // revision of the first change that the last Next returned
	taken  atomic.Int64  // bytes of the old versions that the last Next returned
}

func (l *cursorSource) kept() int64 { return l.Bytes() + l.taken.Load() }

func (l *cursorSource) lag() uint64 { return l.Lag() }

func (l *cursorSource) release() { l.taken.Store(0) }

// Next returns changes and counts the bytes of their old versions. While the log contains the same
// changes, [writeDeadlines.backlog] does not count these bytes.
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

// subscription queues changes from the hub for one watcher. It coalesces them when more than
// maxQueued wait, or when the hub has fallen behind the log.
type subscription struct {
	hub        *hub
	interest   interest
	offeredSeq uint64 // number of the last offered change; hub.mu guards it
	ready      chan struct{}
	closed     atomic.Bool // the store was closed

	mu    sync.Mutex
	queue changeQueue
	taken []store.Change // changes that the last Next returned, until release
}

const maxQueued = 128

// offer queues a change, unless the watcher watches another namespace. leaves says that the
// object's new version does not meet the watcher's interest. offer then omits the new version.
// Otherwise the watcher would retain a version that no later change contains as its old version.
// The caller holds hub.mu.
func (s *subscription) offer(ch store.Change, leaves bool) {
	if ns := s.interest.namespace; ns != "" && ch.Object().Namespace() != ns {
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

func (s *subscription) signal() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// Next returns queued changes, like store.Cursor.Next.
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

// release releases the changes that the last Next returned.
func (s *subscription) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseTaken()
}

// releaseTaken is release for a caller that holds s.mu.
func (s *subscription) releaseTaken() {
	for i := range s.taken {
		s.queue.release(&s.taken[i])
	}
	clear(s.taken)
	s.taken = reusable(s.taken)
}

// drop releases all changes of a subscription that has left the hub.
func (s *subscription) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseTaken()
	s.queue.close()
}

// Pending returns the number of queued changes if the queue coalesces, and 0 otherwise.
func (s *subscription) Pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue.index)
}

func (s *subscription) lag() uint64 { return uint64(s.queue.keys.Load()) }

func (s *subscription) kept() int64 { return s.queue.bytes.Load() }

// Ready returns a channel that receives a value when changes wait, like store.Cursor.Ready.
func (s *subscription) Ready() <-chan struct{} { return s.ready }

// Closed reports whether the store was closed.
func (s *subscription) Closed() bool { return s.closed.Load() }

// Close ends the subscription.
func (s *subscription) Close() { s.hub.leave(s) }

// end marks the subscription as closed, and wakes the watcher.
func (s *subscription) end() {
	s.closed.Store(true)
	s.signal()
}
