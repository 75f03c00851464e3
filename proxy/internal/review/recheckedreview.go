package review

import (
	"container/list"
	"crypto/sha256"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/weirproject/weir/internal/core/request"
)

type reviewID [sha256.Size]byte

// recheckedReview is a review that is repeated: whose a token is, or whether a caller has a
// permission.
type recheckedReview struct {
	id         reviewID
	credential credential
	action     *request.Request // nil: whose the token is

	// The rechecker's lock guards the fields below.
	who     user.Info
	watches map[*Recheck]struct{}
	list    *list.List // where it waits; nil in progress
	element *list.Element
	asked   time.Time
	retryAt time.Time // of a review in rechecker.denied
	answerHistory
}

// unlist removes a review from its list. The caller holds the lock.
func (q *recheckedReview) unlist() {
	if q.list != nil {
		q.list.Remove(q.element)
		q.list, q.element = nil, nil
	}
}

// maxRefusals is how many times in a row a reachable upstream may leave a review unanswered
// before its watches end.
const maxRefusals = 3

// answerHistory summarizes the answers to one review.
type answerHistory struct {
	confirmed    time.Time // time of the last yes; zero: none
	denied       bool      // denied since the last yes
	refusals     int       // unanswered in a row, since the last yes
	firstRefusal time.Time // time of the first of them
}

// stillAllowed records a decision and reports whether the watches may go on. A denial counts if a
// second one comes before a yes. While the upstream cannot be reached, watches go on for grace
// after the last yes. If it can be reached and does not answer, they go on for maxRefusals answers,
// and no longer than most after the first.
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
