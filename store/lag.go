package store

// lagMap is what a cursor keeps of changes that the log dropped before it saw
// them: one entry a key, in the order of each key's last dropped change. Its
// memory is the entries and the versions that the cursor saw last; the newest
// version of an entry is alive anyway, in the table or as the old version of the
// key's next change in the log. Guarded by the log's lock.
type lagMap struct {
	entries     map[string]*lagEntry
	first, last *lagEntry
	bytes       int64
}

// lagEntry stands for all dropped changes of one key.
type lagEntry struct {
	seen, new  *Object // what the cursor saw last, and the key as of rev
	rev        uint64
	initial    bool
	coalesced  bool
	end        uint64 // of the last record
	missed     bool   // of the last record
	prev, next *lagEntry
}

// lagEntryBytes is an entry with its place in the map.
const lagEntryBytes = 80 + 40

func (e *lagEntry) cost() int64 {
	n := int64(lagEntryBytes)
	if e.seen != nil {
		n += e.seen.footprint()
	}
	return n
}

// absorb takes a record that is about to be dropped.
func (m *lagMap) absorb(r *record, rev uint64) {
	key := r.key()
	e := m.entries[key]
	if e == nil {
		e = &lagEntry{seen: r.old}
		if m.entries == nil {
			m.entries = make(map[string]*lagEntry)
		}
		m.entries[key] = e
		m.bytes += e.cost()
	} else {
		m.unlink(e)
		e.coalesced = true
	}
	e.new, e.rev, e.end, e.missed = r.new, rev, r.end, r.missed
	e.initial = e.initial || r.initial
	if e.seen == nil && e.new == nil {
		m.forget(key, e) // came and went unseen
		return
	}
	m.link(e)
}

// pop takes out the entry with the lowest revision.
func (m *lagMap) pop() (Change, bool) {
	for e := m.first; e != nil; e = m.first {
		m.unlink(e)
		ch := Change{Revision: e.rev, Old: e.seen, New: e.new, Initial: e.initial && e.seen == nil, Coalesced: e.coalesced}
		ch.ended(e.end, e.missed)
		m.forget(ch.Key(), e)
		if !sameVersion(e.seen, e.new) {
			return ch, true
		}
	}
	return Change{}, false
}

func (m *lagMap) forget(key string, e *lagEntry) {
	delete(m.entries, key)
	m.bytes -= e.cost()
	if len(m.entries) == 0 {
		m.entries = nil // a map keeps its room
	}
}

func (m *lagMap) link(e *lagEntry) {
	e.prev, e.next = m.last, nil
	if m.last == nil {
		m.first = e
	} else {
		m.last.next = e
	}
	m.last = e
}

func (m *lagMap) unlink(e *lagEntry) {
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
