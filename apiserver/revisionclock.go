package apiserver

import (
	"context"
	"slices"
	"sync"
)

// revisionClock counts resourceVersions; every write uses the next one. The zero value is at 0. It
// is safe for concurrent use.
type revisionClock struct {
	mu      sync.RWMutex
	now     uint64
	waiters []*waiter // one for each waiting request
}

type waiter struct {
	until uint64
	done  chan struct{} // closed when now reaches until
}

// advance calls write with the next resourceVersion. Observe sees the write and the counter change
// in one step. If write fails, it must have changed nothing, and the counter stays.
func (c *revisionClock) advance(write func(resourceVersion uint64) error) error {
	return c.advanceBy(1, write)
}

// advanceBy reserves n resourceVersions, and calls write with the last.
func (c *revisionClock) advanceBy(n uint64, write func(resourceVersion uint64) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := write(c.now + n); err != nil {
		return err
	}
	c.now += n
	c.waiters = slices.DeleteFunc(c.waiters, func(w *waiter) bool {
		if w.until > c.now {
			return false
		}
		close(w.done)
		return true
	})
	return nil
}

// Observe implements watchcache.Clock.
func (c *revisionClock) Observe(f func(resourceVersion uint64)) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	f(c.now)
}

// Wait implements watchcache.Clock.
func (c *revisionClock) Wait(ctx context.Context, resourceVersion uint64) error {
	c.mu.Lock()
	if c.now >= resourceVersion {
		c.mu.Unlock()
		return nil
	}
	w := &waiter{until: resourceVersion, done: make(chan struct{})}
	c.waiters = append(c.waiters, w)
	c.mu.Unlock()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiters = slices.DeleteFunc(c.waiters, func(other *waiter) bool { return other == w })
	return ctx.Err()
}
