package watchcache

import (
	"sync"
	"sync/atomic"

	"github.com/weirproject/weir/internal/core/store"
)

// heldChanges counts the memory of the changes that wait to be sent: those that the hub has
// offered, and those of watchers that are being caught up. An old version counts once, however many
// changes have it and however many watchers those wait for. A new one does not count: it is in the
// table, or is the old version of a later change, which waits for the same watchers. The zero value
// is empty. It is safe for concurrent use.
type heldChanges struct {
	bytes atomic.Int64 // of the changes, their old versions, and the entries of coalescedChanges

	mu       sync.Mutex
	versions map[*store.Object]int32 // old versions, and how many changes have each
	most     int                     // of versions since it was made
}

// heldChange is a change that waits for one watcher or for several, which share it.
type heldChange struct {
	store.Change
	refs atomic.Int32
	size uint32 // with the old version
}

const (
	// heldBytes is the size of a heldChange with the place of its old version in the map.
	heldBytes = 48 + 32
	// fewVersions is how many versions a map may have had that is kept when it is empty.
	fewVersions = 256
)

// keep returns a change that has one holder, who must release it.
func (hc *heldChanges) keep(ch store.Change) *heldChange {
	held := &heldChange{Change: ch, size: heldBytes}
	held.refs.Store(1)
	bytes := int64(heldBytes)
	if ch.Old != nil {
		size := ch.Old.Footprint()
		held.size += uint32(size)
		if hc.add(ch.Old) {
			bytes += size
		}
	}
	hc.bytes.Add(bytes)
	return held
}

// release ends one hold of a change.
func (hc *heldChanges) release(held *heldChange) {
	if held.refs.Add(-1) > 0 {
		return
	}
	bytes := int64(heldBytes)
	if held.Old != nil && hc.remove(held.Old) {
		bytes += held.Old.Footprint()
	}
	hc.bytes.Add(-bytes)
}

// add reports whether no other change has the version.
func (hc *heldChanges) add(o *store.Object) bool {
	hc.mu.Lock()
	defer hc.mu.Unlock()
	if hc.versions == nil {
		hc.versions = map[*store.Object]int32{}
	}
	hc.versions[o]++
	hc.most = max(hc.most, len(hc.versions))
	return hc.versions[o] == 1
}

// remove reports whether no other change has the version any more.
func (hc *heldChanges) remove(o *store.Object) bool {
	hc.mu.Lock()
	defer hc.mu.Unlock()
	if n := hc.versions[o]; n > 1 {
		hc.versions[o] = n - 1
		return false
	}
	if delete(hc.versions, o); len(hc.versions) == 0 && hc.most > fewVersions {
		hc.versions, hc.most = nil, 0 // a map keeps its room
	}
	return true
}

// offering is a change that the hub is offering. Only the hub uses it.
type offering struct {
	held   *heldChanges
	change *store.Change
	whole  *heldChange // nil: not offered to any watcher yet
	end    *heldChange // the same without the new version; nil: likewise
}

// get returns what a watcher is to be offered. leaves tells that the new version does not concern
// it: then it does not get that version, which no later change that it gets would have as the old
// one.
func (of *offering) get(leaves bool) *heldChange {
	if !leaves || of.change.New == nil {
		if of.whole == nil {
			of.whole = of.held.keep(*of.change)
		}
		return of.whole
	}
	if of.end == nil {
		end := *of.change
		end.New = nil
		of.end = of.held.keep(end)
	}
	return of.end
}

// done ends the offering.
func (of *offering) done() {
	for _, held := range [...]*heldChange{of.whole, of.end} {
		if held != nil {
			of.held.release(held)
		}
	}
}
