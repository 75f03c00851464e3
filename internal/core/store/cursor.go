package store

import (
	"slices"
	"sync/atomic"
	"time"
)

// Cursor is a consumer's position in a store's changes. It sees every change in order as long as
// the log reaches back to it. What the log drops before the cursor has seen it is kept for the
// cursor: one entry for each key, with the version that it last saw and the key's state since.
//
// Next returns these entries first, as one change for each key, in the order of their revisions,
// then the rest of the log. Awaited changes keep the place at which they came first, with the
// newest state. So after a change that is not Awaited, all changes of lower revisions have been
// returned, or are part of a later one.
//
// A key that came and went unseen gives no change. Neither does one that is back at the version
// that the cursor saw. So being behind costs at most one old version for each key that changed.
// One of NotifyingCursor follows uids, and leaves out no object.
//
// Close a cursor when it is not needed any more. Until then the store keeps changes for it. Next is
// not safe for concurrent use with itself; all other methods are safe for concurrent use.
type Cursor struct {
	log    *changeLog
	ready  chan struct{} // nil where there is a notifier
	counts bool          // SyncedThrough is asked: it began with the state
	// handles is set if the reader is a handler: what Next returned is passed only with the next
	// Next, so that the values of these changes stay in the log until then.
	handles bool

	notifier Notifier
	owner    [1]any

	waiting atomic.Bool // nothing is there: the next change must signal. Changed as what is guarded

	// Of the reader.
	snap *Snapshot // the initial state, as far as it was not read; else nil
	from string    // the last key read of it
	owes bool      // handles, and Next has returned changes that are not passed

	// Guarded by log.mu. The reader changes them holding it for reading, all others for writing.
	initial bool   // snap is not read to its end
	unread  int    // objects of snap
	begun   uint64 // revision of snap
	pos     uint64 // revision of the next change to read
	passed  uint64 // the changes before it are handled; at most pos
	late    uint64 // the newest revision that came to be awaited since Next has returned it
	backlog backlog
	readAt  time.Time // when it was read last
	read    uint64    // changes
	closed  bool
}

// nextChunk bounds how many changes Next copies while it holds the log's lock for reading.
const nextChunk = 256

// Cursor returns a cursor that starts with everything held now. Each object comes with Old nil and
// Initial set, in key order. Then come the changes since.
func (s *Store) Cursor() *Cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &Cursor{log: s.log, ready: make(chan struct{}, 1), counts: true}
	return c.beginLocked(s)
}

// NotifyingCursor returns a cursor that starts as Cursor's, and follows uids. Where Cursor's
// signals Ready, it calls to with the owner, for the first time before NotifyingCursor returns. A
// change that many cursors wait for is one call, if all of them have the same notifier. If to is
// nil, Ready is signalled.
//
// While it is behind, it sees that objects come and go:
//
//   - An object that came and went unseen gives two changes. It comes as its last version, and
//     goes. Of these the newest 16,384 are kept: a consumer that is blocked for good must not grow
//     with each object that is created and deleted.
//   - An object that was deleted and created again under its key gives two changes: the end of one,
//     and the other.
//
// Being behind costs the last version of each such object that is kept in addition. While the
// cursor keeps up, a change from one uid to another of which no DELETED event told is left as it
// is.
func (s *Store) NotifyingCursor(to Notifier, owner any) *Cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &Cursor{log: s.log, notifier: to, owner: [1]any{owner}, counts: true, handles: true}
	if to == nil {
		c.ready = make(chan struct{}, 1)
	}
	c.backlog.byUID = true
	return c.beginLocked(s)
}

// beginLocked begins a cursor with everything held now, and returns it. The store's lock is held.
func (c *Cursor) beginLocked(s *Store) *Cursor {
	c.initial, c.snap = true, s.snapshotLocked()
	c.unread, c.begun = c.snap.table.count, c.snap.revision
	s.log.register(c, c.snap.revision+1)
	c.signalNow()
	return c
}

