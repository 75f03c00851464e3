package store

// backlog stores the changes of one cursor that the log dropped before the cursor read them. It has
// one entry for each key. If byUID is set, it has one entry for each object (uid) that had the key.
//
// A backlog uses memory for its entries. Each entry keeps in memory the version that the cursor saw
// last. With byUID, the backlog also keeps the last versions of objects that were created and
// deleted before the cursor read them, but only the newest maxGone. So the size of the backlog is
// bounded by maxGone plus the number of objects that the cursor has seen or that are in the table.
// The newest version in an entry needs no additional memory: it is also in the table, or in the log
// as the old version of the key's next change. The log's lock guards the backlog.
type backlog struct {
	byUID   bool
	entries map[string]*backlogEntry // by key; if byUID is set, only of objects that exist
	// first and last are the ends of the list of entries, in the order in which the cursor returns
	// them. When a key changes again, its entry moves to the end. Only an entry that SyncedThrough
	// waits for keeps its position: otherwise, if its key changed all the time, it would never reach
	// the front.
	first, last *backlogEntry
	n           int // the number of entries in the list
	awaited     int // the number of entries that SyncedThrough waits for
	awaiting    int // how many changes SyncedThrough waits for, here and in the log
	bytes       int64
	// gone contains the entries of objects that were created and deleted before the cursor read them,
	// oldest deletion first. When the cursor has returned the creation of such an object, the field
	// last of its entry is nil.
	gone     []*backlogEntry
	goneLeft int // the number of entries in gone whose field last is not nil
}

// maxGone is the maximum number of objects in a backlog with byUID that were created and deleted
// before the cursor read them. Without this bound, the backlog of a handler that is blocked forever
// would grow with each such object.
const maxGone = 16384

// backlogEntry represents all dropped changes of one key. Old is the version that the cursor saw
// last.
type backlogEntry struct {
	Change
	// last is the last version of an object that was created and deleted before the cursor read it.
	// Old and New are then nil.
	last       *Object
	prev, next *backlogEntry
}

// backlogEntryBytes estimates the bytes of an entry and its slot in the map.
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
// for the change. With byUID, absorb splits a change from one uid to another into a deletion and a
// creation. It drops the deletion of an object that the store did not have: otherwise the backlog
// of a handler that is blocked forever would grow with each.
func (m *backlog) absorb(r *Change, awaited bool) {
	if r.ofUnknown() {
		return // never awaited
	}
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
		// With byUID, the creation and the deletion of an object that the cursor has not read are two
		// changes (see pop), so neither of them is coalesced.
		e.Coalesced = e.Coalesced || !m.byUID || e.Old != nil || r.New != nil
	}
	switch {
	case awaited && e.Awaited:
		m.awaiting-- // the entry is already counted
	case awaited:
		e.Awaited = true
		m.awaited++
	}
	e.New, e.Revision, e.ResourceVersion, e.Missed = r.New, r.Revision, r.ResourceVersion, r.Missed
	e.Initial = e.Initial || r.Awaited
	switch {
	case e.New != nil:
	case m.byUID:
		m.remove(key) // a later object with this key gets a separate entry
		if e.Old == nil {
			m.keepGone(e, r.Old)
		}
	case e.Old == nil: // created and deleted before the cursor read it
		m.forget(key, e)
	}
}

// await makes SyncedThrough wait until the cursor has returned the entry of a key. It returns false
// if the backlog has no entry of the key.
func (m *backlog) await(key string) bool {
	e := m.entries[key]
	if e != nil && !e.Awaited {
		e.Awaited, e.Initial = true, true
		m.awaited++
		m.awaiting++
	}
	return e != nil
}

// pop removes and returns the next change. It skips a key whose newest version is the one that the
// cursor saw last. It returns false if no change is left.
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

// keepGone stores the last version of an object that was created and deleted before the cursor read
// it. If there are more than maxGone such objects, it removes the oldest.
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

// trimGone updates gone and goneLeft after the field last of one entry in gone has become nil.
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
