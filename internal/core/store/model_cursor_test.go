package store

// modelCursor contains a cursor that is read in chunks of pace changes, and what the cursor has
// returned.
type modelCursor struct {
	c      *Cursor
	byUID  bool
	pace   int
	view   map[string]*Object
	last   uint64
	awaits map[string]bool // the keys that SyncedThrough waits for
	synced bool
	since  int             // the number of uids when the cursor started
	uids   map[string]bool // the returned uids; false: the deletion was returned too
}

func (m *model) addCursor() {
	m.flush()
	c := &modelCursor{
		byUID: m.rnd.IntN(2) == 0, pace: 1 + m.rnd.IntN(20), since: len(m.uids),
		view: map[string]*Object{}, awaits: map[string]bool{}, uids: map[string]bool{},
	}
	if c.byUID {
		c.c = m.store.NotifyingCursor(nil, nil)
	} else {
		c.c = m.store.Cursor()
	}
	for o := range m.store.Snapshot().All() {
		c.awaits[o.Key()] = true
		m.uids = append(m.uids, o.UID())
	}
	m.cursors = append(m.cursors, c)
}

// observe records the uid of every object that existed, even for a moment.
func (m *model) observe() {
	for _, ch := range drain(m.witness) {
		if ch.New != nil {
			m.uids = append(m.uids, ch.New.UID())
			continue
		}
		for _, c := range m.cursors {
			if c.view[ch.Key()] == nil { // the cursor has not returned the object
				delete(c.awaits, ch.Key())
			}
		}
	}
}

// await records that a first list contains a key.
func (m *model) await(key string) {
	for _, c := range m.cursors {
		if _, ok := m.store.Get(key); ok {
			c.awaits[key] = true
		}
	}
}

// read reads a few changes. It checks that the old version of each change is the version of the key
// that the cursor returned last.
func (m *model) read(c *modelCursor) int {
	m.t.Helper()
	buf := make([]Change, c.pace)
	n := c.c.Next(buf)
	for _, ch := range buf[:n] {
		m.readChange(c, &ch)
	}
	if through := c.c.SyncedThrough(); through && !c.synced {
		c.synced = true
		for key := range c.awaits {
			if _, ok := m.store.Get(key); ok && c.view[key] == nil {
				m.t.Fatalf("synced, but %s was not returned", key)
			}
		}
	} else if n == 0 && through != m.store.Synced() {
		m.t.Fatalf("all was read, and the store has synced %v, the cursor %v", m.store.Synced(), through)
	}
	return n
}

func (m *model) readChange(c *modelCursor, ch *Change) {
	m.t.Helper()
	if !sameVersion(c.view[ch.Key()], ch.Old) {
		m.t.Fatalf("%s: old is not what the cursor saw last", ch.Key())
	}
	if ch.Old == nil && ch.New == nil || sameVersion(ch.Old, ch.New) {
		m.t.Fatal("a change from something to the same")
	}
	if ch.Initial && !ch.Awaited {
		m.t.Fatalf("%s is initial, but not awaited", ch.Key())
	}
	if !ch.Awaited {
		// With byUID, the creation and deletion of an unseen object have the same revision.
		if ch.Revision < c.last || ch.Revision == c.last && !c.byUID {
			m.t.Fatalf("%s: revision %d comes after %d", ch.Key(), ch.Revision, c.last)
		}
		c.last = ch.Revision
	}
	delete(c.awaits, ch.Key())
	if ch.Old != nil {
		c.uids[ch.Old.UID()] = false
	}
	if ch.New == nil {
		m.store.DropDerived(ch.Key())
		delete(c.view, ch.Key())
		return
	}
	if m.rnd.IntN(4) > 0 { // some readers decode the objects
		if decoded, err := ch.New.decodeOnce(); err == nil {
			m.store.Derive(ch.New, decoded)
		}
	}
	c.view[ch.Key()] = ch.New
	c.uids[ch.New.UID()] = true
}

// finish reads a cursor to its end. The cursor must have returned the store's state and, if byUID
// is true, each object that ever existed.
func (m *model) finish(c *modelCursor) {
	m.t.Helper()
	for m.read(c) > 0 {
	}
	if len(c.view) != m.store.Len() {
		m.t.Fatalf("cursor sees %d objects, want %d", len(c.view), m.store.Len())
	}
	for key, o := range c.view {
		if held, _ := m.store.Get(key); !sameVersion(held, o) {
			m.t.Fatalf("cursor sees %s at %s", key, o.ResourceVersion())
		}
	}
	there := map[string]bool{}
	for o := range m.store.Snapshot().All() {
		there[o.UID()] = true
	}
	for _, uid := range m.uids[c.since:] {
		if has, seen := c.uids[uid]; c.byUID && (!seen || has != there[uid]) {
			m.t.Fatalf("uid %s: told %v that it is there %v; it is there %v", uid, seen, has, there[uid])
		}
	}
	if c.c.Lag() != 0 || c.c.Pending() != 0 || c.c.Revision() != m.store.Revision() || c.c.backlog.bytes != 0 || c.c.backlog.awaiting != 0 {
		m.t.Fatalf("read to the end, yet lag %d, pending %d, revision %d of %d", c.c.Lag(), c.c.Pending(), c.c.Revision(), m.store.Revision())
	}
}
