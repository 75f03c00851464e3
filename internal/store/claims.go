package store

import "sync/atomic"

// An object is held while the source of some writer has it. Each writer is told of its own source,
// in that source's order. But sources are not in step: one lags, lists, breaks off or repeats
// itself while another goes on. So the version in the table says, with one bit for each claim, what
// each writer was told of the key last:
//
//   - claims: the object is there. It is removed with its last claim.
//   - puts, a subset of claims: the object is there in this very version.
//   - marks, a subset of claims: the writer was told of the object since its BeginReplace.
//
// A version that one writer puts in place of another's inherits claims and marks. That an object
// has changed in one source says nothing of its being in another. What a writer was told last may
// be older than the version held. Then it is not above the writer's progress, or it stands in
// Writer.aboveProgress.
//
// A server that has gone back begins a new era, in which resourceVersions come again for other
// content. The first writer that finds out begins the era. The others join it with their next
// replace: what they are told after that comes from the new past. A version of an older era gives
// way to whatever is told in a newer one.
//
// The sources of one store have one server. When one of them has gone back, all others must be
// listed again, though they need not have noticed. Until then nobody knows which past they tell of,
// so nothing that they tell is taken (see Outdated).

// check.go enforces these rules where checks are on. A version in the table has a claim; one that
// is out of it has none. puts and marks are subsets of claims. No era and no revision is above the
// store's.

// setBits sets bits. It does not write to memory that has them already.
func setBits(to *atomic.Uint32, bits uint32) {
	if to.Load()&bits != bits {
		to.Or(bits)
	}
}

// covers reports whether the writer's source may have the object.
func (w *Writer) covers(o *Object) bool {
	return w.scope.Namespace == "" || w.scope.Namespace == o.Namespace()
}

// claimUnlessNewer decides what an incoming version changes where held is. If it returns newer, the
// version is to be put. Otherwise held stays, and notes that this writer has the object too. It is
// called with the read lock, so that nobody replaces held meanwhile.
func (w *Writer) claimUnlessNewer(id *identity, held *Object) order {
	o := w.order(id, held)
	switch {
	case o == newer:
		return newer
	case o == same:
		setBits(&held.puts, w.bit)
		for e := held.era.Load(); e < w.era && !held.era.CompareAndSwap(e, w.era); e = held.era.Load() {
		}
	case held.puts.Load()&w.bit == 0:
		w.noteReceivedLocked(held, id.rv)
	}
	setBits(&held.claims, w.bit)
	if w.replacing {
		setBits(&held.marks, w.bit)
	}
	if w.initial() {
		w.s.log.awaitVersion(held)
	}
	return o
}

// order compares an incoming version with the one held: by the past that each comes from, and then
// by resourceVersion.
func (w *Writer) order(id *identity, held *Object) order {
	o, era := id.against(held), held.era.Load()
	switch {
	case w.manual, o == same && (held.flags&flagManual != 0 || !id.sameBytes(held, era == w.era)):
		return newer
	case o == older && era < w.era:
		return newer
	}
	return o
}

// noteReceivedLocked notes that the writer was told of version rv of an object that is held in
// another version. The writer itself calls it under the read lock, and others under the lock.
func (w *Writer) noteReceivedLocked(held *Object, rv uint64) {
	if rv <= w.progress.rv && w.progress.era == w.era {
		return
	}
	if w.aboveProgress == nil {
		w.aboveProgress = make(map[string]uint64)
	}
	w.aboveProgress[held.key] = max(w.aboveProgress[held.key], rv)
}

// lastReceived returns the version that the writer was told last of the key of held. It returns 0
// if that version is not above the writer's progress, is of an older era, or is no integer.
func (w *Writer) lastReceived(held *Object) uint64 {
	switch {
	case held.puts.Load()&w.bit == 0:
		return w.aboveProgress[held.key]
	case held.era.Load() < w.era || held.flags&flagOpaqueRV != 0:
		return 0
	}
	return held.rv
}

// overtakeLocked notes for the other writers what they were told of old, which this writer is about
// to replace.
func (w *Writer) overtakeLocked(old *Object) {
	if old.flags&flagOpaqueRV != 0 || old.puts.Load()&^w.bit == 0 {
		return
	}
	for other := range w.s.writers {
		if other.bit != w.bit && old.puts.Load()&other.bit != 0 && other.era == old.era.Load() && other.covers(old) {
			other.noteReceivedLocked(old, old.rv)
		}
	}
}

// stale reports whether the writer has been told of something newer than a deletion, or, if that
// was missed, than another object of the name. A deletion of which nothing but the name is known
// counts for whatever is held.
func (w *Writer) stale(id *identity, held *Object, missed bool) bool {
	received := held.puts.Load()&w.bit != 0 && held.era.Load() >= w.era
	switch {
	case w.manual, id.isEmpty():
		return false
	case received && (id.opaqueRV || held.flags&flagOpaqueRV != 0):
		return !missed && !id.sameUID(held) // not to be compared: at least the same object
	}
	return !id.opaqueRV && id.rv < w.lastReceived(held)
}

