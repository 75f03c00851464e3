package store

// dirtyKeys collects the keys that have changed since somebody who derives
// something from the table last looked. Bounded by the number of objects held:
// beyond twice that (and some) it gives up, and everything is to be derived
// anew. Guarded by the log's lock.
type dirtyKeys struct {
	revs map[string]uint64 // the last change of each
	lost bool
}

const (
	dirtyBytes = 40
	dirtySlack = 1024
)

func (d *dirtyKeys) add(records []record, rev uint64, held int) {
	if d.lost {
		return
	}
	if d.revs == nil {
		d.revs = make(map[string]uint64)
	}
	for i := range records {
		d.revs[records[i].key()] = rev + uint64(i)
	}
	if len(d.revs) > 2*held+dirtySlack {
		d.revs, d.lost = nil, true
	}
}

// take returns what was collected and starts again.
func (l *changeLog) take(d *dirtyKeys) (revs map[string]uint64, lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	revs, lost = d.revs, d.lost
	d.revs, d.lost = nil, false
	return revs, lost
}

func (l *changeLog) collect(d *dirtyKeys) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d.revs, d.lost = nil, false
	l.dirty[d] = struct{}{}
}

func (l *changeLog) stopCollecting(d *dirtyKeys) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.dirty, d)
}
