package store

import (
	"maps"
	"slices"
	"sync/atomic"
)

// A store keeps an object as long as the source of at least one writer has it. Each source reports
// its changes in order. But sources are not synchronized: one may lag, list, break off or repeat
// events while another continues. So the version in the table records, with one bit for each owner,
// what each source reported last about the key:
//
//   - owners: the source has the object. An object without owners is deleted from the store.
//   - puts, a subset of owners: the source has the object in exactly this version.
//   - marks, a subset of owners: the source has reported the object after the writer's
//     BeginReplace.
//
// When one writer replaces a version, the new version inherits the owners and marks of the old one:
// a change in one source says nothing about the other sources. The version that another source
// reported last may be older than the new version in the table. If this older version is above the
// progress of that source's writer, the writer's field aboveProgress contains it.
//
// A source may report a version for the first time although the version is older than the one in
// the table, or than a remembered deletion. Either the source lags, or the server went back in
// time. The store can decide which of the two is true only when the writer's progress passes the
// newer version: a source that only lags reports the object again before that. Until then the
// writer stores the older version as unconfirmed.
//
// When a server went back to an earlier state, a new server generation starts, in which the same
// resourceVersions occur again with other content. The writer that first finds this out starts the
// generation. The other writers join the generation with their next replace, because the reports
// after that replace come from the restored server. Any version of a newer generation replaces a
// version of an older one.
//
// All sources of one store have the same server. When one source finds that the server went back,
// all other sources must be listed again, even if they have not found it themselves. Until a source
// is listed again, the store does not know whether its reports are from before or after the
// restore, and ignores them (see Outdated).
//
// check.go enforces these rules where checks are on. A version has an owner if and only if it is in
// the table. puts and marks are subsets of owners. No server generation and no revision is above
// the store's.

// covers reports whether the object is in the writer's namespace.
func (w *Writer) covers(o *Object) bool {
	return w.scope.Namespace == "" || w.scope.Namespace == o.Namespace()
}

// ownUnlessNewer compares an incoming version with held, the version in the table. If the result is
// the constant newer, the caller must put the incoming version. For any other result, held stays in
// the table, and ownUnlessNewer adds the writer's owner to it.
func (w *Writer) ownUnlessNewer(o, held *Object) order {
	came := w.order(o, held)
	switch {
	case came == newer:
		return newer
	case came == same:
		held.puts |= w.bit
		held.serverGen = max(held.serverGen, w.serverGen)
	case held.puts&w.bit == 0:
		w.noteReceived(held, o.rv)
	}
	setBits(&held.owners, w.bit)
	if w.replacing {
		held.marks |= w.bit
	}
	if w.initial() {
		w.s.log.awaitVersion(held)
	}
	return came
}

// setBits sets bits. If they are already set, it does not write to memory.
func setBits(to *atomic.Uint32, bits uint32) {
	if to.Load()&bits != bits {
		to.Or(bits)
	}
}

// initial reports whether the writer's first state is incomplete: its first replace is running, or
// versions of that replace are still unconfirmed.
func (w *Writer) initial() bool { return (w.replacing || w.listed) && !w.synced }

// order says how an incoming version compares with the one in the table.
type order uint8

const (
	newer       order = iota
	same              // same uid, resourceVersion and bytes
	older             // both are integers, and the incoming one is lower
	conflicting       // older, but not a repetition: see Writer.contradicts
)

// order compares an incoming version with the one in the table: by their server generations, and
// then by uid, resourceVersion and bytes.
func (w *Writer) order(o, held *Object) order {
	switch {
	case w.manual:
		return newer
	case o.sameIdentity(held):
		if held.flags&flagManual == 0 && o.sameBytes(held, held.serverGen == w.serverGen) {
			return same
		}
	case (o.flags|held.flags)&flagOpaqueRV == 0 && o.rv < held.rv && held.serverGen >= w.serverGen:
		return older
	}
	return newer
}

// noteReceived records that the source reported version rv of an object whose version in the table
// (held) is a different one.
func (w *Writer) noteReceived(held *Object, rv uint64) {
	if rv <= w.progress.rv && w.progress.serverGen == w.serverGen {
		return
	}
	if w.aboveProgress == nil {
		w.aboveProgress = make(map[string]uint64)
	}
	w.aboveProgress[held.key] = max(w.aboveProgress[held.key], rv)
}

// lastReceived returns the version that the source reported last for held's key. It returns 0 if
// that version is not above the writer's progress, is of an older server generation, or is not an
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

// overtake is called before this writer replaces old. Other sources may have reported old as their
// last version of the key. overtake records this in the writer of each of these sources.
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

// stale reports whether the source has already reported a newer version than the deletion. If so,
// the deletion must be ignored. o is the deleted version or, if missed is true, the new object that
// has the name of the deleted one. A deletion with neither a uid nor a resourceVersion is never
// stale.
func (w *Writer) stale(o, held *Object, missed bool) bool {
	received := held.puts&w.bit != 0 && held.serverGen >= w.serverGen
	switch {
	case w.manual, o.isAnonymous():
		return false
	case received && (o.flags|held.flags)&flagOpaqueRV != 0:
		return !missed && !o.SameUID(held) // not comparable: only the same object's deletion counts
	}
	return o.flags&flagOpaqueRV == 0 && o.rv < w.lastReceived(held)
}

