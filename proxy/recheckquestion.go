package proxy

import (
	"container/list"
	"crypto/sha256"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
)

// maxRefusals is how many times in a row a question may be refused by an upstream that can be
// reached. At the last of them its watches end.
const maxRefusals = 3

// answerHistory is what the answers to one question have led to.
type answerHistory struct {
	confirmed    time.Time // of the last yes; zero: there was none
	denied       bool      // a no came after the last yes
	refusals     int       // in a row, since the last yes
	firstRefusal time.Time // of the first of these
}

// stillAllowed notes a verdict and reports whether watches may go on by it. A no counts when a
// second one comes before a yes. Without an answer they go on for grace after the last yes, or the
// caller's last yes that is remembered, if the upstream cannot be reached; and if it can, for
// maxRefusals, and for no longer than most after the first of these.
func (c *answerHistory) stillAllowed(d decision, now time.Time, grace, most time.Duration) bool {
	switch d {
	case decisionAllow:
		c.confirmed, c.denied, c.refusals = now, false, 0
	case decisionGrace:
	case decisionUnreachable:
		return now.Sub(c.confirmed) < grace
	case decisionDeny:
		again := c.denied
		c.denied = true
		return !again
	default:
		if c.refusals == 0 {
			c.firstRefusal = now
		}
		c.refusals++
		return c.refusals < maxRefusals && now.Sub(c.firstRefusal) < most
	}
	return true
}

type questionID [sha256.Size]byte

// credential is a caller as the questions know it.
type credential struct {
	id    [sha256.Size]byte // of the token, or of the certificate
	token bool
	r     *http.Request // with what the caller shows; nil in tests
}

// recheckQuestion is a question: whom a token is of, or whether a caller has a permission.
type recheckQuestion struct {
	id         questionID
	credential credential
	action     *action // nil: whose token it is

	// Guarded by the rechecks' lock.
	who     user.Info
	watches map[*recheckedWatch]struct{}
	list    *list.List // where it waits; nil while it is being asked
	element *list.Element
	asked   time.Time
	retryAt time.Time // of one that is doubted
	answerHistory
}

// unlist takes a question out of its list. The lock is held.
func (q *recheckQuestion) unlist() {
	if q.list != nil {
		q.list.Remove(q.element)
		q.list, q.element = nil, nil
	}
}
