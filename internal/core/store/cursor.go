package store

import (
	"slices"
	"sync/atomic"
	"time"
)

// Cursor is a consumer's position in a store's changes. It returns the changes in order, as long as
// the log has them. Changes that the log drops before the cursor has read them go to the cursor's
// backlog: one entry for each key, with the version that the cursor saw last and the key's newest
// state.
//
// Next returns the backlog first: one change for each key, ordered by the revision of the key's
// last change. Then it returns the rest of the log. An Awaited change in the backlog also has the
// key's newest state, but keeps its place in the order when the key changes again. So when Next
// returns a change that is not Awaited, it has already returned all changes of lower revisions. The
// only exceptions are changes that a later coalesced change replaces.
//
// The cursor returns no change for a key in two cases: the key was created and deleted while the
// cursor was behind, or its version is again the one that the cursor returned last. So a cursor
// that is behind uses memory for at most one old version of each changed key. A cursor of
// NotifyingCursor distinguishes objects by uid instead of by key, and also returns objects that
// were created and deleted while it was behind.
//
// Close a cursor when it is no longer needed. Until then the store keeps changes for it. Only one
// goroutine at a time may call Next; all other methods are safe for concurrent use.
type Cursor struct {
	log    *changeLog
	ready  chan struct{} // nil if there is a notifier
	counts bool          // it started with all objects; if not, SyncedThrough is always false
	// handles is true if the reader is a handler. Then the cursor has passed the changes of one call
	// of Next only when Next is called again, because only then has the handler received them. Until
	// then, the log keeps their decoded values for the handler.
	handles bool

	notifier Notifier
	owner    [1]any

	// waiting is true if Next has returned all changes, so that the next change must signal the
	// cursor. Like the field initial and the fields after it, waiting changes only while log.mu is
	// held.
	waiting atomic.Bool

	// Only the goroutine that calls Next uses these fields.
	snap *Snapshot // the initial state; nil when all of it was read
	from string    // the last key read from snap
	owes bool      // handles is true, and the cursor has not passed all changes that Next has returned

	// log.mu guards these fields. The goroutine that calls Next locks log.mu only for reading, even to
	// change them; all other goroutines lock it for writing.
	initial bool   // Next has not returned all of snap
	unread  int    // the number of unread objects of snap
	begun   uint64 // revision of snap
	pos     uint64 // revision of the next change to read
	passed  uint64 // the reader no longer needs the changes before this revision; at most pos
	late    uint64 // the newest revision whose change became Awaited after Next had returned it
	backlog backlog
	readAt  time.Time // when Next was last called
	read    uint64    // the number of changes read
	closed  bool
}

// nextChunk is the maximum number of changes that Next copies while it holds the log's lock for
// reading.
const nextChunk = 256

// Cursor returns a cursor that starts with all objects that are in the store now, in key order.
// Their changes have Initial set and no Old. Then the cursor returns the later changes.
func (s *Store) Cursor() *Cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &Cursor{log: s.log, ready: make(chan struct{}, 1), counts: true}
	return c.beginLocked(s)
}

// NotifyingCursor returns a cursor for a handler. Like Cursor, it starts with all objects, but it
// distinguishes objects by uid. Instead of signalling Ready, it calls to.Notify with owner.
// NotifyingCursor makes the first such call before it returns. If a change wakes several cursors
// with the same notifier, there is one call for all of them. If to is nil, the cursor signals
// Ready.
//
// A cursor that is behind returns two changes in these cases:
//
//   - An object was created and deleted while the cursor was behind: the creation with the object's
//     last version, and the deletion. The cursor keeps only the newest 16,384 such objects, so that
//     the backlog of a consumer that is blocked forever does not grow without bound.
//   - An object was deleted and another one was created under its key: the deletion of the first
//     object, and the creation of the second.
//
// So a cursor that is behind also uses memory for the last version of each object in the first
// case. The server may replace an object by a new one with the same name and send no DELETED event.
// Then a cursor that keeps up returns a single change, from the old uid to the new one.
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

// beginLocked starts a cursor with all objects in the store, and returns it. The caller holds the
// store's lock.
func (c *Cursor) beginLocked(s *Store) *Cursor {
	c.initial, c.snap = true, s.snapshotLocked()
	c.unread, c.begun = c.snap.table.count, c.snap.revision
	s.log.register(c, c.snap.revision+1)
	c.signalNow()
	return c
}