// unconfirmedVersion is a version that is older than the one in the table or than a remembered
// deletion.
type unconfirmedVersion struct {
	*Object
	watched bool // a watch reported it, not a list
}

// contradicts is called if an incoming version is older than held, the version in the table. It
// returns false if the source may only have repeated an event. It returns true if the version is in
// a list, or if it is above the writer's progress and only other sources have reported held. Then
// either the source lags, or the server went back and has reached the same resourceVersions again.
func (w *Writer) contradicts(o, held *Object) bool {
	return w.replacing || o.number() > w.progress.rv && held.puts&w.bit == 0
}

// keepUnconfirmed stores a version until confirm decides about it, or the source reports the key
// again.
func (w *Writer) keepUnconfirmed(o *Object) {
	if w.unconfirmed == nil {
		w.unconfirmed = make(map[string]unconfirmedVersion)
	}
	w.unconfirmed[o.key] = unconfirmedVersion{o, !w.replacing}
}

// confirm decides about the unconfirmed versions when the writer becomes current to a version (at).
// It puts the right ones into the table, and drops the wrong ones. The others stay unconfirmed.
func (w *Writer) confirm(at progress) {
	for key, u := range w.unconfirmed {
		if w.s.batch.has([]byte(key)) {
			w.s.applyBatch() // flush would make the writer synced before its progress is updated
		}
		held, _ := w.s.table.get(key)
		right, decided := w.isBack(u.Object, at)
		if held != nil { // held may have replaced the version with which u conflicted
			came := w.order(u.Object, held)
			if came == same {
				w.ownUnlessNewer(u.Object, held)
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
		w.putPacked(held, u.Object)
		if w.s.batch.full() {
			w.s.applyBatch()
		}
	}
}

// isRight is called when the source is current to a version (at). It reports whether the
// unconfirmed version is right, and the newer version in the table (held) is wrong.
func (w *Writer) isRight(u unconfirmedVersion, held *Object, at progress) bool {
	switch {
	case held.flags&flagManual != 0:
		return !u.watched
	case held.flags&flagOpaqueRV != 0:
		return false
	case u.watched:
		// As long as any source has exactly held, held is right: u may be from before the server went
		// back.
		return held.puts == 0 && at.ok && held.rv <= at.rv
	case !at.ok || at.rv == 0: // the resourceVersion of the list is unknown
		return held.puts&^w.bit == 0
	}
	// A list is right if it is as new as held, and not older than the writer's progress.
	return held.rv <= at.rv && (w.progress.serverGen < w.serverGen || at.rv >= w.progress.rv)
}

// isBack decides about an unconfirmed version of an object that is not in the table. The result
// right reports whether the object exists. If decided is false, the decision is not certain yet.
//
// A source reported the deletion of the object. The decision is certain when this writer's source
// has reported all changes up to that deletion. If this source then still has the version, the
// version is right, with two exceptions:
//
//   - The deletion's resourceVersion is an estimate, and the source that reported the deletion had
//     this version or a higher one before. Then this writer's source lags.
//   - This writer's source itself reported the deletion, with the exact resourceVersion. Then a
//     lower version is a repeated event. That can happen even in a list, because the deletion may be
//     newer than the list.
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

// Outdated reports whether another writer has found that the server went back after this writer's
// last list was requested. The list was requested when ListRequested was called or, without that
// call, when BeginReplace was called. If Outdated returns true, this writer's source must be listed
// again. Until the writer's next BeginReplace, its Put, Delete, EndReplace and Progress have no
// effect. Outdated is safe for concurrent use.
func (w *Writer) Outdated() bool {
	w.s.mu.RLock()
	defer w.s.mu.RUnlock()
	return w.isOutdated()
}

// isOutdated returns the result of Outdated. The caller holds Store.writing or Store.mu.
func (w *Writer) isOutdated() bool {
	return w.serverGen < w.s.serverGen && !w.manual && !w.removing
}

// WhenOutdated sets a function that is called once when the writer becomes Outdated. If the writer
// is already Outdated, WhenOutdated calls f before it returns. Otherwise the goroutine that finds
// the restore calls f, so f must not block. f replaces the previous function; nil removes it. The
// previous function may still be called shortly after that. WhenOutdated is safe for concurrent
// use.
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

const (
	// deletionsKept is how many deletions the store remembers even after the progress of every writer
	// has passed them: a server may send its last events again.
	deletionsKept = 64
	// maxDeletions is the maximum number of remembered deletions, which use about 2 MiB, even if a
	// writer is far behind.
	maxDeletions = 16 << 10
)

// deletions remembers, by key, the resourceVersions at which objects were deleted. The writers of
// merged sources are not synchronized. One source may report that an object was created and
// deleted. Another source, which lags, then reports the same object, or an earlier one with the
// same key. The store must not add such an older version again.
//
// A lagging source catches up. If an object was deleted at rv, each source that has the object will
// report that it was deleted, or that it stopped matching the source's selector. The version of
// this report is at most rv. Store.mu guards deletions. The zero value is empty.
type deletions struct {
	of    map[string]deletion
	queue []string // in the order of the deletions
	head  int
	keys  int64 // bytes of all keys in of
}

// deletionBytes is the memory of a deletion in addition to its key: in the queue, and in the map,
// including a share of the map's unused memory.
const deletionBytes = 128

// footprint estimates the bytes of the deletions.
func (g *deletions) footprint() int64 { return g.keys + int64(len(g.of))*deletionBytes }

// deletion is the deletion of an object.
type deletion struct {
	// rv is the resourceVersion of the deletion, or an estimate (see exact). A source that is current
	// to rv has reported what happened to the object.
	rv uint64
	// Versions of the key that are lower than supersedes are older than the deletion.
	supersedes uint64
	// If rv is an estimate, versions up to goneUpTo are not added again: see record.
	goneUpTo  uint64
	serverGen uint32
	by        *Writer // the writer whose source reported the deletion
	replace   uint32  // by.replaces at the time of the deletion
	// exact is true if the writer in the field by received the deletion with version rv from its
	// source, after all lower versions. If that source later reports a version below rv, it repeats an
	// event.
	exact bool
}

// record remembers the deletion of old that the source of w reported. Other sources may still have
// old. If a relist found the deletion, the only thing known about the deletion's version is that it
// is above the version of old.
func (g *deletions) record(w *Writer, old *Object, p *pending) {
	rv, below := p.ResourceVersion, p.ResourceVersion
	if rv == 0 || old.opaque() || w.manual {
		return // no version was reported, versions cannot be compared, or the source still has the object
	}
	past := old.serverGen < w.serverGen
	received := old.puts&w.bit != 0
	switch {
	case p.Missed && (past || !received):
		return // w's source has not reported old in this generation: the version is unknown
	case p.Missed:
		below = old.rv + 1
	case !past && received:
		below = max(below, old.rv+1)
	case !past && below <= old.rv:
		return // the deletion is of an earlier object with the same key
	}
	goneUpTo, exact := uint64(0), !p.Missed
	if late := p.late || rv <= max(old.rv, w.progress.rv); late && !past && !p.Missed {
		// The source has already reported this or a higher version. A watch cache sends such a deletion
		// if a relist of the cache found it. The true version of the deletion is unknown: it is at most
		// the version of the cache's list. But w's source had exactly old and no longer has it. So
		// another source that still has old lags.
		if rv, exact = max(rv, old.rv+1, w.progress.rv+1, p.coalesced), false; received {
			goneUpTo = old.rv
		}
	}
	if g.of == nil {
		g.of = make(map[string]deletion)
	}
	before, ok := g.of[old.key]
	if !ok {
		g.queue = append(g.queue, old.key)
		g.keys += int64(len(old.key))
	}
	if before.serverGen == w.serverGen && before.supersedes > below {
		return
	}
	g.of[old.key] = deletion{rv, below, goneUpTo, w.serverGen, w, w.replaces, exact}
	g.forget(w.s)
}

// forget removes the oldest deletions while there are more than maxDeletions. It also removes the
// deletions that the progress of every writer has passed, except the newest deletionsKept. It is
// called after each deletion and each progress, because writers pass most deletions that a relist
// finds as soon as the relist ends.
func (g *deletions) forget(s *Store) {
	for n := len(g.queue) - g.head; n > maxDeletions || n > deletionsKept && g.passed(s); n-- {
		delete(g.of, g.queue[g.head])
		g.keys -= int64(len(g.queue[g.head]))
		g.head++
	}
	if g.head <= len(g.queue)/2 {
		return
	}
	g.queue, g.head = slices.Delete(g.queue, 0, g.head), 0
	if len(g.queue) < cap(g.queue)/8 && cap(g.queue) > 8*deletionsKept {
		g.queue = slices.Clone(g.queue)
		of := make(map[string]deletion, len(g.of)) // a map does not shrink
		maps.Copy(of, g.of)
		g.of = of
	}
}

// passed reports whether the progress of all writers has reached the oldest deletion.
func (g *deletions) passed(s *Store) bool {
	rv := g.of[g.queue[g.head]].rv
	for w := range s.writers {
		if w.progress.rv < rv {
			return false
		}
	}
	return true
}

// outdates is called if the table does not have w.key. It reports whether an incoming version of
// that key is older than a remembered deletion. The deletion may be of the same object, or of an
// earlier one with the same key. During a replace, outdates ignores a deletion that the same source
// reported before the replace, because the list is newer.
func (g *deletions) outdates(w *Writer, o *Object) bool {
	if len(g.of) == 0 || o.opaque() || w.manual {
		return false
	}
	d, ok := g.of[string(w.key)]
	return ok && d.serverGen >= w.serverGen && o.rv < d.supersedes && !(w.replacing && d.by == w && d.replace != w.replaces)
}
