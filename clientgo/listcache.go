package clientgo

import (
	"sync"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/weirproject/weir/internal/store"
)

// listCache holds the values of all objects for whoever lists everything again and again, so that a List is a copy of a
// slice, as it nearly is in client-go. It exists from the second List within idle on, until there was none for so long. A
// cursor tells it what has changed: a List decodes that and nothing else. Its bound is the values of all objects, which a
// List is about to hold in any case.
type listCache struct {
	store *store.Store
	idle  time.Duration

	mu        sync.Mutex
	last      time.Time // of the last List
	timer     *time.Timer
	cursor    *store.Cursor // nil: there is no cache
	values    []any
	keys      []string // of values
	positions map[string]int
}

const listIdle = time.Minute

// list gives all values, in no order, if there is a cache, or it is time for one.
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
	if c.cursor.Closed() { // with its store, which tells of nothing any more
		c.drop()
		return nil, false
	}
	return append(make([]any, 0, len(c.values)), c.values...), true
}

// catchUp applies what has changed.
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

// cool lets the cache go if nobody has listed for long, or looks again later.
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

// drop lets the cache go. The lock is held.
func (c *listCache) drop() {
	c.timer.Stop()
	c.cursor.Close()
	c.cursor, c.values, c.keys, c.positions = nil, nil, nil, nil
}
