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
func (s *handlerCache) get(o *store.Object) (any, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, ok := s.values[o]
	return value, ok
}

// has reports whether the value of a version is cached.
func (s *handlerCache) has(o *store.Object) bool {
	_, ok := s.get(o)
	return ok
}

// take returns the value of a version and removes it.
func (s *handlerCache) take(o *store.Object) (any, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, ok := s.values[o]
	if ok {
		delete(s.values, o)
		s.bytes -= valueFactor * int64(o.Size())
	}
	return value, ok
}

// getOrPut returns the cached value of a version, or caches value and returns it.
func (s *handlerCache) getOrPut(o *store.Object, value any) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first, ok := s.values[o]; ok || s.closed {
		if ok {
			return first
		}
		return value
	}
	s.values[o], s.order, s.used = value, append(s.order, o), true
	for s.bytes += valueFactor * int64(o.Size()); s.bytes > s.budget; {
		s.evictOldest()
	}
	s.compact()
	if s.timer == nil {
		s.timer = time.AfterFunc(handlerCacheIdle, s.expire)
	}
	return value
}

func (s *handlerCache) evictOldest() {
	oldest := s.order[s.next]
	s.order[s.next] = nil
	s.next++
	if _, ok := s.values[oldest]; ok { // not taken
		delete(s.values, oldest)
		s.bytes -= valueFactor * int64(oldest.Size())
	}
}

// compact bounds the length of order by what is cached, so that it does not pin versions that were
// taken.
func (s *handlerCache) compact() {
	if len(s.order) < 2*len(s.values)+64 {
		return
	}
	s.order = slices.DeleteFunc(s.order, func(o *store.Object) bool { _, ok := s.values[o]; return !ok })
	s.next = 0
}

// expire empties the cache if no value has come since it last ran, and restarts the timer
// otherwise.
func (s *handlerCache) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used && !s.closed {
		s.used = false
		s.timer.Reset(handlerCacheIdle)
		return
	}
	s.reset()
}

func (s *handlerCache) reset() {
	s.values, s.order, s.next, s.bytes, s.timer = map[*store.Object]any{}, nil, 0, 0, nil // a map never shrinks
}

// close empties the cache for good.
func (s *handlerCache) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.reset()
}
