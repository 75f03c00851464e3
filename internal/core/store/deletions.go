package store

import (
	"maps"
	"slices"
)

const (
	// deletionsKept is how many deletions are remembered although every writer has passed them. A
	// server may send its last events again.
	deletionsKept = 64
	// maxDeletions bounds the deletions, however far a writer is behind: about 2 MiB.
	maxDeletions = 16 << 10
)

// deletions remembers, by key, at which resourceVersion objects were deleted. The writers of merged
// sources are not in step. One source reports that an object came and went. Another, which lags,
// reports the same object after that, or one that had the key before. Such an older version must
// not come back.
//
// The source that lags will report the rest: an object that was deleted at rv has changed there, in
// every source that has it. Store.mu guards deletions. The zero value remembers nothing.
type deletions struct {
	of    map[string]deletion
	queue []string // in the order of their deletion
	head  int
	keys  int64 // bytes of all keys in of
}

// deletionBytes is what a deletion uses in addition to its key: in the map, part of which is free,
// and in the queue.
const deletionBytes = 128

// footprint returns about how many bytes the deletions take.
func (g *deletions) footprint() int64 { return g.keys + int64(len(g.of))*deletionBytes }

// deletion is the end of an object.
type deletion struct {
	// rv is the resourceVersion of the end, or a guess, see exact. A source that is current to it has
	// reported what became of the object.
	rv uint64
	// Versions below supersedes are older than the end.
	supersedes uint64
	// Versions up to goneUpTo do not come back, where rv is a guess: see record.
	goneUpTo  uint64
	serverGen uint32
	by        *Writer
	replace   uint32 // by.replaces at that time
	// exact says that rv is the end's own, which by's source reported in its order. What that source
	// reports below rv afterwards is a repeated event.
	exact bool
}

// record remembers the end of old that the source of w reported; other owners may still have old.
// If a relist found the end, all that is known is that old was not the last version.
func (g *deletions) record(w *Writer, old *Object, p *pending) {
	rv, below := p.end, p.end
	if rv == 0 || old.opaque() || w.manual {
		return // no end was reported, versions cannot be compared, or the object still exists
	}
	past := old.serverGen < w.serverGen
	received := old.puts&w.bit != 0
	switch {
	case p.missed && (past || !received):
		return // nor that, if another writer has put it, or the server has gone back since
	case p.missed:
		below = old.rv + 1
	case !past && received:
		below = max(below, old.rv+1)
	case !past && below <= old.rv:
		return // the end is that of an object that had the key before
	}
	goneUpTo, exact := uint64(0), !p.missed
	if late := p.late || rv <= max(old.rv, w.progress.rv); late && !past && !p.missed {
		// A watch cache reports an end in this way that a relist found. It may have been at any
		// version up to that list's, which is not known. But the source that had this very version
		// no longer has it, so no other source that has it is as new.
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

// forget drops the oldest deletions that every writer has passed. It is called after each deletion
// and each progress: most deletions that a relist finds are passed as soon as the relist ends.
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

// passed reports whether all writers have reached the oldest deletion.
func (g *deletions) passed(s *Store) bool {
	rv := g.of[g.queue[g.head]].rv
	for w := range s.writers {
		if w.progress.rv < rv {
			return false
		}
	}
	return true
}

// outdates reports whether an incoming version of a key that is not in the table is from before a
// remembered end. The end may be that of the same object, or of one that had the key before. A
// source's list overrides what the source reported before the list.
func (g *deletions) outdates(w *Writer, key string, rv uint64, opaque bool) bool {
	if len(g.of) == 0 || opaque || w.manual {
		return false
	}
	d, ok := g.of[key]
	return ok && d.serverGen >= w.serverGen && rv < d.supersedes && !(w.replacing && d.by == w && d.replace != w.replaces)
}
