package store

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Change is one change of one key. The log stores it, a cursor returns it, and a handler receives
// it. Old has the uid and resourceVersion that the reader saw last for the key. All readers of the
// store share the objects; do not modify them.
type Change struct {
	// Revision is the store's revision of the change. If this Change represents several changes, it is
	// the revision of the last of them. For an object of the initial state, it is the revision at
	// which the store applied the object's version.
	Revision uint64
	// Old and New are the versions before and after. Old is nil if the key did not exist before,
	// and New is nil if it does not exist after. They are never both nil. They are the same version
	// only in a resync.
	Old, New *Object
	// Final is the state in which Writer.DeleteAs deleted the object, or nil if the state is unknown.
	// It is equal to Old if the store did not have the object.
	Final *Object
	// ResourceVersion is the resourceVersion of New. If New is nil, ResourceVersion is the
	// resourceVersion that was passed to Writer.Delete, or the resourceVersion of the list that did
	// not contain the object. It is 0 if it is unknown or not an integer.
	ResourceVersion uint64
	// Initial is true if Old is nil, and the change is part of the cursor's initial state, or of a
	// writer's first replace (its first list). client-go calls this isInInitialList.
	Initial bool
	// Awaited is true if Cursor.SyncedThrough has waited until Next returned this change. That is so
	// if the change is Initial, or if it contains a change by a writer's first replace. A record of
	// the log is Awaited only for the second reason.
	Awaited bool
	// Coalesced is true if the change replaces several changes, because its reader fell behind the
	// log.
	Coalesced bool
	// Missed is true if New is nil and the server sent no DELETED event: a relist did not contain the
	// object, a new object has the same name, or the object's writer was removed.
	Missed bool
	// Refused is true if New is nil because a handler's filter rejects the newest version.
	Refused bool
}

// ChangeType is the kind of a change, from one reader's point of view.
type ChangeType uint8

const (
	// Added: the reader has not seen the object before, or its filter rejected it until now.
	Added ChangeType = iota + 1
	// Updated: the object changed since the reader last saw it.
	Updated
	// Deleted: the object was deleted, or the reader's filter now rejects it.
	Deleted
	// Resynced: the resync reached the object. Nothing changed.
	Resynced
)

// String returns the type as a WATCH spells it. For Resynced, which is not in a WATCH, it returns
// RESYNC.
func (t ChangeType) String() string {
	switch t {
	case Added:
		return "ADDED"
	case Updated:
		return "MODIFIED"
	case Deleted:
		return "DELETED"
	case Resynced:
		return "RESYNC"
	}
	return "UNKNOWN"
}

// Type returns the kind of the change.
func (ch *Change) Type() ChangeType {
	switch {
	case ch.Old == nil:
		return Added
	case ch.New == nil:
		return Deleted
	case ch.Old == ch.New:
		return Resynced
	}
	return Updated
}

// FinalStateUnknown reports whether the object was deleted, and Old may not be its final state.
// This is so if the server sent no DELETED event, or if the change is Coalesced. client-go calls
// this DeletedFinalStateUnknown.
func (ch *Change) FinalStateUnknown() bool {
	return ch.New == nil && !ch.Refused && (ch.Missed || ch.Coalesced)
}

// ofUnknown reports whether the change is the deletion of an object that the store did not have.
func (ch *Change) ofUnknown() bool { return ch.Old != nil && ch.Old == ch.Final }

// Object returns New, or Old if New is nil.
func (ch *Change) Object() *Object {
	if ch.New != nil {
		return ch.New
	}
	return ch.Old
}

// Key returns the key of the object that changed.
func (ch *Change) Key() string { return ch.Object().key }

// changeBytes is the size of a Change in the log.
const changeBytes = 48

// cost returns how many bytes the change uses in the log, including Old and Final, which are not in
// the table.
func (ch *Change) cost() int64 {
	n := int64(changeBytes)
	if ch.Old != nil {
		n += ch.Old.Footprint()
		if ch.New == nil {
			n += int64(len(ch.Old.key))
		}
	}
	if ch.Final != nil {
		n += ch.Final.Footprint()
	}
	return n
}

