package store

import "strings"

// BeginReplace starts a relist: what is Put from here on is marked as seen. One
// that is still running is given up. rebase: the server has gone back in time,
// so lower resourceVersions are to be taken, and deletions whatever their
// resourceVersion. A try again of a replace that was given up counts as one
// that found out something new, unless nothing was told meanwhile: the server
// may have gone back once more.
func (w *Writer) BeginReplace(rebase bool) {
	w.Flush()
	w.sweep(func(o *Object) {
		if o.marks.Load()&w.bit != 0 {
			o.marks.And(^w.bit)
		}
	})
	w.replacing, w.doubts = true, nil
	w.replaces++
	for _, tell := range w.enterEra(rebase) {
		tell()
	}
}

// Asks notes that the writer's source is being asked for the state that the next BeginReplace
// begins with. Should another writer find out before that that the server has gone back, nobody
// knows which past the answer tells of: the writer is then Outdated by it as well. Without Asks,
// BeginReplace takes the state for one of its own moment.
func (w *Writer) Asks() {
	w.s.mu.RLock()
	defer w.s.mu.RUnlock()
	era := w.s.era
	w.asked = &era
}

// enterEra makes the writer one of the era that its state was asked for in, or of a new one if it
// is the first to find out that the server has gone back. It returns what is to be called then.
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
		w.era, w.ahead = era, nil
	}
	return tell
}

// EndReplace ends a relist at resourceVersion: the writer is current to it, and
// what it was told up to there counts no more. Everything in its scope that was
// not seen since BeginReplace is released, and a version that the list has, but
// lower than the one held, takes its place after all. What is newer (as integers)
// than the list stays, unless the replace was begun with rebase: the watch that
// goes on from the list tells what became of it. For a release it must be this
// writer that was told of what is newer: what others were told says nothing of
// its source.
//
// The first EndReplace makes the writer synced; where the list has objects that
// others were told had gone, as soon as it is known whether they have. Without
// BeginReplace it is Flush and Progress only.
func (w *Writer) EndReplace(resourceVersion string) {
	w.Flush()
	if w.replacing {
		at := progressOf(resourceVersion)
		w.overrule(at)
		bounded := at.ok && at.rv > 0
		w.releaseAll(at.rv, func(o *Object) bool {
			return o.marks.Load()&w.bit == 0 && !(bounded && w.toldAt(o) > at.rv)
		})
	}
	w.replacing, w.goingBack, w.ended = false, false, true
	w.Progress(resourceVersion)
	w.setSynced()
}

// AbortReplace gives up a relist that broke: what was there stays, and so does
// what was put.
func (w *Writer) AbortReplace() {
	w.Flush()
	w.replacing, w.doubts = false, nil
}

// Remove ends the writer for good: its claim on objects is released, and those
// that no other writer claims are deleted. Put and Delete give ErrWriterRemoved
// from here on.
func (w *Writer) Remove() {
	if w.removed {
		return
	}
	w.AbortReplace()
	w.enterEra(false) // its claims count, whatever past they are from
	w.releaseAll(0, func(*Object) bool { return true })
	w.removed = true
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.writers, w)
	s.log.setSynced(s.syncedLocked())
	s.announceLocked()
}

// Progress tells that the writer is current to resourceVersion, by what was put
// before: a bookmark, or an event's own version. It takes effect together with
// what is buffered. "" is ignored.
func (w *Writer) Progress(resourceVersion string) {
	if resourceVersion == "" || w.removed {
		return
	}
	w.goingBack = false
	at := progressOf(resourceVersion)
	if len(w.doubts) > 0 && !w.replacing {
		if w.overrule(at); !w.synced {
			w.Flush() // what is right after all comes first
		}
	}
	w.next, w.advanced = at, true
	if w.batch.empty() {
		w.s.mu.Lock()
		w.advanceLocked()
		w.s.mu.Unlock()
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
	for key, rv := range w.ahead {
		if rv <= w.progress.rv {
			delete(w.ahead, key)
		}
	}
	w.s.announceLocked()
}

// ResourceVersion is the last progress, "" before the first.
func (w *Writer) ResourceVersion() string {
	if w.advanced {
		return w.next.text
	}
	w.s.mu.RLock()
	defer w.s.mu.RUnlock()
	return w.progress.text
}

// setSynced makes the writer synced if its first replace has ended, and nothing of that list is
// left out because it may have gone since. Its source will tell: what has gone after the list has
// changed after it.
func (w *Writer) setSynced() {
	if !w.ended || w.replacing {
		return
	}
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if checking {
		s.checkTableLocked()
	}
	if w.outdatedLocked() {
		w.ended = false
	}
	if w.synced || w.removed || !w.ended {
		return
	}
	for key := range w.doubts {
		if held, _ := s.table.get(key); held == nil {
			return
		}
	}
	w.synced = true
	s.log.setSynced(s.syncedLocked())
	s.announceLocked()
}

// sweep visits the live objects of this writer's scope that it claims, a chunk
// at a time under the read lock.
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

// releaseAll releases the claim on all objects that match, as nobody told of: end is the
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
