package store

// dirtyKeys collects the keys that have changed since an index by function last took them. If the
// number of keys exceeds twice the number of stored objects plus dirtySlack, dirtyKeys drops all
// keys and sets lost. Then the index must be built again. The log's lock guards it.
type dirtyKeys struct {
	revs map[string]uint64 // the revision of the last change of each key
	lost bool
	// letGo makes the index drop its cached objects. It is called when about dirtySlack versions, or
	// dirtyHeld bytes of versions, were replaced, because the index may still keep these versions in
	// memory.
	letGo    func()
	replaced int64 // bytes of replaced versions
}

const (
	dirtyBytes = 40
	dirtySlack = 1024
	dirtyHeld  = 1 << 20
)

func (d *dirtyKeys) add(records []Change, held int) {
	if d.revs == nil && !d.lost {
		d.revs = make(map[string]uint64)
	}
	for i := range records {
		if old := records[i].Old; old != nil {
			d.replaced += dirtyHeld/dirtySlack + old.Footprint()
		}
		if !d.lost {
			d.revs[records[i].Key()] = records[i].Revision
		}
	}
	if len(d.revs) > 2*held+dirtySlack {
		d.revs, d.lost = nil, true
	}
	if d.replaced > dirtyHeld {
		d.letGo()
	}
}

// take returns the keys that d has collected, and empties d. lost reports that d has dropped keys.
func (l *changeLog) take(d *dirtyKeys) (revs map[string]uint64, lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	revs, lost = d.revs, d.lost
	d.revs, d.lost, d.replaced = nil, false, 0
	return revs, lost
}

func (l *changeLog) collect(d *dirtyKeys) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d.revs, d.lost, d.replaced = nil, false, 0
	l.dirty[d] = struct{}{}
}
