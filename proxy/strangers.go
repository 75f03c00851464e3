package proxy

import (
	"context"
	"time"
)

// strangers bounds the reviews of tokens that are not known, so that a flood of them leaves the upstream and its answers to others. The
// zero value lets nobody in; use newStrangers. Safe for concurrent use.
type strangers struct {
	places chan struct{} // one for each token that is being asked about or waits for that
	seats  chan struct{} // one for each token that is being asked about
}

const (
	// maxStrangers bounds the TokenReviews of unknown tokens that are under way at once, and maxStrangersWaiting the requests that wait
	// for one of these.
	maxStrangers        = 32
	maxStrangersWaiting = 224
	// strangersWait is how long a request waits for a seat.
	strangersWait = time.Second
)

func newStrangers() *strangers {
	return &strangers{places: make(chan struct{}, maxStrangers+maxStrangersWaiting), seats: make(chan struct{}, maxStrangers)}
}

// enter takes a seat and reports whether it has one. It waits for one no longer than strangersWait or ctx, and not at all where too many
// wait already. Who has a seat must leave.
func (s *strangers) enter(ctx context.Context) bool {
	select {
	case s.places <- struct{}{}:
	default:
		return false
	}
	timer := time.NewTimer(strangersWait)
	defer timer.Stop()
	select {
	case s.seats <- struct{}{}:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	<-s.places
	return false
}

// leave gives the seat back.
func (s *strangers) leave() {
	<-s.seats
	<-s.places
}
