package store

import "sync/atomic"

// A store keeps an object as long as the source of some writer has it. Each source reports in its
// own order. But sources are not in step: one lags, lists, breaks off or repeats itself while
// another goes on. So the version in the table records, with one bit for each owner, what each
// source reported of the key last:
//
//   - owners: it has the object. The object is deleted with its last owner.
//   - puts, a subset of owners: it has the object in this very version.
//   - marks, a subset of owners: it reported the object since the writer's BeginReplace.
//
// A version that one writer puts in place of another's inherits owners and marks: that an object
// has changed in one source says nothing about the others. The version that a source reported last
// may be older than the version in the table. Then it is not above the writer's progress, or it is
// in Writer.aboveProgress.
//
// A source may report a version as news although it is older than the version in the table, or than
// a deletion. Which one is right is not known before the writer's progress passes the newer one: if
// the source merely lags, it reports the object again before. Until then the writer keeps the
// version as unconfirmed.
//
// A server that went back to an earlier state begins a new server generation, in which
// resourceVersions come again with other content. The first writer that finds out begins it. The
// others join it with their next replace: what they receive after that comes from the new past. A
// version of an older generation gives way to any version of a newer one.
//
// The sources of one store have one server. When one of them finds that it went back, all others
// must list again, though they need not have noticed. Until then it is not known which past they
// report, so the store takes nothing from them (see Outdated).
//
// check.go enforces these rules where checks are on. A version in the table has an owner; one that
// is out of it has none. puts and marks are subsets of owners. No server generation and no revision
// is above the store's.

// covers reports whether the writer's source may have the object.
func (w *Writer) covers(o *Object) bool {
	return w.scope.Namespace == "" || w.scope.Namespace == o.Namespace()
}

// ownUnlessNewer compares an incoming version with held, the version in the table. If it returns
// newer, the caller puts the incoming version. Otherwise held stays, and this owner has it too.
func (w *Writer) ownUnlessNewer(id *identity, held *Object) order {
	o := w.order(id, held)
	switch {
	case o == newer:
		return newer
	case o == same:
		held.puts |= w.bit
		held.serverGen = max(held.serverGen, w.serverGen)
	case held.puts&w.bit == 0:
		w.noteReceived(held, id.rv)
	}
	setBits(&held.owners, w.bit)
	if w.replacing {
		held.marks |= w.bit
	}
	if w.initial() {
		w.s.log.awaitVersion(held)
	}
	return o
}

// setBits sets bits. It does not write to memory that has them already.
func setBits(to *atomic.Uint32, bits uint32) {
	if to.Load()&bits != bits {
		to.Or(bits)
	}
}

// initial reports whether the writer still reports its first state: its first replace, or what is
// unconfirmed after that.
func (w *Writer) initial() bool { return (w.replacing || w.listed) && !w.synced }

// order compares an incoming version with the one in the table: by their server generations, and
// then by resourceVersion.
func (w *Writer) order(id *identity, held *Object) order {
	o := id.against(held)
	switch {
	case w.manual:
		return newer
	case o == same && (held.flags&flagManual != 0 || !id.sameBytes(held, held.serverGen == w.serverGen)):
		return newer
	case o == older && held.serverGen < w.serverGen:
		return newer
	}
	return o
}

// noteReceived records that the source reported version rv of an object that the table has in
// another version.
func (w *Writer) noteReceived(held *Object, rv uint64) {
	if rv <= w.progress.rv && w.progress.serverGen == w.serverGen {
		return
	}
	if w.aboveProgress == nil {
		w.aboveProgress = make(map[string]uint64)
	}
	w.aboveProgress[held.key] = max(w.aboveProgress[held.key], rv)
}

// lastReceived returns the version that the source reported last of the key of held. It returns 0
// if that version is not above the writer's progress, is of an older server generation, or is no
// integer.
func (w *Writer) lastReceived(held *Object) uint64 {
	switch {
	case held.puts&w.bit == 0:
		return w.aboveProgress[held.key]
	case held.serverGen < w.serverGen || held.flags&flagOpaqueRV != 0:
		return 0
	}
	return held.rv
}

// overtake records for the other writers that their sources reported old, which this writer is
// about to replace.
func (w *Writer) overtake(old *Object) {
	if old.flags&flagOpaqueRV != 0 || old.puts&^w.bit == 0 {
		return
	}
	for other := range w.s.writers {
		if other.bit != w.bit && old.puts&other.bit != 0 && other.serverGen == old.serverGen && other.covers(old) {
			other.noteReceived(old, old.rv)
		}
	}
}

// stale reports whether the source has reported something newer than a deletion, or, if that was
// missed, than another object of the name. A deletion that has neither uid nor resourceVersion
// counts for any version.
func (w *Writer) stale(id *identity, held *Object, missed bool) bool {
	received := held.puts&w.bit != 0 && held.serverGen >= w.serverGen
	switch {
	case w.manual, id.isEmpty():
		return false
	case received && (id.opaqueRV || held.flags&flagOpaqueRV != 0):
		return !missed && !id.sameUID(held) // not to be compared: at least the same object
	}
	return !id.opaqueRV && id.rv < w.lastReceived(held)
}

