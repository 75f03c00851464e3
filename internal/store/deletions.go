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

// deletions remembers, by key, at which resourceVersion objects have gone. The writers of merged
// sources are not in step. One tells that an object came and went. Another, which lags, tells after
// that of the same object, or of one that had the key before. Such an older version must not come
// back.
//
// The source that lags will tell the rest of the story: an object that went at rv has changed
// there, for whoever has it. The store's lock guards deletions. The zero value remembers nothing.
type deletions struct {
	of    map[string]deletion
	queue []string // in the order of their deletion
	head  int
	keys  int64 // bytes of all keys in of
}

// deletionBytes is what a deletion takes besides its key: in the map, part of which is free, and in
// the queue.
const deletionBytes = 128

// footprint returns about how many bytes the deletions take.
func (g *deletions) footprint() int64 { return g.keys + int64(len(g.of))*deletionBytes }

// deletion is the end of an object.
type deletion struct {
	// rv is the resourceVersion of the end, or a guess, see exact. A source that is current to it has
	// told what became of the object.
	rv uint64
	// Versions below supersedes are older than the end.
	supersedes uint64
	// Versions up to goneUpTo are gone for good, where rv is a guess: see record.
	goneUpTo uint64
	era      uint32
	by       *Writer
	replace  uint32 // by.replaces when it was told
	// exact says that rv is the end's own, from by's source in its order. What comes from there below
	// rv after that is an event that comes again.
	exact bool
}

// record remembers the end of old, as the writer was told; other writers may hold old for a while.
// If a relist found the end, all that is known is that old was not the last version.
func (g *deletions) record(w *Writer, old *Object, p *pending) {
	rv, below := p.end, p.end
	if rv == 0 || old.opaque() || w.manual {
		return // nobody was told, they cannot be told apart or compared, or the object is still there
	}
	past := old.era.Load() < w.era
	received := old.puts.Load()&w.bit != 0
	switch {
	case p.missed && (past || !received):
		return // nor that, where others have put it, or the server has gone back since
	case p.missed:
		below = old.rv + 1
	case !past && received:
		below = max(below, old.rv+1)
	case !past && below <= old.rv:
		return // the writer was told of an object that was there before this one
	}
	goneUpTo, exact := uint64(0), !p.missed
	if late := p.late || rv <= max(old.rv, w.progress.rv); late && !past && !p.missed {
		// A watch cache tells so of an end that a relist found: it may have been at any version
		// up to that list's, which nobody tells. But the source that had this very version has it
		// no more, so no other source that has it is as new.
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
	if before.era == w.era && before.supersedes > below {
		return
	}
	g.of[old.key] = deletion{rv, below, goneUpTo, w.era, w, w.replaces, exact}
	g.forget(w.s)
}

// forget drops the oldest deletions that need not be remembered any more. It is called after each
// deletion and whenever a writer has come further: most of what a relist did not find is passed as
// soon as that has ended.
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

// outdates reports whether an incoming version of a key that is not held is from before an end that
// was told since. The end may be that of the same object, or of one that had the key before. A
// writer's own list knows better than what the writer was told before the list.
func (g *deletions) outdates(w *Writer, key string, rv uint64, opaque bool) bool {
	if len(g.of) == 0 || opaque || w.manual {
		return false
	}
	d, ok := g.of[key]
	return ok && d.era >= w.era && rv < d.supersedes && !(w.replacing && d.by == w && d.replace != w.replaces)
}