const (
	// A log whose memory has room for at most minLog changes does not free memory when it becomes
	// shorter.
	minLog = 64
	// A cursor with behindBy unread changes is behind until it has fewer than caughtUp unread changes.
	// Both limits are higher than the number of changes in one batch, and lower than the number that
	// the log can store. A cursor that was not read for blockedFor is blocked instead of behind: the
	// reflector does not slow down for it.
	behindBy   = 1024
	caughtUp   = 512
	blockedFor = time.Second
)

// changeLog contains the newest changes, bounded in bytes, and the cursors that read them. A cursor
// absorbs into its backlog the changes that the log drops before the cursor has read them. A
// goroutine that needs both locks takes the log's lock after the store's.
type changeLog struct {
	limit   int64
	keep    bool
	decoded *decodedCache // counts the bytes of values

	handlers   atomic.Int32 // the number of cursors of handlers
	valueLimit int64        // bounds the bytes of values

	mu      sync.RWMutex // a reader holds it for reading while it moves its own cursor
	records []Change     // the log starts at head; the records before head were dropped and are zero
	head    int
	base    uint64 // revision of the record at head
	bytes   int64
	behind  bool // the last result of isBehind
	cursors map[*Cursor]struct{}
	atBase  atomic.Int64            // the number of cursors that have not passed the record at base
	values  map[uint64]changeValues // the decoded values of changes in the log, by revision
	dirty   map[*dirtyKeys]struct{}

	synced atomic.Bool // every writer has ended its first replace; changed under mu
	closed bool
}

func newChangeLog(limit int64, keep bool, decoded *decodedCache) *changeLog {
	if limit <= 0 {
		limit = 8 << 20
	}
	valueLimit := limit
	if decoded.budget > 0 {
		valueLimit = min(limit, decoded.budget/2)
	}
	return &changeLog{
		limit: limit, keep: keep, decoded: decoded, valueLimit: valueLimit, base: 1,
		cursors: make(map[*Cursor]struct{}), dirty: make(map[*dirtyKeys]struct{}),
	}
}

// len returns the number of changes in the log, and next the revision of the next change.
func (l *changeLog) len() int     { return len(l.records) - l.head }
func (l *changeLog) next() uint64 { return l.base + uint64(l.len()) }

func (l *changeLog) at(rev uint64) *Change { return &l.records[l.head+int(rev-l.base)] }

// append adds the records to the log. The first record must have revision l.next(). held is the
// number of objects in the table. append appends to woken the cursors that must now be signalled,
// and returns woken. The caller signals them after it has released all locks: otherwise the first
// of a thousand readers would wait for the lock until the last one is woken.
func (l *changeLog) append(records []Change, held int, woken []*Cursor) []*Cursor {
	l.mu.Lock()
	defer l.mu.Unlock()
	for d := range l.dirty {
		d.add(records, held)
	}
	if !l.keep && len(l.cursors) == 0 {
		l.base += uint64(len(records))
		return woken
	}
	initial := 0
	for i := range records {
		l.bytes += records[i].cost()
		if records[i].Awaited {
			initial++
		}
	}
	l.records = append(l.records, records...)
	if initial > 0 {
		l.await(initial)
	}
	if l.bytes > l.limit {
		l.enforce()
	}
	if checking {
		l.check()
	}
	for c := range l.cursors {
		if c.waiting.Load() {
			c.waiting.Store(false)
			woken = append(woken, c)
		}
	}
	return woken
}

// await makes SyncedThrough of all cursors wait for n more changes.
func (l *changeLog) await(n int) {
	for c := range l.cursors {
		if c.counts {
			c.backlog.awaiting += n
		}
	}
}

