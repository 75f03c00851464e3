package store

import (
	"strings"

	"github.com/weirproject/weir/internal/wire"
)

// BeginReplace starts a relist: what is Put from here on is marked as seen. It gives up a relist
// that is still running. rebase tells that the server has gone back in time. Then lower
// resourceVersions are taken, and so are deletions whatever their resourceVersion.
//
// If a replace with rebase was given up and is tried again, it counts as one that found out
// something new, unless nothing was told meanwhile: the server may have gone back once more.
func (w *Writer) BeginReplace(rebase bool) {
	w.Flush()
	w.sweep(func(o *Object) {
		if o.marks.Load()&w.bit != 0 {
			o.marks.And(^w.bit)
		}
	})
	if w.listed && !w.synced && !w.replacing {
		w.firstDoubts = w.doubts
	}
	w.replacing, w.doubts, w.newest = true, nil, 0
	w.replaces++
	for _, tell := range w.enterEra(rebase) {
		tell()
	}
}

// ListRequested notes that the writer's source is being asked for the state that the next
// BeginReplace begins with. Another writer may find out, before that BeginReplace, that the server
// has gone back. Then nobody knows which past the answer tells of, and the writer is Outdated by it
// as well. Without ListRequested, BeginReplace takes the state for one of its own moment.
func (w *Writer) ListRequested() {
	w.s.mu.RLock()
	defer w.s.mu.RUnlock()
	era := w.s.era
	w.asked = &era
}

// enterEra moves the writer to the era in which its state was asked for. If the writer is the first
// to find out that the server has gone back, enterEra begins a new era. It returns the functions
// that must then be called without the lock.
func (w *Writer) enterEra(rebase bool) (tell []func()) {
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	era := s.era
	if w.asked != nil {
		era, w.asked = *w.asked, nil
	}
	if rebase && w.era == s.era && !w.goingBack {
		s.era++
		era = s.era
		for other := range s.writers {
			if other != w && other.outdated != nil {
				tell = append(tell, other.outdated)
				other.outdated = nil
			}
		}
	}
	if w.goingBack = w.goingBack || rebase; w.era != era {
		// What was in doubt of the old past is settled by a list of the new one.
		w.era, w.aboveProgress, w.firstDoubts, w.listed = era, nil, nil, w.listed && w.synced
	}
	return tell
}

// Replacing reports whether the writer is between BeginReplace and its end. It is for the writer's
// own goroutine.
func (w *Writer) Replacing() bool { return w.replacing }

// EndReplace ends a relist at resourceVersion, to which the writer is then current. What the writer
// was told up to there counts no more. Everything in its scope that was not seen since BeginReplace
// is released. Where the list has a lower version than the store, the list's takes its place.
//
// A version newer than the list, as an integer, stays if this writer was told of it and the replace
// was not begun with rebase: the watch that goes on from the list tells what became of it. What
// other writers were told says nothing of this one's source.
//
// The first EndReplace makes the writer synced. If the list has objects that others were told had
// gone, the writer is synced as soon as it is known whether they have. Without BeginReplace,
// EndReplace only does Flush and Progress.
func (w *Writer) EndReplace(resourceVersion string) {
	w.Flush()
	if w.replacing {
		at := progressOf(resourceVersion)
		bounded := at.ok && at.rv > 0
		w.releaseAll(at.rv, func(o *Object) bool {
			return o.marks.Load()&w.bit == 0 && !(bounded && w.lastReceived(o) > at.rv)
		})
	}
	w.replacing, w.goingBack, w.listed, w.firstDoubts = false, false, true, nil
	w.Progress(resourceVersion)
	w.trySync()
}

// AbortReplace gives up a relist that broke: what was there stays, and so does what was put. What
// was in doubt after the first list is so again, but for what the relist told of.
func (w *Writer) AbortReplace() {
	w.Flush()
	if w.replacing {
		w.replacing, w.doubts, w.firstDoubts = false, w.firstDoubts, nil
	}
}

// Remove ends the writer for good. It releases the writer's claim on objects, and deletes those
// that no other writer claims. Put and Delete return ErrWriterRemoved from then on. Removing again
// does nothing.
func (w *Writer) Remove() {
	if w.removed {
		return
	}
	w.AbortReplace()
	s := w.s
	s.mu.Lock()
	w.removing = true
	s.mu.Unlock()
	w.releaseAll(0, func(*Object) bool { return true })
	w.removed = true
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.writers, w)
	s.log.setSynced(s.syncedLocked())
	s.announceLocked()
}