// unconfirmedVersion is a version that conflicts with the table.
type unconfirmedVersion struct {
	*Object
	watched bool // a watch reported it, not a list
}

// contradicts reports whether the source reports a version as news that is older than the one in
// the table: by a list, or beyond the writer's progress while only other sources have reported the
// one in the table. Either the source lags, or the server went back, and has reached the same
// resourceVersions again.
func (w *Writer) contradicts(id *identity, held *Object) bool {
	return w.replacing || !id.opaqueRV && id.rv > w.progress.rv && held.puts&w.bit == 0
}

// keepUnconfirmed keeps a version until it is confirmed, or the source reports the key again.
func (w *Writer) keepUnconfirmed(o *Object) {
	if w.unconfirmed == nil {
		w.unconfirmed = make(map[string]unconfirmedVersion)
	}
	w.unconfirmed[o.key] = unconfirmedVersion{o, !w.replacing}
}

// confirm puts the unconfirmed versions that are right now that the writer is current to at, and
// forgets those that are wrong.
func (w *Writer) confirm(at progress) {
	for key, u := range w.unconfirmed {
		if w.s.batch.has([]byte(key)) {
			w.s.applyBatch() // flush would find the writer synced before it is current to at
		}
		held, _ := w.s.table.get(key)
		right, decided := w.isBack(u.Object, at)
		if held != nil { // which need not be the version that u conflicted with
			id := u.identity()
			came := w.order(&id, held)
			if came == same {
				w.ownUnlessNewer(&id, held)
			}
			right = came == newer || came == older && w.isRight(u, held, at)
			decided = right || came == same
		}
		if !decided {
			continue
		}
		if delete(w.unconfirmed, key); !right {
			continue
		}
		w.putPacked(&pending{writer: w, key: key, before: held, object: u.Object})
		if w.s.batch.full() {
			w.s.applyBatch()
		}
	}
}

// isRight reports whether an unconfirmed version is right, and held, which is newer, is wrong, now
// that the source is current to at.
func (w *Writer) isRight(u unconfirmedVersion, held *Object, at progress) bool {
	switch {
	case held.flags&flagManual != 0:
		return !u.watched
	case held.flags&flagOpaqueRV != 0:
		return false
	case u.watched:
		// While a source has held, held is right: this one may have reported u before the server
		// went back.
		return held.puts == 0 && at.ok && held.rv <= at.rv
	case !at.ok || at.rv == 0: // how new the list is, is not known
		return held.puts&^w.bit == 0
	}
	// A list is right if it is as new as held, and not older than what the writer knew before.
	return held.rv <= at.rv && (w.progress.serverGen < w.serverGen || at.rv >= w.progress.rv)
}

// isBack reports whether an unconfirmed version of an object that was deleted is right, and whether
// that is known. Other sources reported the deletion. This source, as of at, has reported what
// became of the object if it is current to the deletion. A version that it has then is right,
// unless another source had that very version and no longer has it. But what a source reports below
// a deletion that it reported itself is a repeated event. A list is no better than a watch here:
// the deletion may be above it.
func (w *Writer) isBack(o *Object, at progress) (right, decided bool) {
	d, ok := w.s.deletions.of[o.key]
	if !ok || d.serverGen < w.serverGen {
		return true, true
	}
	decided = at.ok && at.rv >= d.rv
	if d.by == w {
		return decided && !d.exact, decided
	}
	return decided && o.rv > d.goneUpTo, decided
}

// Outdated reports whether another writer has found that the server went back, since this one's
// last BeginReplace or the ListRequested before that. Then this writer's source must be listed
// again too. Until the writer's next BeginReplace, its Put, Delete, EndReplace and Progress have no
// effect. Safe for concurrent use.
func (w *Writer) Outdated() bool {
	w.s.mu.RLock()
	defer w.s.mu.RUnlock()
	return w.isOutdated()
}

// isOutdated is Outdated. The caller holds Store.writing or Store.mu.
func (w *Writer) isOutdated() bool {
	return w.serverGen < w.s.serverGen && !w.manual && !w.removing
}

// WhenOutdated calls f once, as soon as the writer is Outdated. If it is already, WhenOutdated
// calls f itself, before it returns. Otherwise the goroutine that finds out calls f, so f must not
// block. f replaces the function before it, which may still be called shortly after; nil removes
// it. Safe for concurrent use.
func (w *Writer) WhenOutdated(f func()) {
	w.s.mu.Lock()
	already := f != nil && w.isOutdated()
	if w.outdated = f; already {
		w.outdated = nil
	}
	w.s.mu.Unlock()
	if already {
		f()
	}
}
