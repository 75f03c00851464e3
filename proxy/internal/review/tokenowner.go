package review

import (
	"context"
	"crypto/sha256"
	"net/http"
	"time"
)

const (
	// maxOwnerReviews bounds the concurrent LearnOwner reviews.
	maxOwnerReviews = 8
	// ownerRetry is the minimum time between two LearnOwner reviews of a token without a user.
	ownerRetry = 10 * time.Minute
)

// ForgetOwner removes what is cached about a token that the upstream has rejected, so that
// LearnOwner reviews the token again.
func (a *Authenticator) ForgetOwner(id [sha256.Size]byte) {
	a.tokenAnswers.remove(id)
	a.ownersAsked.Remove(id)
}

// LearnOwner reviews, in the background, a token that the upstream may have accepted. Without
// LearnOwner the proxy would not review the token of a request that it only forwards. Flow control
// would then count requests by token, and a user may have any number of tokens. LearnOwner does
// nothing if the user is known, or if a review of the token started less than ownerRetry ago. It
// also does nothing if too many reviews are in progress; the next request with the token then tries
// again. LearnOwner passes the review to run, which must call it. The review ends when ctx ends.
func (a *Authenticator) LearnOwner(ctx context.Context, r *http.Request, id [sha256.Size]byte, run func(func())) {
	if _, known := a.tokenAnswers.get(id); known {
		return
	}
	if last, ok := a.ownersAsked.Get(id); ok && time.Since(last.(time.Time)) < ownerRetry {
		return
	}
	select {
	case a.ownerReviews <- struct{}{}:
	default:
		return
	}
	a.ownersAsked.Add(id, time.Now())
	by := a.credentialOf(r).r
	run(func() {
		defer func() { <-a.ownerReviews }()
		ctx, cancel := context.WithTimeout(ctx, a.timeout)
		defer cancel()
		a.review(by.WithContext(ctx), id, Options{uncached: true})
	})
}
