package review

import (
	"context"
	"crypto/sha256"
	"net/http"
	"time"
)

const (
	// maxOwnerReviews bounds the concurrent reviews of LearnOwner.
	maxOwnerReviews = 8
	// ownerRetry is the delay before such a review of a token is repeated if it returned no user.
	ownerRetry = 10 * time.Minute
)

// ForgetOwner forgets a token that the upstream has rejected, so that LearnOwner reviews it again.
func (a *Authenticator) ForgetOwner(id [sha256.Size]byte) {
	a.tokenAnswers.remove(id)
	a.ownersAsked.Remove(id)
}

// LearnOwner reviews a token in the background that the upstream has perhaps accepted. Otherwise
// the proxy would not review the token of a request that is only forwarded, and would count its
// seats by token, of which a user may have any number. If too many reviews are in progress, the
// next request of the token starts it. run runs the review, which ends with ctx.
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
