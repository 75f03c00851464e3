package store

// dirtyKeys collects the keys that have changed since a reader that derives data from the table
// last took them. It is bounded by the number of objects held. Beyond twice that, plus dirtySlack,
// it gives up and sets lost: everything must be derived again. The log's lock guards it.
type dirtyKeys struct {
	revs map[string]uint64 // the last change of each
	lost bool
	// letGo is called when more was replaced than a reader that has seen the versions may hold:
	// about dirtySlack versions, or dirtyHeld bytes of them. nil: no reader holds any.
	letGo    func()
	replaced int64 // bytes
}

const (
	dirtyBytes = 40
	dirtySlack = 1024
	dirtyHeld  = 1 << 20
)

func (d *dirtyKeys) add(records []Change, held int) {
	if d.letGo != nil {
		d.count(records)
	}
	if d.lost {
		return
	}
	if d.revs == nil {
		d.revs = make(map[string]uint64)
	}
	for i := range records {
		d.revs[records[i].Key()] = records[i].Revision
	}
	if len(d.revs) > 2*held+dirtySlack {
		d.revs, d.lost = nil, true
	}
}

// count adds up the versions that were replaced, and calls letGo when they are too many.
func (d *dirtyKeys) count(records []Change) {
	for i := range records {
		if old := records[i].Old; old != nil {
			d.replaced += dirtyHeld/dirtySlack + old.Footprint()
		}
	}
	if d.replaced > dirtyHeld {
		d.letGo()
	}
}

// take returns what d has collected, and starts again.
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
