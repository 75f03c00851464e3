package delivery

import (
	"sync/atomic"
	"time"

	"github.com/weirproject/weir/internal/core/store"
)

// Stats are the counters of one handler.
type Stats struct {
	Handled uint64 // calls of the handler, resyncs included
	Panics  uint64 // panics of the handler and its filter
	// Panicked is the time of the last panic. It is zero if there was none.
	Panicked time.Time
	Lag      uint64 // changes that the handler has not received yet
	Pending  int    // entries in the backlog of the handler's cursor
	// Busy is how long the handler's current call has lasted. It is 0 outside a call.
	Busy time.Duration
	// Doing is the type of the event in the current call, and Key its object's key. They are zero
	// outside a call.
	Doing store.ChangeType
	Key   string
	// Longest is the longest call that ended within the last five to ten minutes, or the current one
	// if that is longer. Spent is the time in all calls together, the current one included.
	Longest, Spent time.Duration
	// Resync is the period of the resync sweep, or 0 without one. Swept is the completed part of
	// the current round, from 0 to 1. It is approximate, because objects are added and deleted
	// during the round.
	Resync time.Duration
	Swept  float64
}

// Stats returns the counters. It may be called at any time.
func (r *Registration) Stats() Stats {
	s := Stats{
		Handled: r.handled.Load(), Panics: r.panics.Load(), Lag: r.cursor.Lag(), Pending: r.cursor.Pending(),
		Longest: r.calls.longestRecent(), Spent: time.Duration(r.calls.spent.Load()),
		Resync: r.sweep.period, Swept: r.sweep.swept(),
	}
	if at := r.panicked.Load(); at != nil {
		s.Panicked = *at
	}
	busy, doing, object := r.calls.current()
	if object == nil {
		return s
	}
	s.Busy, s.Doing, s.Key = busy, doing, object.Key()
	s.Longest, s.Spent = max(s.Longest, s.Busy), s.Spent+s.Busy
	return s
}

// calls measures the calls of one handler, which do not overlap. Stats may read them during a call.
// Times are durations since base, because time.Since reads one clock and time.Now reads two.
type calls struct {
	base    time.Time
	began   atomic.Int64 // the time of the start of the current call plus one nanosecond; 0: no call
	doing   atomic.Uint32
	object  atomic.Pointer[store.Object] // of the current call
	spent   atomic.Int64                 // nanoseconds in calls that have ended
	longest [2]atomic.Uint64             // the longest call in each of two windows, see pack
}

// longestWindow is the length of a window. Stats reports the longest call that ended in the current
// window or in the window before it.
const longestWindow = 5 * time.Minute

// begin records the start of a call and returns its time.
func (c *calls) begin(change *store.Change) time.Duration {
	now := time.Since(c.base)
	c.doing.Store(uint32(change.Type()))
	c.object.Store(change.Object())
	c.began.Store(int64(now) + 1)
	return now
}

// end records the end of the call that started at the given time.
func (c *calls) end(began time.Duration) {
	now := time.Since(c.base)
	took := now - began
	c.began.Store(0)
	c.object.Store(nil)
	c.spent.Add(int64(took))
	window := windowOf(now)
	slot := &c.longest[window%2]
	if held, longest := unpack(slot.Load()); held != window || took > longest {
		slot.Store(pack(window, took))
	}
}

// current returns how long the current call has lasted, and its event type and object. object is
// nil outside a call.
func (c *calls) current() (lasted time.Duration, doing store.ChangeType, object *store.Object) {
	object, began := c.object.Load(), c.began.Load()
	if object == nil || began == 0 {
		return 0, 0, nil
	}
	return time.Since(c.base) - time.Duration(began-1), store.ChangeType(c.doing.Load()), object
}

// longestRecent returns the longest call that ended in the current window or in the window before
// it.
func (c *calls) longestRecent() (longest time.Duration) {
	window := windowOf(time.Since(c.base))
	for i := range c.longest {
		if held, took := unpack(c.longest[i].Load()); held+1 >= window {
			longest = max(longest, took)
		}
	}
	return longest
}

func windowOf(since time.Duration) uint64 { return uint64(since / longestWindow) }

// windowBits is the number of bits of a window's number, enough for the windows of 159 years. The
// other bits of the word contain a duration of up to 12 days, in microseconds.
const windowBits = 24

// pack packs the number of a window and a duration into one word, so that a reader loads both in
// one operation.
func pack(window uint64, d time.Duration) uint64 {
	const maxMicros = 1<<(64-windowBits) - 1
	return window<<(64-windowBits) | min(uint64(max(d, 0)/time.Microsecond), maxMicros)
}

func unpack(word uint64) (window uint64, d time.Duration) {
	return word >> (64 - windowBits), time.Duration(word<<windowBits>>windowBits) * time.Microsecond
}
