package store

// backlog stores for a cursor the changes that the log dropped before the cursor read them. It has
// one entry for each key. With byUID, it has one entry for each object that had the key.
//
// The backlog keeps these objects in memory: the entries, and the versions that the cursor saw
// last. With byUID it also keeps the last versions of objects that were created and deleted unseen,
// but only the newest maxGone. So its size is bounded by what the cursor has seen and what is in
// the table. The newest version of an entry is not counted. It is alive in any case: in the table,
// or as the old version of the key's next change in the log. The log's lock guards the backlog,
// like the rest of its cursor.
type backlog struct {
	byUID   bool
	entries map[string]*backlogEntry // by key; with byUID without deleted objects
	// The list is ordered by each entry's last change. An entry that SyncedThrough waits for keeps
	// its first place: otherwise, under steady load, it would never reach the front.
	first, last *backlogEntry
	n           int // the number of entries in the list,
	awaited     int // and how many of them SyncedThrough waits for
	awaiting    int // the changes that SyncedThrough waits for, here and in the log
	bytes       int64
	// gone are the objects that were created and deleted unseen, in the order of their deletion. An
	// entry that was popped since has no last version.
	gone     []*backlogEntry
	goneLeft int // the number of gone that have a last version
}

// maxGone bounds the objects of a backlog with byUID that were created and deleted unseen. Without
// it the backlog of a handler that is blocked forever would grow with each such object.
const maxGone = 16384

// backlogEntry represents all dropped changes of one key. Its Old is the version that the cursor
// saw last.
type backlogEntry struct {
	Change
	// If both versions are nil: the last version of an object created and deleted unseen.
	last       *Object
	prev, next *backlogEntry
}

// backlogEntryBytes is the size of an entry with its place in the map.
const backlogEntryBytes = 64 + 40

func (e *backlogEntry) cost() int64 {
	n := int64(backlogEntryBytes)
	for _, o := range [2]*Object{e.Old, e.last} {
		if o != nil {
			n += o.Footprint()
		}
	}
	return n
}

// absorb adds a change that the log is about to drop. awaited reports whether SyncedThrough waits
// for it.
func (m *backlog) absorb(r *Change, awaited bool) {
	if m.byUID && r.Old != nil && r.New != nil && !r.Old.SameUID(r.New) {
		m.take(&Change{Revision: r.Revision, Old: r.Old, Missed: true}, false)
		replacing := *r
		replacing.Old = nil
		r = &replacing
	}
	m.take(r, awaited)
}

func (m *backlog) take(r *Change, awaited bool) {
	key := r.Key()
	e := m.entries[key]
	if e == nil {
		e = &backlogEntry{Change: Change{Old: r.Old}}
		if m.entries == nil {
			m.entries = make(map[string]*backlogEntry)
		}
		m.entries[key] = e
		m.bytes += e.cost()
		m.n++
		m.link(e)
	} else {
		if !e.Awaited {
			m.unlink(e)
			m.link(e)
		}
		// With byUID, the deletion of an object that was created unseen is a separate change.
		e.Coalesced = e.Coalesced || !m.byUID || e.Old != nil || r.New != nil
	}
	switch {
	case awaited && e.Awaited:
		m.awaiting-- // one entry counts once
	case awaited:
		e.Awaited = true
		m.awaited++
	}
	e.New, e.Revision, e.ResourceVersion, e.Missed = r.New, r.Revision, r.ResourceVersion, r.Missed
	e.Initial = e.Initial || r.Awaited
	switch {
	case e.New != nil:
	case m.byUID:
		m.remove(key) // a later object under this key is a different one
		if e.Old == nil {
			m.keepGone(e, r.Old)
		}
	case e.Old == nil: // created and deleted unseen
		m.forget(key, e)
	}
}

// await makes SyncedThrough wait for a key. It reports whether the backlog has an entry for the
// key, so that the cursor will return a change.
func (m *backlog) await(key string) bool {
	e := m.entries[key]
	if e != nil && !e.Awaited {
		e.Awaited, e.Initial = true, true
		m.awaited++
		m.awaiting++
	}
	return e != nil
}

// pop removes and returns the next change. It returns false if there is none.
func (m *backlog) pop() (Change, bool) {
	for e := m.first; e != nil; e = m.first {
		ch := e.Change
		if e.Old == nil && e.New == nil { // return the creation first, then the deletion
			ch.New, ch.ResourceVersion, ch.Missed = e.last, e.last.number(), false
			e.Old, e.last, e.Initial, e.Coalesced = e.last, nil, false, false
			m.trimGone()
			return ch, true
		}
		ch.Initial = e.Initial && e.Old == nil
		m.forget(ch.Key(), e)
		if !sameVersion(e.Old, e.New) {
			return ch, true
		}
	}
	return Change{}, false
}

// keepGone stores the last version of an object that was created and deleted unseen. If there are
// too many such objects, it removes the oldest.
func (m *backlog) keepGone(e *backlogEntry, last *Object) {
	e.last = last
	m.bytes += last.Footprint()
	m.gone = append(m.gone, e)
	if m.goneLeft++; m.goneLeft > maxGone {
		oldest := m.gone[0]
		m.forget(oldest.last.Key(), oldest)
		oldest.last = nil
		m.trimGone()
	}
}

// trimGone updates gone after one of its entries has lost its last version.
func (m *backlog) trimGone() {
	m.goneLeft--
	for len(m.gone) > 0 && m.gone[0].last == nil {
		m.gone[0] = nil
		m.gone = m.gone[1:]
	}
	if len(m.gone) == 0 {
		m.gone = nil
	}
}

func (m *backlog) forget(key string, e *backlogEntry) {
	m.unlink(e)
	if e.Awaited {
		m.awaited--
		m.awaiting--
	}
	m.bytes -= e.cost()
	m.n--
	if m.entries[key] == e {
		m.remove(key)
	}
}

func (m *backlog) remove(key string) {
	if delete(m.entries, key); len(m.entries) == 0 {
		m.entries = nil // a map does not shrink
	}
}

func (m *backlog) link(e *backlogEntry) {
	e.prev, e.next = m.last, nil
	if m.last == nil {
		m.first = e
	} else {
		m.last.next = e
	}
	m.last = e
}

func (m *backlog) unlink(e *backlogEntry) {
	if e.prev == nil {
		m.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		m.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
}