// Progress tells that the writer is current to resourceVersion by what was put before: a
// bookmark's, or an event's own. It takes effect together with what is buffered. "" is ignored.
func (w *Writer) Progress(resourceVersion string) {
	if resourceVersion == "" || w.removed {
		return
	}
	w.goingBack = false
	at := progressOf(resourceVersion)
	unsettled := len(w.doubts) > 0 && !w.replacing
	if unsettled {
		w.overrule(at)
	}
	w.next, w.advanced = at, true
	if w.batch.empty() {
		w.s.mu.Lock()
		w.advanceLocked()
		w.s.mu.Unlock()
	}
	if unsettled {
		w.Flush() // nobody does so after a bookmark; only then may the writer be synced
	}
}

func (w *Writer) advanceLocked() {
	if !w.advanced {
		return
	}
	at := w.next
	if w.next, w.advanced = (progress{}), false; w.outdatedLocked() {
		return
	}
	w.progress, w.progress.era = at, w.era
	for key, rv := range w.aboveProgress {
		if rv <= w.progress.rv {
			delete(w.aboveProgress, key)
		}
	}
	w.s.deletions.forget(w.s)
	w.s.announceLocked()
}

// ResourceVersion returns the last progress, or "" before the first.
func (w *Writer) ResourceVersion() string {
	if w.advanced {
		return w.next.text
	}
	w.s.mu.RLock()
	defer w.s.mu.RUnlock()
	return w.progress.text
}

// trySync makes the writer synced if its first replace has ended and nothing of that list is left
// out because it may have gone since. Its source will tell: what has gone after the list has
// changed after it.
func (w *Writer) trySync() {
	if !w.listed || w.replacing {
		return
	}
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if checking {
		s.checkTableLocked()
	}
	if w.outdatedLocked() {
		w.listed = false
	}
	if w.synced || w.removed || !w.listed {
		return
	}
	for key := range w.doubts {
		if held, _ := s.table.get(key); held == nil {
			return
		}
	}
	for key := range w.doubts {
		held, _ := s.table.get(key)
		s.log.awaitVersion(held) // another writer has brought it, and the first list has it too
	}
	w.synced = true
	s.log.setSynced(s.syncedLocked())
	s.announceLocked()
}

// KeepHeld notes that the writer's source has an object that the caller cannot put. What is held of
// the object stays through the replace that runs; without a replace there is nothing to note. Held
// under the name but with another uid is another object, which does not stay. A missing uid, of
// either, is no other. m is the object's metadata, and may be reused after KeepHeld returns.
func (w *Writer) KeepHeld(m *wire.Meta) {
	if !w.replacing || w.check(m, nil) != nil {
		return
	}
	w.s.mu.RLock()
	defer w.s.mu.RUnlock()
	held, _ := w.held()
	if held == nil || held.claims.Load()&w.bit == 0 || w.outdatedLocked() {
		return
	}
	if uid := held.UID(); uid != "" && len(m.UID) > 0 && uid != string(m.UID) {
		return
	}
	setBits(&held.marks, w.bit)
}

// sweep visits the objects of this writer's scope that it claims, sweepKeys keys at a time under
// the read lock.
func (w *Writer) sweep(visit func(o *Object)) {
	prefix := ""
	if w.scope.Namespace != "" {
		prefix = w.scope.Namespace + "/"
	}
	for from, more := prefix, true; more; {
		n := 0
		more = false
		w.s.mu.RLock()
		w.s.table.ascend(from, func(key string, o *Object) bool {
			if !strings.HasPrefix(key, prefix) {
				return false
			}
			if n == sweepKeys {
				from, more = key, true
				return false
			}
			n++
			if o.claims.Load()&w.bit != 0 {
				visit(o)
			}
			return true
		})
		w.s.mu.RUnlock()
	}
}

// releaseAll releases the claim on all objects that match, as ends of which nobody told. end is the
// resourceVersion at which they were found to be gone.
func (w *Writer) releaseAll(end uint64, match func(o *Object) bool) {
	var found []*Object
	w.sweep(func(o *Object) {
		if match(o) {
			found = append(found, o)
		}
	})
	for i, o := range found {
		w.release(pending{key: o.key, expect: o, end: end, missed: true})
		found[i] = nil
	}
	w.Flush()
}
