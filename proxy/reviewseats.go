package proxy

import (
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
)

const (
	// maxReviews bounds the concurrent reviews of callers. A known caller has 35 % of them at most, so
	// that one whose thousand watches begin at once leaves some to others; and new tokens have half.
	maxReviews = 160
	// maxQueuedReviews bounds the requests of a level that wait for such a review. Each of them has
	// a seat, or counts as long-running. After a start a herd of watches waits for the same few.
	maxQueuedReviews = 4096
)

// newReviewSeats returns the seats of reviews. A request waits for one no
// longer than for the review itself: while the upstream is silent, those in progress then open the
// breaker.
func newReviewSeats(wait time.Duration) *seatPool {
	s := newSeatPool(maxReviews, wait)
	s.setPlaces(maxQueuedReviews)
	return s
}

// reviewFlow returns the flow of the reviews of a caller.
func reviewFlow(who user.Info) flow {
	f := flow{level: levelEveryone, caller: userKey(who)}
	if isSystem(who) {
		f.level = levelSystem
	}
	return f
}
