package watchcache

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/weirproject/weir/internal/core/store"
)

// slowAfter is how long a write must have taken for its client to count as taking nothing.
const slowAfter = time.Second

// keeper is a watcher for which something is kept.
type keeper struct {
	*writeDeadline
	bytes int64
}

// keepers returns those of some watchers for which something is kept, that with the most first.
func keepers(some iter.Seq[*writeDeadline]) (all []keeper) {
	for wd := range some {
		if bytes := wd.kept(); bytes > 0 {
			all = append(all, keeper{wd, bytes})
		}
	}
	slices.SortFunc(all, func(a, b keeper) int { return cmp.Compare(b.bytes, a.bytes) })
	return all
}

// shedStuck ends up to n writes of watchers that take nothing, those first for which most is kept.
// It returns how many it has ended.
func (ds *writeDeadlines) shedStuck(n int) (ended int) {
	stuck := map[*writeDeadline]pendingWrite{}
	for _, w := range ds.startedBefore(time.Now().Add(-slowAfter)) {
		stuck[w.writeDeadline] = w
	}
	for _, k := range keepers(maps.Keys(stuck)) {
		if ended == n {
			break
		}
		if stuck[k.writeDeadline].cut() {
			ds.stalled.Add(1)
			ended++
		}
	}
	return ended
}

// shedLargest tells up to n watchers to end before their next event that have not caught up for
// slowAfter, whether or not they take something: those for which most is kept, until together that
// is as much as the bytes wanted. Those that were told before count. It returns how many it has
// told, and the bytes of all.
func (ds *writeDeadlines) shedLargest(n int, wanted int64) (told int, bytes int64) {
	all := keepers(slices.Values(ds.sendingSince(time.Now().Add(-slowAfter))))
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

// sendingSince returns the watchers that have not caught up since then.
func (ds *writeDeadlines) sendingSince(then time.Time) (out []*writeDeadline) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for wd := range ds.active {
		if began := wd.sending.Load(); began != 0 && began <= since(then) {
			out = append(out, wd)
		}
	}
	return out
}

// kept returns the bytes of what is kept for the watcher.
func (wd *writeDeadline) kept() (n int64) {
	if from := wd.source.Load(); from != nil {
		n = (*from).kept()
	}
	if sn := wd.state.Load(); sn != nil {
		n = max(n, sn.KeptBytes(nil)) // what waits has the old versions that the state keeps
	}
	if g := wd.catchUp.Load(); g != nil {
		n += g.bytes.Load()
	}
	return n
}

// stateBytes returns the bytes of what is kept for states that are being sent, and of the most that
// waits for one of those to whom they are sent: others may wait for the same.
func (ds *writeDeadlines) stateBytes() (states, waiting int64) {
	if ds.states.Load() == 0 {
		return 0, 0
	}
	var all []*store.Snapshot
	ds.mu.Lock()
	for wd := range ds.active {
		if sn := wd.state.Load(); sn != nil {
			all = append(all, sn)
			if from := wd.source.Load(); from != nil {
				waiting = max(waiting, (*from).kept())
			}
		}
	}
	ds.mu.Unlock()
	slices.SortFunc(all, func(a, b *store.Snapshot) int { return cmp.Compare(b.Revision(), a.Revision()) })
	var later *store.Snapshot
	for _, sn := range all {
		states, later = states+sn.KeptBytes(later), sn
	}
	return states, waiting
}
