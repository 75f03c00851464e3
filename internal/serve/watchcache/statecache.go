package watchcache

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/weirproject/weir/internal/core/store"
)

const (
	// maxCachedStates bounds the states kept for paginated LISTs, and maxCachedStateBytes what they
	// take: what has changed since. The log takes a quarter of that, by default.
	maxCachedStates     = 16
	maxCachedStateBytes = 32 << 20
	// cachedStateTTL is how long a state is kept, from its first page on. kube-apiserver's continue
	// tokens last 5 to 10 minutes.
	cachedStateTTL = 10 * time.Minute
	// stateCheckInterval is the time between two looks at what the states have come to take.
	stateCheckInterval = 5 * time.Second
)

// stateCache holds the states of recent paginated LISTs. A timer runs while there are any; close
// stops it. It is safe for concurrent use.
type stateCache struct {
	limit int64 // in bytes

	mu     sync.Mutex
	states []cachedState // least recently used first
	timer  *time.Timer   // nil: not running
	closed bool
}

type cachedState struct {
	*state
	older int64 // bytes of its older versions
	until time.Time
}

func (sc *stateCache) add(st *state) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if sc.closed {
		return
	}
	entry := cachedState{st, st.oldBytes(), time.Now().Add(cachedStateTTL)}
	if i := slices.IndexFunc(sc.states, func(o cachedState) bool { return o.rv == st.rv }); i >= 0 {
		entry.until = sc.states[i].until
		sc.states = slices.Delete(sc.states, i, i+1)
	}
	if len(sc.states) == maxCachedStates {
		sc.states = slices.Delete(sc.states, 0, 1)
	}
	sc.states = append(sc.states, entry)
	sc.enforce()
	if sc.timer == nil {
		sc.timer = time.AfterFunc(stateCheckInterval, sc.expire)
	}
}

// enforce drops the oldest states if all together take more than the limit. It returns what is left
// of them, in bytes. The caller holds the lock.
func (sc *stateCache) enforce() (bytes int64) {
	if len(sc.states) == 0 {
		return 0
	}
	byAge := slices.SortedFunc(slices.Values(sc.states), func(a, b cachedState) int {
		return cmp.Or(cmp.Compare(a.sn.Revision(), b.sn.Revision()), cmp.Compare(a.rv, b.rv))
	})
	var later *store.Snapshot
	for i, st := range slices.Backward(byAge) {
		n := st.older + st.sn.KeptBytes(later)
		if bytes+n > sc.limit {
			dropped := byAge[:i+1]
			sc.states = slices.DeleteFunc(sc.states, func(o cachedState) bool { return slices.Contains(dropped, o) })
			break
		}
		bytes, later = bytes+n, st.sn
	}
	return bytes
}

// size returns what the states take, in bytes.
func (sc *stateCache) size() int64 {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	return sc.enforce()
}

// expire drops the states whose time has passed, and those for which there is no room any more.
func (sc *stateCache) expire() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	now := time.Now()
	sc.states = slices.DeleteFunc(sc.states, func(o cachedState) bool { return !o.until.After(now) })
	sc.enforce()
	sc.timer = nil
	if len(sc.states) == 0 || sc.closed {
		return
	}
	first := slices.MinFunc(sc.states, func(a, b cachedState) int { return a.until.Compare(b.until) })
	sc.timer = time.AfterFunc(min(first.until.Sub(now), stateCheckInterval), sc.expire)
}

// close drops all states, for good.
func (sc *stateCache) close() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.closed, sc.states = true, nil
	if sc.timer != nil {
		sc.timer.Stop()
	}
}

func (sc *stateCache) get(rv uint64) *state {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	for _, st := range sc.states {
		if st.rv == rv {
			return st.state
		}
	}
	return nil
}

// drop drops the states before rv.
func (sc *stateCache) drop(rv uint64) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.states = slices.DeleteFunc(sc.states, func(o cachedState) bool { return o.rv < rv })
}
