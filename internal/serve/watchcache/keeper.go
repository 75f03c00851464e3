package watchcache

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirproject/weir/internal/core/store"
)

// slowAfter is how long a write must have taken for its client to count as taking nothing.
const slowAfter = time.Second

// keeper is a watcher for which the cache keeps bytes.
type keeper struct {
	pendingWrite
	bytes int64
}

// keepers returns the watchers of some writes for which the cache keeps bytes, the most first.
func keepers(writes []pendingWrite) (all []keeper) {
	for _, w := range writes {
		if bytes := w.kept(); bytes > 0 {
			all = append(all, keeper{w, bytes})
		}
	}
	slices.SortFunc(all, func(a, b keeper) int { return cmp.Compare(b.bytes, a.bytes) })
	return all
}

// shedStuck implements [Cache.ShedStuck].
func (ds *writeDeadlines) shedStuck(n int) (ended int) {
	for _, k := range keepers(ds.startedBefore(time.Now().Add(-slowAfter))) {
		if ended == n {
			break
		}
		if k.cut() {
			ds.stalled.Add(1)
			ended++
		}
	}
	return ended
}

// shedLargest implements [Cache.ShedLargest]. It looks at the watchers that have not caught up for
// slowAfter, whether or not their clients take something.
func (ds *writeDeadlines) shedLargest(n int, wanted int64) (told int, bytes int64) {
	var slow []pendingWrite
	then := since(time.Now().Add(-slowAfter))
	ds.mu.Lock()
	for wd := range ds.active {
		if began := wd.sending.Load(); began != 0 && began <= then {
			slow = append(slow, pendingWrite{writeDeadline: wd})
		}
	}
	ds.mu.Unlock()
	all := keepers(slow)
	for _, k := range all {
		if k.shed.Load() {
			bytes += k.bytes
		}
	}
	for _, k := range all {
		if told == n || bytes >= wanted {
			break
		}
		if k.shed.CompareAndSwap(false, true) {
			ds.stalled.Add(1)
			told, bytes = told+1, bytes+k.bytes
		}
	}
	return told, bytes
}

// from returns the source of a watcher, or nil.
func (wd *writeDeadline) from() changeSource {
	if from := wd.source.Load(); from != nil {
		return *from
	}
	return nil
}

// kept returns the bytes that the cache keeps for a watcher.
func (wd *writeDeadline) kept() (n int64) {
	if from := wd.from(); from != nil {
		n = from.kept()
	}
	if sn := wd.state.Load(); sn != nil {
		n = max(n, sn.KeptBytes(nil)) // the state keeps the old versions of the changes that wait
	}
	if c := wd.catchUp.Load(); c != nil {
		n += c.bytes.Load()
	}
	return n
}

// lag returns how many changes wait for the slowest watcher.
func (ds *writeDeadlines) lag() (most uint64) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for wd := range ds.active {
		if from := wd.from(); from != nil {
			most = max(most, from.lag())
		}
		if c := wd.catchUp.Load(); c != nil {
			most = max(most, uint64(c.keys.Load()))
		}
	}
	return most
}

// backlog returns three sums of bytes: taken, of the changes that watchers with cursors have taken
// and that the log, which begins at a revision, has dropped; states, of the states being sent; and
// waiting, of the most that waits for a watcher whose state is being sent. Others may wait for the
// same.
func (ds *writeDeadlines) backlog(logStart uint64) (taken, states, waiting int64) {
	var all []*store.Snapshot
	ds.mu.Lock()
	for wd := range ds.counted {
		from := wd.from()
		if l, ok := from.(*cursorSource); ok && l.oldest.Load() < logStart {
			taken += l.taken.Load()
		}
		if sn := wd.state.Load(); sn != nil {
			all = append(all, sn)
			if from != nil {
				waiting = max(waiting, from.kept())
			}
		}
	}
	ds.mu.Unlock()
	slices.SortFunc(all, func(a, b *store.Snapshot) int { return cmp.Compare(b.Revision(), a.Revision()) })
	var later *store.Snapshot
	for _, sn := range all {
		states, later = states+sn.KeptBytes(later), sn
	}
	return taken, states, waiting
}
