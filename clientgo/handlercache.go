package clientgo

import (
	"slices"
	"sync"
	"time"

	"github.com/weirproject/weir/internal/store"
)

// handed keeps values for handlers that are about to be handed them: what a transform returned, and what one of several handlers was handed
// of the initial list, or of a resync, until the others have come by. It holds the newest values, no more than budget, and lets go of all
// once none has come for handedIdle. A handler that lags further behind decodes for itself, and for those behind it. Safe for concurrent
// use.
type handlerCache struct {
	budget int64 // bytes, estimated

	mu     sync.Mutex
	values map[*store.Object]any
	order  []*store.Object // the oldest first, from next on; some may have been taken
	next   int
	bytes  int64
	used   bool        // since the last sweep
	timer  *time.Timer // runs while there are values
	closed bool
}

// handedBudget is the budget where Options.DecodedBudget says none: some 500 pods, which handlers may be apart.
const handlerCacheBudget = 8 << 20

// handedIdle is how long handlers that share what they are handed may be apart.
const handlerCacheIdle = time.Second

func newHandlerCache(budget int64) *handlerCache {
	if budget == 0 {
		budget = handlerCacheBudget
	}
	return &handlerCache{budget: budget, values: map[*store.Object]any{}}
}

func (s *handlerCache) get(o *store.Object) (any, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, ok := s.values[o]
	return value, ok
}

// has reports whether a value is kept.
func (s *handlerCache) has(o *store.Object) bool {
	_, ok := s.get(o)
	return ok
}

// take is get for the only handler: it drops the value.
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

// share keeps the value of a version, and returns it: or that of another handler that was faster.
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

// tidy keeps the order from growing beyond what is held: it must not hold on to versions that were taken.
func (s *handlerCache) compact() {
	if len(s.order) < 2*len(s.values)+64 {
		return
	}
	s.order = slices.DeleteFunc(s.order, func(o *store.Object) bool { _, ok := s.values[o]; return !ok })
	s.next = 0
}

// sweep lets go of everything if nothing has come since the last time, and else comes again.
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
	s.values, s.order, s.next, s.bytes, s.timer = map[*store.Object]any{}, nil, 0, 0, nil // a map keeps its room
}

// close lets go of everything, for good.
func (s *handlerCache) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.reset()
}
