package clientgo

import (
	"slices"
	"sync"
	"time"

	"github.com/weirproject/weir/internal/store"
)

// handlerCache keeps values for handlers that are about to get them: what a transform returned, and
// what the first of several handlers got of the initial list or a resync, until the others have got
// it. Its bound is budget bytes; the oldest values go first. It is emptied once no value has come
// for handlerCacheIdle. A handler that lags further behind decodes again, for itself and for those
// behind it. Safe for concurrent use.
type handlerCache struct {
	budget int64 // bytes, estimated

	mu     sync.Mutex
	values map[*store.Object]any
	order  []*store.Object // oldest first, from next on; some may have been taken
	next   int
	bytes  int64
	used   bool        // since the timer last fired
	timer  *time.Timer // runs while there are values; ends with close
	closed bool
}

// handlerCacheBudget is the default budget, in bytes: some 500 pods, by which handlers may lag
// behind each other.
const handlerCacheBudget = 8 << 20

// handlerCacheIdle is how far handlers that share values may lag behind each other, in time.
const handlerCacheIdle = time.Second

func newHandlerCache(budget int64) *handlerCache {
	if budget == 0 {
		budget = handlerCacheBudget
	}
	return &handlerCache{budget: budget, values: map[*store.Object]any{}}
}

// get returns the value of a version.
func (c *handlerCache) get(o *store.Object) (any, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	value, ok := c.values[o]
	return value, ok
}

// has reports whether the value of a version is cached.
func (c *handlerCache) has(o *store.Object) bool {
	_, ok := c.get(o)
	return ok
}

// take returns the value of a version and removes it.
func (c *handlerCache) take(o *store.Object) (any, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	value, ok := c.values[o]
	if ok {
		delete(c.values, o)
		c.bytes -= valueFactor * int64(o.Size())
	}
	return value, ok
}

// getOrPut returns the cached value of a version, or caches value and returns it.
func (c *handlerCache) getOrPut(o *store.Object, value any) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	if first, ok := c.values[o]; ok || c.closed {
		if ok {
			return first
		}
		return value
	}
	c.values[o], c.order, c.used = value, append(c.order, o), true
	for c.bytes += valueFactor * int64(o.Size()); c.bytes > c.budget; {
		c.evictOldest()
	}
	c.compact()
	if c.timer == nil {
		c.timer = time.AfterFunc(handlerCacheIdle, c.expire)
	}
	return value
}

func (c *handlerCache) evictOldest() {
	oldest := c.order[c.next]
	c.order[c.next] = nil
	c.next++
	if _, ok := c.values[oldest]; ok { // not taken
		delete(c.values, oldest)
		c.bytes -= valueFactor * int64(oldest.Size())
	}
}

// compact bounds the length of order by what is cached, so that it does not pin versions that were
// taken.
func (c *handlerCache) compact() {
	if len(c.order) < 2*len(c.values)+64 {
		return
	}
	c.order = slices.DeleteFunc(c.order, func(o *store.Object) bool { _, ok := c.values[o]; return !ok })
	c.next = 0
}

// expire empties the cache if no value has come since it last ran, and restarts the timer
// otherwise.
func (c *handlerCache) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.used && !c.closed {
		c.used = false
		c.timer.Reset(handlerCacheIdle)
		return
	}
	c.reset()
}

func (c *handlerCache) reset() {
	c.values, c.order, c.next, c.bytes, c.timer = map[*store.Object]any{}, nil, 0, 0, nil // a map never shrinks
}

// close empties the cache for good.
func (c *handlerCache) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
	c.reset()
}