// CursorAt returns a cursor over the changes after revision rev. The error is ErrTrimmed if the log
// no longer has all of these changes (see Config.KeepLog), ErrFutureRevision if the store has not
// reached rev, or ErrClosed.
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

// Next fills dst with the next changes and returns their number. It does not block. It returns 0
// when the cursor has caught up or is closed, or if dst is empty. Only one goroutine at a time may
// call Next.
func (c *Cursor) Next(dst []Change) int {
	n := 0
	if c.snap != nil {
		n = c.nextInitial(dst)
	}
	// Many readers share the log's lock, so a reader does not take it if there is nothing to read.
	for n < len(dst) && (c.owes || !c.waiting.Load()) {
		got := c.nextChanges(dst[n:min(n+nextChunk, len(dst))], n == 0)
		if got == 0 {
			break
		}
		n += got
	}
	return n
}

// nextInitial fills dst from the snapshot, which it reads without a lock.
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

// nextChanges reads a chunk. first is true for the first chunk of a call of Next: the reader has
// then handled the changes of the previous call.
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

// readChunk reads a chunk. last is true if c was the last cursor that had not passed the log's
// oldest record. Then the log can be trimmed now.
func (c *Cursor) readChunk(dst []Change, first bool) (n int, last bool) {
	now := time.Now()
	l := c.log
	l.mu.RLock() // all other users of the cursor's fields lock it for writing
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
	// atBase shows whether c was the last cursor at the oldest record. A loop over all cursors would
	// be slow if each of a thousand cursors visited a thousand cursors.
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

// Revision returns the revision up to which Next has returned all changes. It returns 0 until Next
// has returned the whole initial state, and while the backlog contains Awaited changes. It is safe
// for concurrent use.
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

// Saw reports whether o is the newest version of its key and Next has returned the change whose New
// is o. A resync delivers o again only if Saw returns true, because the handler must receive that
// change first. For a version that was replaced or deleted, Saw returns false even if Next returned
// it: the log may have coalesced that change with a later one.
func (c *Cursor) Saw(o *Object) bool {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	// A version that is replaced or deleted loses its owners before the log contains this change.
	return o.live() && !c.initial && o.revision < c.pos && c.backlog.entries[o.key] == nil
}

// Pending returns the number of entries in the cursor's backlog.
func (c *Cursor) Pending() int {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	return c.backlog.n
}

// Lag returns how many revisions the cursor is behind the store. Each object of the initial state
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

// SyncedThrough reports whether every writer has ended its first replace (its first list) and Next
// has returned all changes of these replaces. It becomes true with the last Awaited change, even if
// many other changes follow.
//
// unhandled are the changes of the last Next that the reader has not handled yet. They matter only
// in a store with several writers: the first list of one writer may contain a version that another
// writer has already put, and that Next has already returned. Then SyncedThrough returns false
// until the reader has handled the change to that version. SyncedThrough is always false for a
// cursor of CursorAt.
func (c *Cursor) SyncedThrough(unhandled ...Change) bool {
	if !c.counts || !c.log.synced.Load() {
		return false
	}
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	return c.log.synced.Load() && !c.initial && c.backlog.awaiting == 0 &&
		!slices.ContainsFunc(unhandled, func(ch Change) bool { return ch.Revision <= c.late })
}

// Closed reports whether the cursor or its store was closed. Next then always returns 0.
func (c *Cursor) Closed() bool {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	return c.closed
}

// Close frees the cursor's backlog, and the changes that the log keeps for it. Further calls are
// no-ops.
func (c *Cursor) Close() {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	c.closeLocked()
	c.log.trim()
}

// Discard frees the unread part of the initial state. Only the goroutine that calls Next may call
// Discard, and must not call Next after it.
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

// Notifier is notified of cursors for which Next may have changes.
type Notifier interface {
	// Notify receives the owners of cursors that were signalled together; it must not retain the
	// slice. It must not block, and must not use the store or its cursors, because their locks may be
	// held.
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

// signal signals cursors. It takes the notifier of the first cursor that has one, and calls that
// notifier only once, with the owners of all cursors that have it. It signals each other cursor
// separately. Usually all handlers of a store share one notifier. owners is scratch memory, which
// signal returns empty for reuse.
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

// Ready returns a channel of capacity one, or nil if there is a notifier. The store signals it when
// Next may have changes, when the store becomes synced, and when the cursor is closed. A reader
// loops: it calls Next until Next returns 0, and then waits on Ready.
func (c *Cursor) Ready() <-chan struct{} { return c.ready }
