package watchcache

import (
	"slices"
	"sync"
	"time"
)

const (
	// maxCachedStates bounds the states kept for paginated LISTs. A state takes what has changed
	// since.
	maxCachedStates = 16
	// cachedStateTTL is how long a state is kept, from its first page on. kube-apiserver's continue
	// tokens last 5 to 10 minutes.
	cachedStateTTL = 10 * time.Minute
)

// stateCache holds the states of recent paginated LISTs. A timer runs while there are any; close
// stops it. The zero value is empty. It is safe for concurrent use.
type stateCache struct {
	mu     sync.Mutex
	states []cachedState // least recently used first
	timer  *time.Timer   // nil: not running
	closed bool
}

type cachedState struct {
	*state
	until time.Time
}

func (sc *stateCache) add(st *state) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if sc.closed {
		return
	}
	entry := cachedState{st, time.Now().Add(cachedStateTTL)}
	if i := slices.IndexFunc(sc.states, func(o cachedState) bool { return o.rv == st.rv }); i >= 0 {
		entry.until = sc.states[i].until
		sc.states = slices.Delete(sc.states, i, i+1)
	}
	if len(sc.states) == maxCachedStates {
		sc.states = slices.Delete(sc.states, 0, 1)
	}
	sc.states = append(sc.states, entry)
	if sc.timer == nil {
		sc.timer = time.AfterFunc(time.Until(entry.until), sc.expire)
	}
}

// expire drops the states whose time has passed.
func (sc *stateCache) expire() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	now := time.Now()
	sc.states = slices.DeleteFunc(sc.states, func(o cachedState) bool { return !o.until.After(now) })
	sc.timer = nil
	if len(sc.states) == 0 || sc.closed {
		return
	}
	first := slices.MinFunc(sc.states, func(a, b cachedState) int { return a.until.Compare(b.until) })
	sc.timer = time.AfterFunc(first.until.Sub(now), sc.expire)
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
