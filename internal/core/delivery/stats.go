package delivery

import (
	"time"

	"github.com/weirproject/weir/internal/core/store"
)

// Stats are the counters of one handler.
type Stats struct {
	Handled uint64 // calls of the handler, resyncs included
	Panics  uint64 // panics of the handler and its filter
	Lag     uint64 // changes that the handler has not received yet
	Pending int    // keys in the backlog of the handler, which lags behind the change log
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
	busy, doing, object := r.calls.current()
	if object == nil {
		return s
	}
	s.Busy, s.Doing, s.Key = busy, doing, object.Key()
	s.Longest, s.Spent = max(s.Longest, s.Busy), s.Spent+s.Busy
	return s
}
