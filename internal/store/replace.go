package store

import "strings"

// BeginReplace starts a relist: Put marks objects as seen from here on. It aborts a relist that is
// still running. rebase says that the server went back in time. Then the relist takes lower
// resourceVersions, and deletes objects of any resourceVersion.
//
// If a replace with rebase was aborted and begins again, the server counts as having gone back once
// more, unless the source reported nothing in between.
func (w *Writer) BeginReplace(rebase bool) {
	for _, outdated := range w.beginReplace(rebase) {
		outdated()
	}
}

// beginReplace returns the functions that the caller must call without a lock.
func (w *Writer) beginReplace(rebase bool) (outdated []func()) {
	w.s.writing.Lock()
	defer w.s.writing.Unlock()
	w.s.flush()
	w.sweep(func(o *Object) { o.marks &^= w.bit })
	if w.listed && !w.synced && !w.replacing {
		w.firstUnconfirmed = w.unconfirmed
	}
	w.replacing, w.unconfirmed, w.newest = true, nil, 0
	w.replaces++
	return w.enterGeneration(rebase)
}

// ListRequested records that the request is sent for the state with which the next BeginReplace
// begins. If another writer finds before that BeginReplace that the server went back, it is not
// known which past the answer reports, and the writer is Outdated after BeginReplace as well.
// Without ListRequested, BeginReplace takes the state for one of its own moment.
func (w *Writer) ListRequested() {
	w.s.writing.Lock()
	defer w.s.writing.Unlock()
	requested := w.s.serverGen
	w.asked = &requested
}

// enterGeneration moves the writer to the server generation in which its state was requested. If
// the writer is the first to find that the server went back, it begins a new one. It returns the
// functions of the writers that are outdated by that.
func (w *Writer) enterGeneration(rebase bool) (outdated []func()) {
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	to := s.serverGen
	if w.asked != nil {
		to, w.asked = *w.asked, nil
	}
	if rebase && w.serverGen == s.serverGen && !w.goingBack {
		s.serverGen++
		to = s.serverGen
		for other := range s.writers {
			if other != w && other.outdated != nil {
				outdated = append(outdated, other.outdated)
				other.outdated = nil
			}
		}
	}
	if w.goingBack = w.goingBack || rebase; w.serverGen != to {
		// A list of the new past settles what was unconfirmed of the old one.
		w.serverGen, w.aboveProgress, w.firstUnconfirmed, w.listed = to, nil, nil, w.listed && w.synced
	}
	return outdated
}

// Replacing reports whether the writer is between BeginReplace and its end. Only the writer's own
// goroutine calls it.
func (w *Writer) Replacing() bool { return w.replacing }

// EndReplace ends a relist at resourceVersion, to which the writer is then current. It overrides
// what the source reported up to there. Everything in the writer's scope that was not seen since
// BeginReplace loses this writer's owner. Where the list has a lower version than the store, the
// list's replaces it.
//
// A version newer than the list, as an integer, stays if this source reported it and the replace
// did not begin with rebase: the watch that continues from the list reports what became of it. What
// other sources reported says nothing about this one.
//
// The first EndReplace makes the writer synced. If the list has objects that other sources reported
// deleted, the writer is synced as soon as it is known whether they exist. Without BeginReplace,
// EndReplace only does Flush and Progress.
func (w *Writer) EndReplace(resourceVersion string) {
	w.s.writing.Lock()
	defer w.s.writing.Unlock()
	w.s.flush()
	if w.replacing {
		at := progressOf(resourceVersion)
		bounded := at.ok && at.rv > 0
		w.releaseAll(at.rv, func(o *Object) bool {
			return o.marks&w.bit == 0 && !(bounded && w.lastReceived(o) > at.rv)
		})
	}
	w.replacing, w.goingBack, w.listed, w.firstUnconfirmed = false, false, true, nil
	w.progressTo(resourceVersion)
	w.trySync()
}

// AbortReplace ends a relist that broke off: the table keeps what it had, and what was put. What was
// unconfirmed after the first list is so again, except for what the relist reported.
func (w *Writer) AbortReplace() {
	w.s.writing.Lock()
	defer w.s.writing.Unlock()
	w.abortReplace()
}

func (w *Writer) abortReplace() {
	w.s.flush()
	if w.replacing {
		w.replacing, w.unconfirmed, w.firstUnconfirmed = false, w.firstUnconfirmed, nil
	}
}

// Remove ends the writer for good. The writer's owner no longer has the objects of its scope, and
// those that no other owner has are deleted. Put and Delete return ErrWriterRemoved from then on.
// Removing again does nothing.
func (w *Writer) Remove() {
	s := w.s
	s.writing.Lock()
	defer s.writing.Unlock()
	if w.removed {
		return
	}
	w.abortReplace()
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

// Progress records that the writer is current to resourceVersion with what was put before: a
// bookmark's, or an event's own. It takes effect when the batch is flushed, or immediately if the
// batch is empty. Progress ignores "".
func (w *Writer) Progress(resourceVersion string) {
	w.s.writing.Lock()
	defer w.s.writing.Unlock()
	w.progressTo(resourceVersion)
}

func (w *Writer) progressTo(resourceVersion string) {
	if resourceVersion == "" || w.removed {
		return
	}
	s := w.s
	w.goingBack = false
	at := progressOf(resourceVersion)
	unsettled := len(w.unconfirmed) > 0 && !w.replacing
	if unsettled {
		w.confirm(at)
	}
	s.mu.Lock()
	if w.next, w.advanced = at, true; s.batch.empty() {
		w.advanceLocked()
	}
	s.mu.Unlock()
	if unsettled {
		s.flush() // after a bookmark no caller does; only then may the writer be synced
	}
}

func (w *Writer) advanceLocked() {
	if !w.advanced {
		return
	}
	at := w.next
	if w.next, w.advanced = (progress{}), false; w.isOutdated() {
		return
	}
	w.progress, w.progress.serverGen = at, w.serverGen
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
	w.s.mu.RLock()
	defer w.s.mu.RUnlock()
	if w.advanced {
		return w.next.text
	}
	return w.progress.text
}

// trySync makes the writer synced if its first replace has ended and the table has all of that list.
// The source will report an object that may have been deleted since: it changed after the list.
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
	if w.isOutdated() {
		w.listed = false
	}
	if w.synced || w.removed || !w.listed {
		return
	}
	for key := range w.unconfirmed {
		if held, _ := s.table.get(key); held == nil {
			return
		}
	}
	for key := range w.unconfirmed {
		held, _ := s.table.get(key)
		s.log.awaitVersion(held) // another writer has put it, and the first list has it too
	}
	w.synced = true
	s.log.setSynced(s.syncedLocked())
	s.announceLocked()
}

// sweep visits the objects of this writer's scope that its owner has, in key order.
func (w *Writer) sweep(visit func(o *Object)) {
	prefix := ""
	if w.scope.Namespace != "" {
		prefix = w.scope.Namespace + "/"
	}
	w.s.table.ascend(prefix, func(key string, o *Object) bool {
		if !strings.HasPrefix(key, prefix) {
			return false
		}
		if o.ownedBy(w) {
			visit(o)
		}
		return true
	})
}

// releaseAll releases all objects that match, as deletions that the source did not report. end is
// the resourceVersion at which they were found to be gone.
func (w *Writer) releaseAll(end uint64, match func(o *Object) bool) {
	var found []*Object
	w.sweep(func(o *Object) {
		if match(o) {
			found = append(found, o)
		}
	})
	for i, o := range found {
		w.release(pending{key: o.key, before: o, end: end, missed: true})
		found[i] = nil
	}
	w.s.flush()
}
