package store

import "time"

// Flush applies what is buffered, under one lock and mostly at once, and wakes the cursors. It
// returns the number of changes. Call it when nothing more is there to be read.
func (w *Writer) Flush() (changed int) {
	changed = w.applyAll()
	w.syncAfterDoubts()
	return changed
}

// applyAll applies what is buffered, and returns the number of changes.
func (w *Writer) applyAll() (changed int) {
	b := w.batch
	if b == nil {
		return 0
	}
	if !w.replacing && b.queue.comesFast() {
		w.cameFast = time.Now()
		if behind, _ := w.Behind(); behind {
			w.fastSince = w.cameFast
		}
	}
	b.pack(w.s)
	for !b.empty() {
		changed += w.apply()
	}
	if w.advanced { // nothing was left to apply, because another writer was first
		w.s.mu.Lock()
		w.advanceLocked()
		w.s.mu.Unlock()
	}
	w.batch = nil
	b.release()
	return changed
}

// syncAfterDoubts makes the writer synced if it only waits for news of objects in doubt, and they
// have come.
func (w *Writer) syncAfterDoubts() {
	if w.listed && !w.synced {
		w.trySync()
	}
}

// apply applies the changes of the batch whose keys are as they were when the batch was prepared,
// and returns how many there were. What another writer has changed meanwhile is prepared again, and
// stays in the batch.
func (w *Writer) apply() int {
	s, b := w.s, w.batch
	s.mu.Lock()
	if s.byteIndexes.Load() != b.byteIndexes {
		s.mu.Unlock()
		b.prepareAgain(w)
		return 0
	}
	left := 0
	for i := range b.list {
		if p := &b.list[i]; !w.applyLocked(p) {
			b.list[left] = *p
			left++
		}
	}
	changed := len(b.records)
	if changed > 0 {
		s.snap = nil
		if !w.initial() {
			s.changes.Add(uint64(changed))
		}
		s.revised.Store(s.revision)
		b.woken = s.log.append(b.records, s.table.count, b.woken)
	}
	if left == 0 {
		w.advanceLocked()
	}
	if checking {
		s.checkRecordsLocked(b.records)
	}
	s.mu.Unlock()
	b.owners = signal(b.woken, b.owners)
	for i := range b.records {
		if old := b.records[i].old; old != nil {
			s.release(old)
			if d := old.decoded.Load(); d != nil {
				s.decoder.cache.drop(d)
			}
		}
	}
	b.reset(left)
	if left > 0 {
		b.prepareAgain(w)
	}
	return changed
}

// applyLocked makes one change. It returns false if the table holds another version than was
// expected. The caller holds the lock.
func (w *Writer) applyLocked(p *pending) bool {
	s, old := w.s, p.expect
	if s.several {
		if w.outdatedLocked() {
			return false
		}
		if held, _ := s.table.get(p.key); held != old {
			return false
		}
		if o := p.object; old == nil && !p.overrules && s.deletions.outdates(w, o.key, o.rv, o.opaque()) {
			return false // it came and went since the change was prepared
		}
	}
	if p.object != nil {
		w.setLocked(p)
		return true
	}
	s.deletions.record(w, old, p)
	if old.claims.Load() != w.bit { // somebody else holds it too
		old.claims.And(^w.bit)
		old.marks.And(^w.bit)
		old.puts.And(^w.bit)
		return true
	}
	s.table.delete(p.key)
	s.replaced += old.Footprint()
	s.raw -= int64(old.size)
	s.packed -= int64(len(old.packed))
	s.keys -= int64(len(p.key))
	old.claims.Store(0)
	w.batch.applyOps(p)
	s.revision++
	w.batch.records = append(w.batch.records, record{old: old, end: p.end, missed: p.missed, initial: w.initial()})
	return true
}

func (w *Writer) setLocked(p *pending) {
	s, old, o := w.s, p.expect, p.object
	claims, marks := w.bit, uint32(0)
	if w.replacing {
		marks = w.bit
	}
	s.raw += int64(o.size)
	s.packed += int64(len(o.packed))
	if old != nil {
		claims |= old.claims.Load()
		marks |= old.marks.Load()
		w.overtakeLocked(old)
		s.replaced += old.Footprint()
		s.raw -= int64(old.size)
		s.packed -= int64(len(old.packed))
	} else {
		s.keys += int64(len(o.key))
	}
	o.claims.Store(claims)
	o.marks.Store(marks)
	if o.era.Store(w.era); w.manual {
		o.era.Store(s.era)
	} else {
		o.puts.Store(w.bit)
	}
	s.revision++
	o.revision = s.revision
	if old == nil || !s.table.replaceAt(p.at, o.key, o) {
		s.table.set(o.key, o)
	}
	if old != nil {
		old.claims.Store(0)
	}
	w.batch.applyOps(p)
	w.batch.records = append(w.batch.records, record{old: old, new: o, initial: w.initial()})
}

// initial reports whether the writer still tells of its first state: its first replace, or what is
// in doubt after that.
func (w *Writer) initial() bool { return (w.replacing || w.listed) && !w.synced }

// prepareAgain prepares the batch for the table and the indexes as they are now. It leaves out
// changes that have become meaningless.
func (b *batch) prepareAgain(w *Writer) {
	s := w.s
	b.byteIndexes = s.byteIndexes.Load()
	b.ops, b.arena = b.ops[:0], b.arena[:0]
	n := 0
	for i := range b.list {
		p := b.list[i]
		s.mu.RLock()
		held, _ := s.table.get(p.key)
		useful := w.stillUseful(&p, held)
		s.mu.RUnlock()
		if !useful {
			continue
		}
		p.expect = held
		if p.object == nil {
			b.unindex(s, &p)
		} else {
			if held != nil {
				p.object.key = held.key
			}
			b.indexAgain(s, &p)
		}
		b.list[n] = p
		n++
	}
	b.reset(n)
}

// stillUseful reports whether p changes held. The caller holds the read lock.
func (w *Writer) stillUseful(p *pending, held *Object) bool {
	if w.outdatedLocked() {
		return false
	}
	if p.object == nil {
		return held != nil && held.claims.Load()&w.bit != 0
	}
	o := p.object
	switch {
	case held == nil && !p.overrules && w.s.deletions.outdates(w, o.key, o.rv, o.opaque()):
		w.doubt(o)
		return false
	case held == nil || held == p.expect:
		return true
	}
	id := o.identity()
	came := w.claimUnlessNewer(&id, held)
	if came == older && p.overrules && w.overrules(held, w.overruledAt) {
		return true
	}
	if came == older && (p.overrules || w.contradicts(&id, held)) {
		w.doubt(o)
	}
	return came == newer
}
