package store

// backlog keeps for a cursor the changes that the log dropped before the cursor saw them. It has
// one entry for each key, or by uid one for each object that the key stood for.
//
// Its memory is the entries, the versions that the cursor saw last, and by uid the last versions of
// objects that came and went, of which it keeps the newest maxGone. So it is bounded by what the
// cursor has seen and the table has. The newest version of an entry is alive anyway, in the table
// or as the old version of the key's next change in the log. The log's lock guards it, as the rest
// of its cursor.
type backlog struct {
	byUID   bool
	entries map[string]*backlogEntry // by key; by uid without the objects that are gone
	// The list is in the order of each entry's last change. An entry that SyncedThrough waits for
	// stays where it came first: under steady load it would never come to the front otherwise.
	first, last *backlogEntry
	n           int // of entries in the list,
	awaited     int // and how many of them SyncedThrough waits for
	awaiting    int // changes that it waits for, here and in the log
	bytes       int64
	// gone are the objects that came and went, in the order in which they went. Those that have been
	// popped since have no last version any more.
	gone     []*backlogEntry
	goneLeft int // of gone, those that have one
}

// maxGone bounds the objects that came and went of a backlog by uid: without it a handler that is
// blocked for good would grow with each object that is created and deleted.
const maxGone = 16384

// backlogEntry represents all dropped changes of one key. Its Old is what the cursor saw last.
type backlogEntry struct {
	Change
	last       *Object // where both versions are nil: what came and went
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

// absorb takes a change that the log is about to drop. awaited reports that SyncedThrough waits for
// it.
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
		// By uid, the end of what came and went is a change of its own.
		e.Coalesced = e.Coalesced || !m.byUID || e.Old != nil || r.New != nil
	}
	switch {
	case awaited && e.Awaited:
		m.awaiting-- // one is for both
	case awaited:
		e.Awaited = true
		m.awaited++
	}
	e.New, e.Revision, e.ResourceVersion, e.Missed = r.New, r.Revision, r.ResourceVersion, r.Missed
	e.Initial = e.Initial || r.Awaited
	switch {
	case e.New != nil:
	case m.byUID:
		m.remove(key) // what comes under this key is another object
		if e.Old == nil {
			m.keepGone(e, r.Old)
		}
	case e.Old == nil: // came and went unseen
		m.forget(key, e)
	}
}

// await makes SyncedThrough wait for a key. It reports whether the backlog has an entry for the
// key, so that a change will come.
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
		if e.Old == nil && e.New == nil { // it comes before it goes
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

// keepGone keeps the last version of an object that came and went unseen, and forgets the oldest
// such object if there are too many.
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

// trimGone is called when one of gone has lost its last version.
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
		m.entries = nil // a map keeps its room
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