// awaitVersion makes SyncedThrough wait for the change whose New is o. Another writer has put o,
// and the first replace of the calling writer also contains it.
func (l *changeLog) awaitVersion(o *Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var r *Change
	if o.revision >= l.base && o.revision < l.next() && !l.at(o.revision).Awaited {
		r = l.at(o.revision)
		r.Awaited = true
	}
	for c := range l.cursors {
		switch {
		case !c.counts:
		case o.revision < c.pos:
			if !c.backlog.await(o.key) {
				c.late = max(c.late, o.revision)
			}
		case r != nil:
			c.backlog.awaiting++
		}
	}
	if checking {
		l.check()
	}
}

// isBehind reports whether at least one cursor that is being read has fallen behind and has not
// caught up yet. read is the mean number of changes that these cursors have read.
func (l *changeLog) isBehind() (behind bool, read uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	most := uint64(behindBy)
	if l.behind {
		most = caughtUp
	}
	n := uint64(0)
	for c := range l.cursors {
		left := l.next() - c.pos
		if (left >= most || c.backlog.n > 0) && time.Since(c.readAt) < blockedFor {
			read += c.read
			n++
		}
	}
	l.behind = n > 0
	return l.behind, read / max(n, 1)
}

// enforce drops the oldest records until the others fit the limit.
func (l *changeLog) enforce() {
	bytes, to := l.bytes, l.base
	for bytes > l.limit && to < l.next() {
		bytes -= l.at(to).cost()
		to++
	}
	for c := range l.cursors {
		for ; c.pos < to; c.pos++ {
			r := l.at(c.pos)
			c.backlog.absorb(r, r.Awaited && c.counts)
		}
		c.passed = max(c.passed, to)
	}
	l.drop(to)
}

// trim drops the records that every cursor has passed.
func (l *changeLog) trim() {
	if l.keep || l.len() == 0 {
		return
	}
	to := l.next()
	for c := range l.cursors {
		to = min(to, c.passed)
	}
	l.drop(to)
}

// drop removes all records whose revision is lower than the argument to.
func (l *changeLog) drop(to uint64) {
	for ; l.base < to; l.base++ {
		r := &l.records[l.head]
		l.bytes -= r.cost()
		l.dropValues(l.base)
		*r = Change{}
		l.head++
	}
	if l.head > len(l.records)/2 {
		l.records, l.head = slices.Delete(l.records, 0, l.head), 0
		if len(l.records) < cap(l.records)/4 && cap(l.records) > minLog {
			l.records = append(make([]Change, 0, max(minLog, 2*len(l.records))), l.records...)
		}
	}
	atBase := int64(0)
	for c := range l.cursors {
		if c.passed == l.base {
			atBase++
		}
	}
	l.atBase.Store(atBase)
}

// setSynced records whether all writers are synced, and wakes the cursors.
func (l *changeLog) setSynced(synced bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.synced.Store(synced)
	for c := range l.cursors {
		c.waiting.Store(false)
		c.signalNow()
	}
}

// close closes all cursors.
func (l *changeLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for c := range l.cursors {
		c.closeLocked()
	}
	l.trim()
}

// footprint returns the bytes of the log, and of the backlogs of its cursors.
func (l *changeLog) footprint() (log, cursors int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Add the unused memory of records.
	log = l.bytes + int64(cap(l.records)-l.len())*changeBytes
	for c := range l.cursors {
		cursors += c.backlog.bytes
	}
	for d := range l.dirty {
		cursors += int64(len(d.revs)) * dirtyBytes
	}
	return log, cursors
}

// register adds c, which will read from revision pos on.
func (l *changeLog) register(c *Cursor, pos uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.pos, c.closed = pos, l.closed; !l.closed {
		l.add(c, pos)
	}
}

func (l *changeLog) add(c *Cursor, pos uint64) {
	c.pos, c.passed = pos, pos
	if c.handles {
		l.handlers.Add(1)
	}
	l.cursors[c] = struct{}{}
	if pos == l.base {
		l.atBase.Add(1)
	}
}
