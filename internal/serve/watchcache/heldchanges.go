package watchcache

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirproject/weir/internal/core/store"
)

// heldChanges counts the memory of the changes that wait for watchers: those that the hub has
// offered, and those of watchers that are being caught up. An old version counts once, however many
// changes have it. A new version does not count: it is in the table, or is the old version of a
// later change, which waits for the same watchers. The zero value is empty. It is safe for
// concurrent use.
type heldChanges struct {
	bytes atomic.Int64

	mu       sync.Mutex
	versions map[*store.Object]int // old versions, and how many waiting changes have each
	most     int                   // the largest size of versions since it was made
}

const (
	// changeBytes is the size of a waiting change, with its place in a queue or a coalescer.
	changeBytes = 80
	// fewVersions is the size up to which an empty map of versions is kept.
	fewVersions = 256
)

// sizeOf returns the bytes that a waiting change takes alone.
func sizeOf(ch *store.Change) int64 {
	if ch.Old == nil {
		return changeBytes
	}
	return changeBytes + ch.Old.Footprint()
}

// hold counts a change that begins to wait.
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
		hc.most = max(hc.most, len(hc.versions))
	}
	hc.bytes.Add(bytes)
}

// release ends what hold began. It returns the bytes that the change took alone.
func (hc *heldChanges) release(ch *store.Change) int64 {
	bytes := int64(changeBytes)
	if ch.Old != nil {
		hc.mu.Lock()
		defer hc.mu.Unlock()
		if hc.versions[ch.Old]--; hc.versions[ch.Old] == 0 {
			delete(hc.versions, ch.Old)
			bytes = sizeOf(ch)
		}
		if len(hc.versions) == 0 && hc.most > fewVersions {
			hc.versions, hc.most = nil, 0 // a map never shrinks
		}
	}
	hc.bytes.Add(-bytes)
	return sizeOf(ch)
}

// coalescer keeps one change for each key, in the order of the last change of each. Its size is
// bounded by the number of keys. Only keys and bytes are safe for concurrent use.
type coalescer struct {
	held    *heldChanges
	changes []store.Change // a zero Change was coalesced into a later one, or dropped
	index   map[string]int // of each key's change in changes

	keys  atomic.Int64
	bytes atomic.Int64 // old versions that others hold too count in full
}

func newCoalescer(held *heldChanges) *coalescer {
	return &coalescer{held: held, index: map[string]int{}}
}

func isZero(ch store.Change) bool { return ch.Old == nil && ch.New == nil }

// add adds a change.
func (c *coalescer) add(ch store.Change) {
	key := ch.Key()
	i, ok := c.index[key]
	switch {
	case !ok:
		c.hold(&ch)
	case c.changes[i].Old == nil && ch.New == nil: // created and deleted
		c.drop(i)
		delete(c.index, key)
		return
	default: // the change that holds the old version moves
		ch.Old, ch.Coalesced = c.changes[i].Old, true
		c.changes[i] = store.Change{}
	}
	c.index[key] = len(c.changes)
	c.changes = append(c.changes, ch)
	if len(c.changes) > 2*len(c.index)+batch {
		c.compact()
	}
}

func (c *coalescer) hold(ch *store.Change) {
	c.held.hold(ch)
	c.keys.Add(1)
	c.bytes.Add(sizeOf(ch))
}

// drop drops the i-th change. No change of its key may be added after that, unless the key is
// removed from index.
func (c *coalescer) drop(i int) {
	c.bytes.Add(-c.held.release(&c.changes[i]))
	c.keys.Add(-1)
	c.changes[i] = store.Change{}
}

// dropOld drops the old version of the i-th change, and the change if it has no new one.
func (c *coalescer) dropOld(i int) {
	rest := c.changes[i]
	c.drop(i)
	if rest.Old = nil; rest.New != nil {
		c.hold(&rest)
		c.changes[i] = rest
	}
}

// compact removes zero changes.
func (c *coalescer) compact() {
	c.changes = slices.DeleteFunc(c.changes, isZero)
	for i := range c.changes {
		c.index[c.changes[i].Key()] = i
	}
}

// take returns the changes and their bytes. The caller releases the changes, and does not use the
// coalescer any more.
func (c *coalescer) take() (changes []store.Change, bytes int64) {
	c.compact()
	return c.changes, c.bytes.Load()
}

// close drops everything.
func (c *coalescer) close() {
	for i, ch := range c.changes {
		if !isZero(ch) {
			c.drop(i)
		}
	}
}
