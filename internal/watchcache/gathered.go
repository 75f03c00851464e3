package watchcache

import (
	"slices"

	"github.com/weirproject/weir/internal/store"
)

// gathered is changes of which there is one for each key, in the place of the last.
type gathered struct {
	changes []store.Change
	last    map[string]int // key to index
}

func (g *gathered) add(ch *store.Change) {
	if g.last == nil {
		g.last = map[string]int{}
	}
	key, merged := ch.Key(), *ch
	if i, ok := g.last[key]; ok {
		merged.Old, merged.Coalesced = g.changes[i].Old, true
		g.changes[i] = store.Change{}
	}
	if merged.Old == nil && merged.New == nil { // came and went
		delete(g.last, key)
		return
	}
	g.last[key] = len(g.changes)
	g.changes = append(g.changes, merged)
	if len(g.changes) > 2*len(g.last)+batch {
		g.compact()
	}
}

// compact drops what has become part of a later change, so that the memory is bounded by the number of keys.
func (g *gathered) compact() {
	g.changes = slices.DeleteFunc(g.changes, func(ch store.Change) bool { return ch.Old == nil && ch.New == nil })
	for i := range g.changes {
		g.last[g.changes[i].Key()] = i
	}
}
