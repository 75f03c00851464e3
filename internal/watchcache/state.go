package watchcache

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir/internal/store"
)

// state is one moment of a cache: a snapshot, and over it the versions that keys had then if they have changed since. It is not
// changed once it is made.
type state struct {
	rv   uint64
	sn   *store.Snapshot
	keys []string        // sorted; of old
	old  []*store.Object // the version of the key at rv; nil: it was not there
}

// current is the state of now.
func (c *Cache) current() *state {
	st := &state{}
	c.clock.Observe(func(rv uint64) {
		st.rv, st.sn = rv, c.store.Snapshot()
	})
	return st
}

// freshTimeout is how long a request waits for the store to be as current as it wants.
const freshTimeout = 3 * time.Second

// notOlderThan is the state of now, once it is at least rv: 504 if it is not soon.
func (c *Cache) notOlderThan(ctx context.Context, rv uint64) (*state, error) {
	if st := c.current(); st.rv >= rv {
		return st, nil
	}
	began := time.Now()
	defer func() {
		c.counters.waits.Add(1)
		c.counters.waited.Add(int64(time.Since(began)))
	}()
	waiting, cancel := context.WithTimeout(ctx, freshTimeout)
	defer cancel()
	if c.clock.Wait(waiting, rv) != nil {
		return nil, TooLargeError(rv, c.current().rv)
	}
	return c.current(), nil
}

// exactly is the state at rv: 410 if it can no longer be told, 504 if it is not yet.
func (c *Cache) exactly(ctx context.Context, rv uint64) (*state, error) {
	st, err := c.notOlderThan(ctx, rv)
	if err != nil || st.rv == rv {
		return st, err
	}
	if kept := c.kept.get(rv); kept != nil {
		return kept, nil
	}
	cursor, err := c.since(rv)
	if apierrors.IsResourceExpired(err) {
		return nil, errListExpired()
	}
	if err != nil {
		return nil, err
	}
	defer cursor.Close()
	return rewind(rv, c.current().sn, cursor), nil
}

// since is a cursor over the changes after rv: 410 if the log no longer reaches back to it.
func (c *Cache) since(rv uint64) (*store.Cursor, error) {
	if rv < c.floor.Load() {
		return nil, errExpired(rv)
	}
	least, most, err := c.history.revisions(rv)
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
	return cursor, err
}

// rewind undoes on sn what cursor, which stands at rv, has to tell. What changed after sn was taken does no harm: the version that
// a cursor saw last is the one at rv in any case.
func rewind(rv uint64, sn *store.Snapshot, cursor *store.Cursor) *state {
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
	st := &state{rv: rv, sn: sn}
	for key := range before {
		st.keys = append(st.keys, key)
	}
	slices.Sort(st.keys)
	for _, key := range st.keys {
		st.old = append(st.old, before[key])
	}
	return st
}

// from yields the objects whose key is start or later.
func (st *state) from(start string) iter.Seq[*store.Object] {
	if len(st.keys) == 0 {
		return st.sn.From(start)
	}
	return func(yield func(*store.Object) bool) {
		i, _ := slices.BinarySearch(st.keys, start)
		for o := range st.sn.From(start) {
			for ; i < len(st.keys) && st.keys[i] < o.Key(); i++ { // gone since
				if st.old[i] != nil && !yield(st.old[i]) {
					return
				}
			}
			if i < len(st.keys) && st.keys[i] == o.Key() { // changed since
				o = st.old[i]
				i++
			}
			if o != nil && !yield(o) {
				return
			}
		}
		for ; i < len(st.keys); i++ {
			if st.old[i] != nil && !yield(st.old[i]) {
				return
			}
		}
	}
}

const (
	// maxKept is how many states are kept for clients that are reading pages. A state costs what has changed since.
	maxKept = 16
	// keptFor is how long, from the first page on. kube-apiserver's continue tokens are good for 5 to 10 minutes.
	keptFor = 10 * time.Minute
)

// keptStates are the states that pages were last cut from. A timer runs while there are any. The zero value is empty. Safe for concurrent use.
type keptStates struct {
	mu     sync.Mutex
	states []keptState // the one used last is last
	timer  *time.Timer // nil: not running
	closed bool
}

type keptState struct {
	*state
	until time.Time
}

func (k *keptStates) keep(st *state) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	kept := keptState{st, time.Now().Add(keptFor)}
	if i := slices.IndexFunc(k.states, func(o keptState) bool { return o.rv == st.rv }); i >= 0 {
		kept.until = k.states[i].until
		k.states = slices.Delete(k.states, i, i+1)
	}
	if len(k.states) == maxKept {
		k.states = slices.Delete(k.states, 0, 1)
	}
	k.states = append(k.states, kept)
	if k.timer == nil {
		k.timer = time.AfterFunc(time.Until(kept.until), k.expire)
	}
}

// expire lets go of the states whose time is over.
func (k *keptStates) expire() {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	k.states = slices.DeleteFunc(k.states, func(o keptState) bool { return !o.until.After(now) })
	k.timer = nil
	if len(k.states) == 0 || k.closed {
		return
	}
	first := slices.MinFunc(k.states, func(a, b keptState) int { return a.until.Compare(b.until) })
	k.timer = time.AfterFunc(first.until.Sub(now), k.expire)
}

// close lets go of all states, for good.
func (k *keptStates) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed, k.states = true, nil
	if k.timer != nil {
		k.timer.Stop()
	}
}

func (k *keptStates) get(rv uint64) *state {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, st := range k.states {
		if st.rv == rv {
			return st.state
		}
	}
	return nil
}

// drop lets go of the states before rv.
func (k *keptStates) drop(rv uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.states = slices.DeleteFunc(k.states, func(o keptState) bool { return o.rv < rv })
}
