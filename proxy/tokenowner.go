package proxy

import (
	"context"
	"crypto/sha256"
	"net/http"
	"time"
)

const (
	// maxOwnerReviews bounds the concurrent reviews of learnOwner.
	maxOwnerReviews = 8
	// ownerRetry is the delay before such a review of a token is repeated if it returned no user.
	ownerRetry = 10 * time.Minute
)

// forgetOwner forgets a token that the upstream has rejected, so that learnOwner reviews it again.
func (a *authentication) forgetOwner(id [sha256.Size]byte) {
	a.tokenAnswers.remove(id)
	a.ownersAsked.Remove(id)
}

// learnOwner reviews a token, in the background, that the upstream has just accepted. Otherwise the
// proxy would not review the token of a request that is only forwarded, and would count its seats
// by token, of which a user may have any number. If too many reviews are in progress, the next
// request of the token starts it. The caller is a request that is in flight.
func (s *Server) learnOwner(r *http.Request, id [sha256.Size]byte) {
	if p := slotOf(r); p != nil {
		if p.Accept(); p.Asked() {
			return
		}
	}
	s.askOwner(r, id)
}

// askOwner is learnOwner for a token that the upstream has perhaps accepted.
func (s *Server) askOwner(r *http.Request, id [sha256.Size]byte) {
	a := s.authn
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
	s.inFlight.Go(func() {
		defer func() { <-a.ownerReviews }()
		ctx, cancel := context.WithTimeout(s.closing, s.opts.timeouts.review)
		defer cancel()
		a.review(by.WithContext(ctx), id, reviewOptions{uncached: true})
	})
}
