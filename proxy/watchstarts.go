package proxy

import (
	"context"
	"sync"
	"time"
)

// maxWatchStarts bounds the WATCHes that are being sent the state with which they begin, which
// takes as much time of the CPUs as a LIST. One caller has 35 % of them at most. They are
// fewer than the seats of reads, since all that wait for one are served soon: a client that takes
// its state slowly has no seat for long.
const maxWatchStarts = 128

// newWatchStarts returns the seats of WATCHes that begin. All that there may be can wait for one,
// since they are counted, with what their waiting takes: after a restart of another replica a herd
// of them comes at once.
func newWatchStarts(o *Options) *seatPool {
	s := newSeatPool(maxWatchStarts, o.timeouts.start)
	s.setPlaces(o.MaxLongRunning)
	return s
}

// acquireStart takes the seat of a WATCH that begins with the state, and reports whether it has
// one. The caller must release it. It is released earlier if the client does not take the state in
// time, so that slow clients do not hold up others.
func (s *Server) acquireStart(ctx context.Context, rq *servedRead) (release func(), ok bool) {
	if !sendsState(rq.Request) {
		return func() {}, true
	}
	in, f := s.flowControl.watchStarts, reviewFlow(rq.who)
	if !in.acquire(ctx, f) {
		return nil, false
	}
	once := sync.OnceFunc(func() { in.release(f) })
	timer := time.AfterFunc(s.opts.timeouts.hold, once)
	return func() {
		timer.Stop()
		once()
	}, true
}
