package store

import (
	"maps"
	"slices"
)

const (
	// deletionsKept is how many deletions the store remembers even after the progress of every writer
	// has passed them: a server may send its last events again.
	deletionsKept = 64
	// maxDeletions bounds the remembered deletions, no matter how far a writer is behind: about 2 MiB.
	maxDeletions = 16 << 10
)

// deletions remembers, by key, the resourceVersions at which objects were deleted. The writers of
// merged sources are not synchronized. One source may report that an object was created and
// deleted. Another source, which lags, then reports the same object, or an earlier one with the
// same key. The store must not add such an older version again.
//
// A lagging source catches up. If an object was deleted at rv, each source that has the object
// reports, at or before rv, that the object was deleted or no longer matches the source's selector.
// Store.mu guards deletions. The zero value is empty.
type deletions struct {
	of    map[string]deletion
	queue []string // in the order of the deletions
	head  int
	keys  int64 // bytes of all keys in of
}

// deletionBytes is what a deletion uses in addition to its key: in the map, part of which is
// unused, and in the queue.
const deletionBytes = 128

// footprint estimates the bytes of the deletions.
func (g *deletions) footprint() int64 { return g.keys + int64(len(g.of))*deletionBytes }

// deletion is the deletion of an object.
type deletion struct {
	// rv is the resourceVersion of the deletion, or an estimate (see exact). When a source is current
	// to rv, it has reported what happened to the object.
	rv uint64
	// Versions of the key below supersedes are older than the deletion.
	supersedes uint64
	// If rv is an estimate, versions up to goneUpTo are not added again: see record.
	goneUpTo  uint64
	serverGen uint32
	by        *Writer // the writer whose source reported the deletion
	replace   uint32  // by.replaces at the time of the deletion
	// exact reports that the source of by reported the deletion with version rv, after all lower
	// versions. If that source later reports a version below rv, it repeats an event.
	exact bool
}

// record remembers the deletion of old that the source of w reported. Other sources may still have
// old. If a relist found the deletion, its version is unknown, except that it is above old's.
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
		// if a relist of the cache found it. The true version is unknown: it is at most that of the
		// cache's list. But w's source had exactly old and no longer has it, so another source that still
		// has old lags.
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

// forget removes the oldest deletions: those beyond maxDeletions, and those that every writer has
// passed, except for the newest deletionsKept. It is called after each deletion and each progress,
// because writers pass most deletions that a relist finds as soon as the relist ends.
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

// outdates reports whether an incoming version of w.key, which is not in the table, is older than a
// remembered deletion. The deletion may be of the same object, or of an earlier one with the same
// key. During a replace, a deletion that the same source reported before the replace does not
// count, because the list is newer.
func (g *deletions) outdates(w *Writer, o *Object) bool {
	if len(g.of) == 0 || o.opaque() || w.manual {
		return false
	}
	d, ok := g.of[string(w.key)]
	return ok && d.serverGen >= w.serverGen && o.rv < d.supersedes && !(w.replacing && d.by == w && d.replace != w.replaces)
}
