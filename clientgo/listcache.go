package clientgo

import (
	"sync"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/weirproject/weir/internal/store"
)

// listCache keeps the values of all objects for callers who list everything repeatedly: a List then
// copies a slice, almost as in client-go. The cache is made by the second List within idle and
// dropped once there was no List for idle. A cursor brings what has changed, so a List decodes only
// that. Its bound is the values of all objects, which the result of a List holds in any case.
type listCache struct {
	store *store.Store
	idle  time.Duration

	mu        sync.Mutex
	last      time.Time // time of the last List
	timer     *time.Timer
	cursor    *store.Cursor // nil if there is no cache
	values    []any
	keys      []string // of values
	positions map[string]int
}

const listIdle = time.Minute

// list returns all values, in no order. It reports false if there is no cache, and it is not time
// to make one.
func (c *listCache) list(value func(*store.Object) (any, error)) ([]any, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	again := !c.last.IsZero() && now.Sub(c.last) < c.idle
	c.last = now
	if c.cursor == nil {
		if !again {
			return nil, false
		}
		c.cursor, c.positions = c.store.Cursor(), make(map[string]int, c.store.Len())
		c.timer = time.AfterFunc(c.idle, c.expire)
	}
	c.catchUp(value)
	if c.cursor.Closed() { // closed with its store, which reports no more changes
		c.drop()
		return nil, false
	}
	return append(make([]any, 0, len(c.values)), c.values...), true
}

// catchUp applies the changes since the last List.
func (c *listCache) catchUp(value func(*store.Object) (any, error)) {
	changes := make([]store.Change, 256)
	for n := c.cursor.Next(changes); n > 0; n = c.cursor.Next(changes) {
		for i := range changes[:n] {
			c.apply(&changes[i], value)
		}
		clear(changes[:n])
	}
}

func (c *listCache) apply(change *store.Change, value func(*store.Object) (any, error)) {
	key := change.Key()
	at, have := c.positions[key]
	if change.New != nil {
		v, err := value(change.New)
		switch {
		case err == nil && have:
			c.values[at] = v
			return
		case err == nil:
			c.positions[key] = len(c.values)
			c.values, c.keys = append(c.values, v), append(c.keys, key)
			return
		}
		utilruntime.HandleError(err)
	}
	if !have {
		return
	}
	last := len(c.values) - 1
	c.values[at], c.keys[at] = c.values[last], c.keys[last]
	c.positions[c.keys[at]] = at
	delete(c.positions, key)
	c.values[last], c.keys[last] = nil, ""
	c.values, c.keys = c.values[:last], c.keys[:last]
}

// expire drops the cache if nobody has listed for idle, and restarts the timer otherwise.
func (c *listCache) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cursor == nil {
		return
	}
	if rest := c.idle - time.Since(c.last); rest > 0 {
		c.timer.Reset(rest)
		return
	}
	c.drop()
}

// drop drops the cache. The caller holds mu.
func (c *listCache) drop() {
	c.timer.Stop()
	c.cursor.Close()
	c.cursor, c.values, c.keys, c.positions = nil, nil, nil, nil
}