// CursorAt returns a cursor over the changes after revision rev. The error is ErrTrimmed if the log
// does not reach back so far (see Config.KeepLog), ErrFutureRevision if the store has not reached
// rev, or ErrClosed.
func (s *Store) CursorAt(rev uint64) (*Cursor, error) {
	l := s.log
	c := &Cursor{log: l, ready: make(chan struct{}, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, ErrClosed
	case rev >= l.next():
		return nil, ErrFutureRevision
	case rev+1 < l.base:
		return nil, ErrTrimmed
	}
	l.add(c, rev+1)
	c.signalNow()
	return c, nil
}

// Next fills dst with the next changes and returns how many there are. It does not block. It
// returns 0 when the cursor has caught up or is closed, or if dst is empty. Not safe for concurrent
// use with itself.
func (c *Cursor) Next(dst []Change) int {
	n := 0
	if c.snap != nil {
		n = c.nextInitial(dst)
	}
	// A thousand readers of one log do without its lock where they can.
	for n < len(dst) && (c.owes || !c.waiting.Load()) {
		got := c.nextChanges(dst[n:min(n+nextChunk, len(dst))], n == 0)
		if got == 0 {
			break
		}
		n += got
	}
	return n
}

// nextInitial reads the snapshot, without a lock.
func (c *Cursor) nextInitial(dst []Change) int {
	n, full := 0, false
	c.snap.table.ascend(c.from, func(key string, o *Object) bool {
		if key == c.from && key != "" {
			return true
		}
		if full = n == len(dst); full {
			return false
		}
		dst[n] = Change{Revision: o.revision, New: o, ResourceVersion: o.number(), Initial: true, Awaited: true}
		n++
		return true
	})
	if n > 0 {
		c.from = dst[n-1].New.key
	}
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	if c.closed {
		c.snap = nil
		return 0
	}
	c.readAt, c.unread = time.Now(), c.unread-n
	if full {
		c.signalNow()
		return n
	}
	c.snap, c.from, c.initial = nil, "", false
	return n
}

// nextChanges reads a chunk. first tells that it is the first of a Next, so that the reader has
// handled what Next returned before.
func (c *Cursor) nextChanges(dst []Change, first bool) int {
	n, last := c.readChunk(dst, first)
	if last || checking {
		c.log.mu.Lock()
		defer c.log.mu.Unlock()
		if last {
			c.log.trim()
		}
		if checking {
			c.check()
		}
	}
	return n
}

// readChunk reads a chunk. last reports that no other cursor has yet to pass the oldest record.
func (c *Cursor) readChunk(dst []Change, first bool) (n int, last bool) {
	now := time.Now()
	l := c.log
	l.mu.RLock() // only the reader changes the cursor's fields meanwhile, and no caller reads them
	defer l.mu.RUnlock()
	if c.closed {
		return 0, false
	}
	was := c.passed
	if c.readAt = now; first {
		c.late, c.passed = 0, c.pos
	}
	for n < len(dst) {
		ch, ok := c.backlog.pop()
		if !ok {
			break
		}
		dst[n] = ch
		n++
	}
	for ; n < len(dst) && c.pos < l.next(); c.pos++ {
		ch := &dst[n]
		*ch = *l.at(c.pos)
		ch.Initial = ch.Awaited && ch.Old == nil
		if ch.Awaited = ch.Awaited && c.counts; ch.Awaited {
			c.backlog.awaiting--
		}
		n++
	}
	c.read += uint64(n)
	// To look at all cursors each time would be a thousand times a thousand.
	if c.owes = c.handles && c.passed < c.pos; !c.handles {
		c.passed = c.pos
	}
	last = was == l.base && c.passed > was && l.atBase.Add(-1) == 0
	waits := c.pos == l.next() && c.backlog.n == 0
	if c.waiting.Store(waits); !waits {
		c.signalNow()
	}
	return n, last
}

// Revision returns the revision up to which Next has returned everything. It returns 0 while Next
// returns the initial state, or Awaited changes that the log has dropped. Safe for concurrent use.
func (c *Cursor) Revision() uint64 {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	return c.revision()
}

func (c *Cursor) revision() uint64 {
	switch {
	case c.initial || c.backlog.awaited > 0:
		return 0
	case c.backlog.first != nil:
		return c.backlog.first.Revision - 1
	}
	return c.pos - 1
}

// Saw reports whether o is still the newest version of its key, and Next has returned it, or
// everything up to it. It is for a reader that hands a version out once more, and must not do so
// before the version's own change. For a version that was replaced or deleted it is not known
// that: the change may have gone with it.
func (c *Cursor) Saw(o *Object) bool {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	// A version is dead before the record of its end is in the log.
	return o.live() && !c.initial && o.revision < c.pos && c.backlog.entries[o.key] == nil
}

// Pending returns the number of keys kept for the cursor because the log has dropped
// their changes.
func (c *Cursor) Pending() int {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	return c.backlog.n
}

// Lag returns how many revisions the store is ahead of the cursor. Each object of the initial state
// that Next has not returned counts as one.
func (c *Cursor) Lag() uint64 {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	switch {
	case c.initial:
		return uint64(c.unread) + c.log.next() - 1 - c.begun
	case c.backlog.awaited > 0:
		return c.log.next() - c.backlog.first.Revision
	}
	return c.log.next() - 1 - c.revision()
}

// SyncedThrough reports whether every writer has ended its first replace and Next has returned all
// that came with these replaces. It becomes true with the last change that is Awaited, whatever
// else keeps coming.
//
// unhandled is what the reader has yet to handle of what Next returned last. It matters because a
// first replace may since have brought one of these versions, which another writer had put.
// SyncedThrough is always false for a cursor of CursorAt.
func (c *Cursor) SyncedThrough(unhandled ...Change) bool {
	if !c.counts || !c.log.synced.Load() {
		return false
	}
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	return c.log.synced.Load() && !c.initial && c.backlog.awaiting == 0 &&
		!slices.ContainsFunc(unhandled, func(ch Change) bool { return ch.Revision <= c.late })
}

// Closed reports whether the cursor or its store was closed: Next returns 0 for
// good.
func (c *Cursor) Closed() bool {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	return c.closed
}

// Close frees what is kept for the cursor. Closing again does nothing.
func (c *Cursor) Close() {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	c.closeLocked()
	c.log.trim()
}

// Discard frees the initial state that was not read. Only the reader calls it, and does not call
// Next after it.
func (c *Cursor) Discard() { c.snap = nil }

func (c *Cursor) closeLocked() {
	if c.closed {
		return
	}
	c.closed = true
	c.backlog = backlog{}
	delete(c.log.cursors, c)
	if c.handles {
		c.log.handlers.Add(-1)
	}
	if c.passed == c.log.base {
		c.log.atBase.Add(-1)
	}
	c.signalNow()
}

// Notifier is notified of cursors that may have something for Next.
type Notifier interface {
	// Notify gets the owners of cursors that were signalled at one time; it must not keep the
	// slice. It must neither block nor use the store or its cursors, whose locks may be held.
	Notify(owners []any)
}

func (c *Cursor) signalNow() {
	if c.notifier != nil {
		c.notifier.Notify(c.owner[:])
		return
	}
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// signal signals cursors, those of the first notifier by one call. The handlers of a store have the
// same notifier. signal returns owners, emptied, to be used again.
func signal(cursors []*Cursor, owners []any) []any {
	var to Notifier
	for _, c := range cursors {
		if to == nil {
			to = c.notifier
		}
		if to == nil || c.notifier != to {
			c.signalNow()
		} else {
			owners = append(owners, c.owner[0])
		}
	}
	if to != nil {
		to.Notify(owners)
	}
	clear(owners)
	return owners[:0]
}

// Ready returns a channel of capacity one, nil if there is a notifier. It is signalled when there
// may be something for Next, when the store becomes synced, and when the cursor is closed. A reader
// loops: it calls Next until that returns 0, and then waits on Ready.
func (c *Cursor) Ready() <-chan struct{} { return c.ready }
