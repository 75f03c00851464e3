package watchcache

import (
	"slices"
	"sync/atomic"

	"github.com/weirproject/weir/internal/core/store"
)

// coalescedChanges holds one change for each key, in the order of the last. Its counts are safe for
// concurrent use.
type coalescedChanges struct {
	held    *heldChanges
	changes []*heldChange  // nil: it was coalesced into a later one, or dropped
	last    map[string]int // key to index in changes

	keys  atomic.Int64
	bytes atomic.Int64 // with what others hold too
}

// coalescedBytes is the size of an entry of a coalescedChanges without the change.
const coalescedBytes = 64

func newCoalescedChanges(held *heldChanges) *coalescedChanges {
	return &coalescedChanges{held: held, last: map[string]int{}}
}

// add adds a change, which it shares with the caller.
func (g *coalescedChanges) add(held *heldChange) {
	key := held.Key()
	if i, ok := g.last[key]; ok {
		first := g.changes[i]
		if first.Old == nil && held.New == nil { // created and deleted
			g.drop(i)
			delete(g.last, key)
			return
		}
		g.changes[i] = nil
		held = g.merge(first, &held.Change)
	} else {
		held.refs.Add(1)
		g.count(held, 1)
	}
	g.last[key] = len(g.changes)
	g.changes = append(g.changes, held)
	if len(g.changes) > 2*len(g.last)+batch {
		g.compact()
	}
}

// addChange adds a change that no other group holds.
func (g *coalescedChanges) addChange(ch store.Change) {
	held := g.held.keep(ch)
	g.add(held)
	g.held.release(held)
}

// merge returns a change that stands for first, which it releases, and for next. It has the old
// version of first, and so its size.
func (g *coalescedChanges) merge(first *heldChange, next *store.Change) *heldChange {
	merged := *next
	merged.Old, merged.Coalesced = first.Old, true
	if first.refs.Load() == 1 { // no other reader
		first.Change = merged
		return first
	}
	held := g.held.keep(merged)
	g.held.release(first)
	return held
}

func (g *coalescedChanges) count(held *heldChange, n int64) {
	g.keys.Add(n)
	g.bytes.Add(n * (int64(held.size) + coalescedBytes))
	g.held.bytes.Add(n * coalescedBytes)
}

// drop drops a change. It must not be added to after that, unless the key is deleted too.
func (g *coalescedChanges) drop(i int) {
	held := g.changes[i]
	g.changes[i] = nil
	g.count(held, -1)
	g.held.release(held)
}

// dropOld drops the old version of a change, and all of it if there is no other.
func (g *coalescedChanges) dropOld(i int) {
	rest := g.changes[i].Change
	g.drop(i)
	if rest.Old = nil; rest.New != nil {
		held := g.held.keep(rest)
		g.count(held, 1)
		g.changes[i] = held
	}
}

// compact removes changes that were coalesced into later ones, so that memory is bounded by the
// number of keys.
func (g *coalescedChanges) compact() {
	g.changes = slices.DeleteFunc(g.changes, func(held *heldChange) bool { return held == nil })
	for i := range g.changes {
		g.last[g.changes[i].Key()] = i
	}
}

// take returns the changes, which the caller then holds, and their size. It is the end of g.
func (g *coalescedChanges) take() (changes []*heldChange, bytes int64) {
	g.compact()
	entries := coalescedBytes * int64(len(g.changes))
	g.held.bytes.Add(-entries)
	return g.changes, g.bytes.Load() - entries
}

// close drops everything.
func (g *coalescedChanges) close() {
	for i, held := range g.changes {
		if held != nil {
			g.drop(i)
		}
	}
}