// contradicts reports whether the writer is told of a version that is older than the one held as
// news: by a list, or beyond its progress while only others were told of the one held. Either its
// source lags, or the server went back, and has come to the same resourceVersions again.
func (w *Writer) contradicts(id *identity, held *Object) bool {
	return w.replacing || !id.opaqueRV && id.rv > w.progress.rv && held.puts.Load()&w.bit == 0
}

// doubt keeps a version that the writer was told of as news, and that is older than the one held.
// Where the writer is told of the key again before its progress passes the version held, that is
// news. Where it is not, its source has never had that version.
func (w *Writer) doubt(o *Object) {
	if w.doubts == nil {
		w.doubts = make(map[string]doubted)
	}
	w.doubts[o.key] = doubted{o, !w.replacing}
}

// doubted is a version in doubt.
type doubted struct {
	*Object
	watched bool // a watch told of it, not a list
}

// disowned reports whether a version in doubt, which a watch told, is right and the newer one that
// is held is not: the writer's progress has passed the held version, and no source has it any more.
// While a source has it, the held version is right: the writer may have been told in the past
// before a restore.
func (w *Writer) disowned(held *Object, at progress) bool {
	return held.flags&(flagManual|flagOpaqueRV) == 0 && held.puts.Load() == 0 && at.ok && held.rv <= at.rv
}

// overrules reports whether a source as of at, which has the object in a lower version, knows
// better than held. It does if it is as new as what it contradicts, and not older than what the
// writer has seen of it before.
func (w *Writer) overrules(held *Object, at progress) bool {
	switch {
	case held.flags&flagManual != 0:
		return true
	case held.flags&flagOpaqueRV != 0:
		return false
	case !at.ok || at.rv == 0: // nobody knows how new it is
		return held.puts.Load()&^w.bit == 0
	}
	return held.rv <= at.rv && (w.progress.era < w.era || at.rv >= w.progress.rv)
}

// isBack reports whether a version in doubt of an object that is not held is right, and whether
// that is known. Others were told that the object went. The source, as of at, has told what became
// of it if it is current to its end. A version that it has then is right, unless another source had
// that very one and has it no more. But what a source tells below an end that it told itself is an
// event that comes again. A list is no better than a watch here: the end may lie behind it.
func (w *Writer) isBack(o *Object, at progress) (right, decided bool) {
	d, ok := w.s.deletions.of[o.key]
	if !ok || d.era < w.era {
		return true, true
	}
	decided = at.ok && at.rv >= d.rv
	if d.by == w {
		return decided && !d.exact, decided
	}
	return decided && o.rv > d.goneUpTo, decided
}

// takesPlace reports whether a version in doubt is right in place of the newer one that is held.
func (w *Writer) takesPlace(in doubted, held *Object, at progress) bool {
	if in.watched {
		return w.disowned(held, at)
	}
	return w.overrules(held, at)
}

// overrule puts the versions in doubt that are right now that the writer is current to at.
func (w *Writer) overrule(at progress) {
	w.overruledAt = at
	for key, in := range w.doubts {
		o := in.Object
		w.s.mu.RLock()
		held, _ := w.s.table.get(key)
		came := older
		right, decided := w.isBack(o, at)
		if held != nil { // which need not be the version that o was doubted for
			id := o.identity()
			if came = w.order(&id, held); came == same {
				w.claimUnlessNewer(&id, held)
			}
			right = came == newer || came == older && w.takesPlace(in, held, at)
			decided = right || came == same
		}
		w.s.mu.RUnlock()
		if !decided {
			continue
		}
		if delete(w.doubts, key); !right {
			continue
		}
		p := pending{key: key, expect: held, object: o, overrules: true}
		b := w.filling()
		b.indexAgain(w.s, &p)
		b.add(p)
		if b.full() {
			w.applyAll() // Flush would find the writer synced before it is current to at
		}
	}
}

// Outdated reports whether another writer has found that the server went back, since this one's
// last BeginReplace or the ListRequested before that. Then this writer's source must be listed
// again too. Until the writer's next BeginReplace, its Put, Delete, EndReplace and Progress have no
// effect. Safe for concurrent use.
func (w *Writer) Outdated() bool {
	w.s.mu.RLock()
	defer w.s.mu.RUnlock()
	return w.outdatedLocked()
}

func (w *Writer) outdatedLocked() bool { return w.era < w.s.era && !w.manual && !w.removing }

// WhenOutdated calls f once, as soon as the writer is Outdated. If it is so already, WhenOutdated
// calls f itself, before it returns. Otherwise the goroutine that finds out calls it, so f must not
// block. f replaces the function before it, which may still be called shortly after; nil removes
// it. Safe for concurrent use.
func (w *Writer) WhenOutdated(f func()) {
	w.s.mu.Lock()
	already := f != nil && w.outdatedLocked()
	if w.outdated = f; already {
		w.outdated = nil
	}
	w.s.mu.Unlock()
	if already {
		f()
	}
}
