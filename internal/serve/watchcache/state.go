package watchcache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/store"
)

// state is the content of a cache at one resourceVersion: a snapshot, and older versions of the
// keys that changed between that resourceVersion and the snapshot. It is immutable.
type state struct {
	rv   uint64
	sn   *store.Snapshot
	old  map[string]*store.Object // the key's version at rv; nil: absent
	keys []string                 // the keys of old, sorted
}

// oldBytes returns the bytes of the older versions.
func (st *state) oldBytes() (n int64) {
	for _, o := range st.old {
		if o != nil {
			n += o.Footprint()
		}
	}
	return n
}

// currentState returns the current state.
func (c *Cache) currentState() *state {
	st := &state{}
	c.clock.Observe(func(rv uint64) {
		st.rv, st.sn = rv, c.store.Snapshot()
	})
	return st
}

// freshnessTimeout bounds the wait for a resourceVersion that the store has not reached.
const freshnessTimeout = 3 * time.Second

// stateNotOlderThan waits until the cache has reached rv and returns its current state. It returns
// 504 after freshnessTimeout.
func (c *Cache) stateNotOlderThan(ctx context.Context, rv uint64) (*state, error) {
	if st := c.currentState(); st.rv >= rv {
		return st, nil
	}
	began := time.Now()
	defer func() {
		c.counters.waits.Add(1)
		c.counters.waited.Add(int64(time.Since(began)))
	}()
	waiting, cancel := context.WithTimeout(ctx, freshnessTimeout)
	defer cancel()
	if c.clock.Wait(waiting, rv) != nil {
		return nil, TooLargeError(rv, c.currentState().rv)
	}
	return c.currentState(), nil
}

// stateExactly returns the state at rv. It returns 410 if the state is expired, and 504 if the
// cache has not reached rv in time.
func (c *Cache) stateExactly(ctx context.Context, rv uint64) (*state, error) {
	st, err := c.stateNotOlderThan(ctx, rv)
	if err != nil || st.rv == rv {
		return st, err
	}
	if kept := c.pagedStates.get(rv); kept != nil {
		return kept, nil
	}
	cursor, err := c.cursorAfter(rv)
	if apierrors.IsResourceExpired(err) { // for a LIST, kube-apiserver's message is this one
		return nil, apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	}
	if err != nil {
		return nil, err
	}
	defer cursor.Close()
	return undoChanges(rv, c.currentState().sn, cursor), nil
}

// cursorAfter returns a cursor over the changes after rv. It returns 410 if the log does not
// contain them any more.
func (c *Cache) cursorAfter(rv uint64) (*store.Cursor, error) {
	if rv < c.floor.Load() {
		return nil, errExpired(rv)
	}
	least, most, err := c.history.resumeRange(rv)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errExpired(rv), err)
	}
	cursor, err := c.store.CursorAt(least)
	if errors.Is(err, store.ErrTrimmed) && most > least {
		cursor, err = c.store.CursorAt(most)
	}
	if errors.Is(err, store.ErrTrimmed) {
		return nil, errExpired(rv)
	}
	if err != nil {
		return nil, c.storeError(err)
	}
	return cursor, nil
}

// undoChanges returns the state at rv: the snapshot sn without the changes after rv. cursor returns
// these changes. For each changed key, the state has the old version of the key's first change
// after rv. Changes that are newer than sn do no harm.
func undoChanges(rv uint64, sn *store.Snapshot, cursor *store.Cursor) *state {
	before := map[string]*store.Object{}
	changes := make([]store.Change, 64)
	for done := false; !done; {
		n := cursor.Next(changes)
		done = n == 0 || changes[n-1].Revision >= sn.Revision() && cursor.Pending() == 0
		for i := range changes[:n] {
			key := changes[i].Key()
			if _, ok := before[key]; !ok {
				before[key] = changes[i].Old
			}
		}
	}
	return &state{rv, sn, before, slices.Sorted(maps.Keys(before))}
}

// from yields the objects whose key is start or later, in key order.
func (st *state) from(start string) iter.Seq[*store.Object] {
	if len(st.keys) == 0 {
		return st.sn.From(start)
	}
	return func(yield func(*store.Object) bool) {
		i, _ := slices.BinarySearch(st.keys, start)
		changed := st.keys[i:]
		for o := range st.sn.From(start) {
			for ; len(changed) > 0 && changed[0] <= o.Key(); changed = changed[1:] {
				if old := st.old[changed[0]]; old != nil && !yield(old) {
					return
				}
			}
			if _, ok := st.old[o.Key()]; !ok && !yield(o) {
				return
			}
		}
		for _, key := range changed {
			if old := st.old[key]; old != nil && !yield(old) {
				return
			}
		}
	}
}

// CanResumeFrom reports whether a WATCH can resume from resourceVersion. In the same cases, the
// cache can answer a LIST of the state at exactly resourceVersion. It returns true for a
// resourceVersion in the log, and for one that the cache has not reached yet. The resourceVersion
// may expire before the request is served.
func (c *Cache) CanResumeFrom(resourceVersion string) bool {
	rv, err := resourceversion.Parse(resourceVersion)
	if err != nil {
		return false
	}
	if c.currentState().rv < rv {
		return true
	}
	cursor, err := c.cursorAfter(rv)
	if err != nil {
		return false
	}
	cursor.Close()
	return true
}

const (
	// maxCachedStates bounds the states cached for paginated LISTs. maxCachedStateBytes bounds the
	// memory of the object versions that only these states retain. maxCachedStateBytes is four times
	// the default size of the log.
	maxCachedStates     = 16
	maxCachedStateBytes = 32 << 20
	// cachedStateTTL is how long a state is cached after its first page. kube-apiserver's continue
	// tokens last 5 to 10 minutes.
	cachedStateTTL = 10 * time.Minute
	// stateCheckInterval is the time between two checks of the age of the states and of the memory
	// that they use.
	stateCheckInterval = 5 * time.Second
)

// stateCache caches the states of recent paginated LISTs. A timer runs while it contains states;
// close stops the timer. It is safe for concurrent use.
type stateCache struct {
	limit int64 // in bytes

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
	sc.enforce()
	if sc.timer == nil {
		sc.timer = time.AfterFunc(stateCheckInterval, sc.expire)
	}
}

// enforce drops the oldest states until the memory of all states is within the limit. It returns
// the bytes of the remaining states. The caller holds sc.mu.
func (sc *stateCache) enforce() (bytes int64) {
	if len(sc.states) == 0 {
		return 0
	}
	byAge := slices.SortedFunc(slices.Values(sc.states), func(a, b cachedState) int {
		return cmp.Or(cmp.Compare(a.sn.Revision(), b.sn.Revision()), cmp.Compare(a.rv, b.rv))
	})
	var later *store.Snapshot
	for i, st := range slices.Backward(byAge) {
		n := st.oldBytes() + st.sn.KeptBytes(later)
		if bytes+n > sc.limit {
			dropped := byAge[:i+1]
			sc.states = slices.DeleteFunc(sc.states, func(o cachedState) bool { return slices.Contains(dropped, o) })
			break
		}
		bytes, later = bytes+n, st.sn
	}
	return bytes
}

// size returns the memory of the states in bytes.
func (sc *stateCache) size() int64 {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	return sc.enforce()
}

// expire drops the states whose time has passed. If the rest exceeds the limit, it also drops the
// oldest states.
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
	sc.timer = time.AfterFunc(stateCheckInterval, sc.expire)
}

// close drops all states. Later calls of add do nothing.
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
