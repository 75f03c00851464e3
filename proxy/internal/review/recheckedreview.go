package review

import (
	"container/list"
	"crypto/sha256"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/weirproject/weir/internal/core/request"
)

type reviewID [sha256.Size]byte

// recheckedReview is a review that the Rechecker repeats: of the user of a token, or of a
// permission of a caller.
type recheckedReview struct {
	id         reviewID
	credential credential
	action     *request.Request // nil: the review is of a token

	// The rechecker's lock guards the fields below.
	who     user.Info
	watches map[*Recheck]struct{}
	list    *list.List // the list in which the review waits; nil: the review is in progress
	element *list.Element
	asked   time.Time
	retryAt time.Time // for a review in rechecker.denied
	answerHistory
}

// unlist removes a review from its list. The caller holds the lock.
func (q *recheckedReview) unlist() {
	if q.list != nil {
		q.list.Remove(q.element)
		q.list, q.element = nil, nil
	}
}

// maxRefusals is how many times in a row a reachable upstream may fail to answer a review. After
// that many failures, the watches that depend on the review end.
const maxRefusals = 3

// answerHistory summarizes the answers to one review.
type answerHistory struct {
	confirmed time.Time // time of the last positive answer; zero: there was none
	denied    bool      // denied since the last positive answer
	// refusals is how many reviews a reachable upstream has not answered since the last positive
	// answer.
	refusals     int
	firstRefusal time.Time // time of the first of the refusals
}

// stillAllowed records a decision, and reports whether the watches may continue. After one denial
// they continue. After a second denial without a positive answer in between, they do not. While the
// upstream cannot be reached, watches continue for the grace period after the last positive answer.
// If a reachable upstream does not answer, watches end after maxRefusals unanswered reviews in a
// row. They end earlier if the first of these reviews is longer ago than the maximum time (most).
func (c *answerHistory) stillAllowed(d Decision, now time.Time, grace, most time.Duration) bool {
	switch d {
	case Allow:
		c.confirmed, c.denied, c.refusals = now, false, 0
	case Grace:
	case Unreachable:
		return now.Sub(c.confirmed) < grace
	case Deny:
		deniedBefore := c.denied
		c.denied = true
		return !deniedBefore
	default:
		if c.refusals == 0 {
			c.firstRefusal = now
		}
		c.refusals++
		return c.refusals < maxRefusals && now.Sub(c.firstRefusal) < most
	}
	return true
}
