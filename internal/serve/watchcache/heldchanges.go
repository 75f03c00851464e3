package watchcache

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirproject/weir/internal/core/store"
)

// heldChanges counts the memory of the changes that wait for watchers: changes that the hub has
// offered, and changes of watchers that are being caught up. An old version counts once, even if
// several changes refer to it. A new version does not count: it is the stored version, or it is the
// old version of a later change that waits for the same watchers. The zero value is empty. It is
// safe for concurrent use.
type heldChanges struct {
	bytes atomic.Int64

	mu       sync.Mutex
	versions map[*store.Object]int // old versions: the number of waiting changes that refer to each
}

// changeBytes is the size of a waiting change without its objects, including its place in a queue.
const changeBytes = 80

// sizeOf returns the bytes of a waiting change, including its old version.
func sizeOf(ch *store.Change) int64 {
	if ch.Old == nil {
		return changeBytes
	}
	return changeBytes + ch.Old.Footprint()
}

// hold counts a change that starts to wait.
func (hc *heldChanges) hold(ch *store.Change) {
	bytes := int64(changeBytes)
	if ch.Old != nil {
		hc.mu.Lock()
		defer hc.mu.Unlock()
		if hc.versions == nil {
			hc.versions = map[*store.Object]int{}
		}
		if hc.versions[ch.Old]++; hc.versions[ch.Old] == 1 {
			bytes = sizeOf(ch)
		}
	}
	hc.bytes.Add(bytes)
}

// release undoes hold. It returns the bytes of ch including its old version, even if other changes
// still refer to that version.
func (hc *heldChanges) release(ch *store.Change) int64 {
	bytes := int64(changeBytes)
	if ch.Old != nil {
		hc.mu.Lock()
		defer hc.mu.Unlock()
		if hc.versions[ch.Old]--; hc.versions[ch.Old] == 0 {
			delete(hc.versions, ch.Old)
			bytes = sizeOf(ch)
		}
		if len(hc.versions) == 0 {
			hc.versions = nil // a map never shrinks
		}
	}
	hc.bytes.Add(-bytes)
	return sizeOf(ch)
}

// changeQueue queues changes for one watcher, in their order. After coalesce is called, it contains
// one change per key, in the order of each key's last change. So the number of keys bounds its
// size. It coalesces until it is empty. Only keys and bytes are safe for concurrent use.
type changeQueue struct {
	held    *heldChanges
	changes []store.Change // a zero Change was coalesced into a later one, taken, or dropped
	first   int            // all changes before this position were taken
	index   map[string]int // each key's position in changes; nil: the queue does not coalesce

	keys  atomic.Int64 // number of changes that are not zero
	bytes atomic.Int64 // of the queued and the taken changes; shared old versions count in full
}

func isZero(ch store.Change) bool { return ch.Old == nil && ch.New == nil }

// coalesce makes the queue coalesce until it is empty.
func (q *changeQueue) coalesce() {
	if q.index != nil {
		return
	}
	all := q.changes[q.first:]
	q.changes, q.first, q.index = nil, 0, map[string]int{}
	for i := range all {
		q.add(all[i])
		q.keys.Add(-1)
		q.release(&all[i])
	}
}

// add adds a change.
func (q *changeQueue) add(ch store.Change) {
	i, ok := q.index[ch.Key()]
	switch {
	case !ok:
		q.hold(&ch)
	case q.changes[i].Old == nil && ch.New == nil: // created and deleted
		delete(q.index, ch.Key())
		q.drop(i)
		return
	default: // ch replaces the key's change and takes its old version
		ch.Old, ch.Coalesced = q.changes[i].Old, true
		q.changes[i] = store.Change{}
	}
	if q.index != nil {
		q.index[ch.Key()] = len(q.changes)
	}
	if q.changes = append(q.changes, ch); len(q.changes) > 2*int(q.keys.Load())+batch {
		q.compact()
	}
}

func (q *changeQueue) hold(ch *store.Change) {
	q.held.hold(ch)
	q.keys.Add(1)
	q.bytes.Add(sizeOf(ch))
}

// release subtracts a change from q.bytes and q.held, and does not change q.keys.
func (q *changeQueue) release(ch *store.Change) { q.bytes.Add(-q.held.release(ch)) }

// drop drops the i-th change. The caller must not add another change of its key, unless the caller
// also removes the key from index.
func (q *changeQueue) drop(i int) {
	q.release(&q.changes[i])
	q.keys.Add(-1)
	q.changes[i] = store.Change{}
}

// dropOld drops the old version of the i-th change. If the change has no new version, dropOld drops
// the change.
func (q *changeQueue) dropOld(i int) {
	rest := q.changes[i]
	q.drop(i)
	if rest.Old = nil; rest.New != nil {
		q.hold(&rest)
		q.changes[i] = rest
	}
}

// compact removes the changes that are the zero value.
func (q *changeQueue) compact() {
	q.changes, q.first = slices.DeleteFunc(q.changes, isZero), 0
	if q.index == nil {
		return
	}
	for i := range q.changes {
		q.index[q.changes[i].Key()] = i
	}
}

// take moves the next changes to dst and returns their number. The caller releases them.
func (q *changeQueue) take(dst []store.Change) (n int) {
	for ; n < len(dst) && q.first < len(q.changes); q.first++ {
		if ch := &q.changes[q.first]; !isZero(*ch) {
			dst[n] = *ch
			n++
			delete(q.index, ch.Key())
			*ch = store.Change{}
		}
	}
	q.keys.Add(int64(-n))
	if q.first == len(q.changes) {
		q.changes, q.first, q.index = reusable(q.changes), 0, nil
	}
	return n
}

// reusable returns an emptied slice of changes for reuse, or nil if its capacity is above 1: most
// watchers receive changes singly and rarely, and need no larger slice.
func reusable(changes []store.Change) []store.Change {
	if cap(changes) > 1 {
		return nil
	}
	return changes[:0]
}

// close drops all changes that were not taken.
func (q *changeQueue) close() {
	for i := range q.changes {
		if !isZero(q.changes[i]) {
			q.drop(i)
		}
	}
	q.changes, q.first, q.index = nil, 0, nil
}
