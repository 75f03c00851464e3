package watchcache

import (
	"runtime"
	"sync"
	"time"
)

// FlushPacer decides how long a watcher waits between two writes. Each write has a fixed cost, and
// all changes that arrive during the wait share one write. The wait grows with the number of active
// watchers, up to the limit longest. While the wait is below the limit, all active watchers
// together write at most flushesPerCPU times per second and CPU. A watcher is active if it has
// finished a write in the current window or the previous one, so a client that reads nothing delays
// no other client. The caches of one process share a pacer. It is safe for concurrent use. A nil
// FlushPacer never waits.
type FlushPacer struct {
	longest time.Duration // also the length of a window
	begun   time.Time

	mu               sync.Mutex
	window           int64 // number of the current window, from 1
	active, previous int   // active watchers of the current window, and of the one before
	share            time.Duration
}

// flushesPerCPU is the maximum number of writes per second and CPU, see FlushPacer. If each write
// contains one change, these writes use about a tenth of the CPU.
const flushesPerCPU = 2000

// NewFlushPacer returns a pacer that delays a write by at most longest. If longest is 0 or less, it
// returns nil, which never waits.
func NewFlushPacer(longest time.Duration) *FlushPacer {
	if longest <= 0 {
		return nil
	}
	return &FlushPacer{longest: longest, begun: time.Now()}
}

// flushTurn is a pacer's state for one watcher.
type flushTurn struct {
	at     time.Time // end of the last write
	window int64     // the last window that counted the watcher as active
}

// flushed records that a watcher has finished a write.
func (p *FlushPacer) flushed(t *flushTurn) {
	if p == nil {
		return
	}
	t.at = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.advance(t.at); t.window != p.window {
		t.window = p.window
		p.active++
	}
}

// wait returns how long a watcher with changes to send must wait. 0 or less: the watcher sends now.
func (p *FlushPacer) wait(t *flushTurn) time.Duration {
	if p == nil {
		return 0
	}
	now := time.Now()
	since := now.Sub(t.at)
	if since >= p.longest {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance(now)
	return min(time.Duration(max(p.active, p.previous))*p.share, p.longest) - since
}

// advance starts a new window if the current window does not contain the time now. The caller holds
// p.mu.
func (p *FlushPacer) advance(now time.Time) {
	number := int64(now.Sub(p.begun)/p.longest) + 1
	if number <= p.window { // another watcher has already started this window
		return
	}
	p.previous = 0
	if number == p.window+1 {
		p.previous = p.active
	}
	p.window, p.active = number, 0
	p.share = time.Second / time.Duration(flushesPerCPU*runtime.GOMAXPROCS(0))
}
