package proxy

import (
	"context"
	"crypto/sha256"
	"net/http"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// reviewLimiter bounds the TokenReviews of unknown tokens, so that a flood of them leaves the
// upstream to others. Use newReviewLimiter: the zero value admits nobody. It is safe for concurrent
// use.
type reviewLimiter struct {
	waiting chan struct{} // one element for each review that waits or runs
	running chan struct{} // one element for each review that runs
}

const (
	// maxUnknownReviews bounds the concurrent TokenReviews of unknown tokens, and maxWaitingReviews
	// the requests that wait for one.
	maxUnknownReviews = 32
	maxWaitingReviews = 224
	// reviewWait is how long a request waits for a review.
	reviewWait = time.Second
)

func newReviewLimiter() *reviewLimiter {
	return &reviewLimiter{waiting: make(chan struct{}, maxUnknownReviews+maxWaitingReviews), running: make(chan struct{}, maxUnknownReviews)}
}

// acquire reports whether a review may run. It blocks for reviewWait at most, or until ctx ends,
// and not at all if too many wait. The caller must release.
func (l *reviewLimiter) acquire(ctx context.Context) bool {
	select {
	case l.waiting <- struct{}{}:
	default:
		return false
	}
	timer := time.NewTimer(reviewWait)
	defer timer.Stop()
	select {
	case l.running <- struct{}{}:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	<-l.waiting
	return false
}

// release ends a review.
func (l *reviewLimiter) release() {
	<-l.running
	<-l.waiting
}

// acquireReview reports whether a token may be reviewed. It blocks while too many are. The caller
// must release.
func (a *authentication) acquireReview(ctx context.Context, id [sha256.Size]byte) (release func(), ok bool) {
	last, met := a.tokenAnswers.get(id)
	if !met {
		return a.reviewLimit.release, a.reviewLimit.acquire(ctx)
	}
	f := reviewFlow(last.user)
	return func() { a.seats.release(f) }, a.seats.acquire(ctx, f)
}

// review asks the upstream whose a token is.
func (a *authentication) review(r *http.Request, id [sha256.Size]byte, opts reviewOptions) (*caller, decision) {
	if !opts.uncached {
		release, ok := a.acquireReview(r.Context(), id)
		if ok {
			defer release()
		}
		switch _, answered := a.answerWithin(id, opts.grace); {
		case answered && a.breaker.open():
			return nil, decisionUnreachable
		case !ok:
			return nil, decisionOverloaded
		}
	}
	tokens := a.tokens
	if opts.uncached {
		tokens = a.uncachedTokens
	}
	begun := a.breaker.begin()
	resp, ok, err := tokens.AuthenticateRequest(cloneHeaders(r))
	d := decisionDeny
	switch {
	case err != nil && !saysNo(err):
		d = begun.classify(r.Context(), err)
	case err != nil:
	case ok:
		a.tokenAnswers.add(resp.User, id, cachedAnswer{user: resp.User, at: time.Now()})
		return &caller{user: resp.User}, decisionAllow
	}
	if d == decisionDeny {
		a.tokenAnswers.remove(id)
	}
	return nil, d
}

// saysNo reports whether an error is that of an answer: the library returns why a token is not
// known as an error.
func saysNo(err error) bool { return !hasStatus(err) && !isNetworkError(err) && !isCutOff(err) }

// answerWithin returns the cached user of a token, if the answer is not older than within.
func (a *authentication) answerWithin(id [sha256.Size]byte, within time.Duration) (user.Info, bool) {
	last, ok := a.tokenAnswers.get(id)
	if !ok || time.Since(last.at) >= within {
		return nil, false
	}
	return last.user, true
}

const webSocketToken = "base64url.bearer.authorization.k8s.io."

// tokenID returns a digest of the request's token. It is zero without a token. kube-apiserver looks
// for one in two places: a bearer Authorization header, or a protocol of a web socket request.
func tokenID(r *http.Request) (id [sha256.Size]byte) {
	auth, protocols := strings.TrimSpace(r.Header.Get("Authorization")), ""
	if words := strings.SplitN(auth, " ", 3); len(words) < 2 || strings.ToLower(words[0]) != "bearer" || words[1] == "" {
		auth = ""
	}
	if all := strings.Join(r.Header.Values("Sec-WebSocket-Protocol"), ","); strings.Contains(all, webSocketToken) && wsstream.IsWebSocketRequest(r) {
		protocols = all
	}
	if auth == "" && protocols == "" {
		return id
	}
	return sha256.Sum256([]byte(auth + "\n" + protocols)) // a header contains no newline
}
