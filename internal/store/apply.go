package store

import "time"

// filling returns the batch that changes are added to, and takes one from the pool if there is
// none. The caller holds Store.writing, as for all methods of this file.
func (s *Store) filling() *batch {
	if s.batch == nil {
		s.batch = batches.Get().(*batch)
		s.batch.queue.fast = time.Since(s.fastSince) < fastLasts
		s.batch.queue.patches = time.Since(s.cameFast) < fastLasts
	}
	return s.batch
}

// flush applies the batch, and returns the number of changes.
func (s *Store) flush() (changed int) {
	changed = s.applyBatch()
	for w := range s.writers {
		if w.listed && !w.synced { // it waited for news of unconfirmed versions
			w.trySync()
		}
	}
	return changed
}

// flushFull flushes the batch if it is full.
func (s *Store) flushFull() {
	if s.batch.full() {
		s.flush()
	}
}

// applyBatch applies the batch, and returns the number of changes. It takes Store.mu only to put the
// changes in place.
func (s *Store) applyBatch() (changed int) {
	b := s.batch
	if b == nil {
		return 0
	}
	if !b.listed && b.queue.comesFast() {
		s.cameFast = time.Now()
		if behind, _ := s.log.isBehind(); behind {
			s.fastSince = s.cameFast
		}
	}
	b.pack(s)
	s.mu.Lock()
	s.applyLocked(b)
	s.mu.Unlock()
	b.notified = signal(b.woken, b.notified)
	for i := range b.records {
		if old := b.records[i].old; old != nil {
			s.release(old)
			if d := old.decoded.Load(); d != nil {
				s.decoder.cache.drop(d)
			}
		}
	}
	changed = len(b.records)
	s.batch = nil
	b.release()
	return changed
}

// applyLocked makes the changes of a batch. The caller holds Store.mu, as for the methods below.
func (s *Store) applyLocked(b *batch) {
	for i := range b.list {
		if p := &b.list[i]; p.object != nil {
			s.setLocked(b, p)
		} else {
			s.removeLocked(b, p)
		}
	}
	if len(b.records) > 0 {
		s.snap = nil
		for i := range b.records {
			if !b.records[i].initial {
				s.changes.Add(1)
			}
		}
		s.revised.Store(s.revision)
		b.woken = s.log.append(b.records, s.table.count, b.woken)
	}
	for w := range s.writers {
		w.advanceLocked()
	}
	if checking {
		s.checkRecordsLocked(b.records)
	}
}

// removeLocked removes an owner from a version, and the version from the table if it was the last.
func (s *Store) removeLocked(b *batch, p *pending) {
	w, old := p.writer, p.before
	s.deletions.record(w, old, p)
	if old.owners.Load() != w.bit {
		old.owners.And(^w.bit)
		old.marks &^= w.bit
		old.puts &^= w.bit
		return
	}
	s.table.delete(p.key)
	s.keys -= int64(len(p.key))
	s.retireLocked(old)
	b.applyOps(s, p)
	s.revision++
	b.records = append(b.records, record{old: old, end: p.end, missed: p.missed, initial: w.initial()})
}

// setLocked puts a version in the table.
func (s *Store) setLocked(b *batch, p *pending) {
	w, old, o := p.writer, p.before, p.object
	owners := w.bit
	if w.replacing {
		o.marks = w.bit
	}
	s.raw += int64(o.size)
	s.packed += int64(len(o.packed))
	if old != nil {
		owners |= old.owners.Load()
		o.marks |= old.marks
		w.overtake(old)
	} else {
		s.keys += int64(len(o.key))
	}
	o.owners.Store(owners)
	if o.serverGen = w.serverGen; w.manual {
		o.serverGen = s.serverGen
	} else {
		o.puts = w.bit
	}
	s.revision++
	o.revision = s.revision
	if old == nil || !s.table.replaceAt(p.at, o.key, o) {
		s.table.set(o.key, o)
	}
	if old != nil {
		s.retireLocked(old)
	}
	b.applyOps(s, p)
	b.records = append(b.records, record{old: old, new: o, initial: w.initial()})
}

// retireLocked subtracts a version that is no longer in the table from the sums.
func (s *Store) retireLocked(old *Object) {
	s.replaced += old.Footprint()
	s.raw -= int64(old.size)
	s.packed -= int64(len(old.packed))
	old.owners.Store(0)
}
