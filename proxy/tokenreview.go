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

// reviewLimiter bounds the reviews of tokens that are not known, so that a flood of them leaves the
// upstream and its answers to others. The zero value lets nobody in; use newReviewLimiter. Safe for
// concurrent use.
type reviewLimiter struct {
	waiting chan struct{} // one for each token that is being asked about or waits for that
	running chan struct{} // one for each token that is being asked about
}

const (
	// maxUnknownReviews bounds the TokenReviews of unknown tokens that are under way at once, and
	// maxWaitingReviews the requests that wait for one of these.
	maxUnknownReviews = 32
	maxWaitingReviews = 224
	// reviewWait is how long a request waits for a seat.
	reviewWait = time.Second
)

func newReviewLimiter() *reviewLimiter {
	return &reviewLimiter{waiting: make(chan struct{}, maxUnknownReviews+maxWaitingReviews), running: make(chan struct{}, maxUnknownReviews)}
}

// acquire takes a seat and reports whether it has one. It waits for one no longer than reviewWait
// or ctx, and not at all where too many wait already. Who has a seat must leave.
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

// release gives the seat back.
func (l *reviewLimiter) release() {
	<-l.running
	<-l.waiting
}

// review asks the upstream whose token it is.
func (a *authentication) review(r *http.Request, id [sha256.Size]byte, opts reviewOptions) (*caller, decision) {
	if _, met := a.tokenAnswers.Get(id); !met && !opts.uncached {
		if !a.reviewLimit.acquire(r.Context()) {
			return nil, decisionOverloaded
		}
		defer a.reviewLimit.release()
	}
	tokens := a.tokens
	if opts.uncached {
		tokens = a.uncachedTokens
	}
	begun := a.breaker.begin()
	resp, ok, err := tokens.AuthenticateRequest(cloneHeaders(r))
	d := decisionDeny
	switch {
	case err != nil:
		d = begun.classify(r.Context(), err)
	case ok:
		a.tokenAnswers.Add(id, cachedAnswer{resp.User, time.Now()})
		return &caller{user: resp.User}, decisionAllow
	}
	if d == decisionDeny {
		a.tokenAnswers.Remove(id)
	}
	return nil, d
}

// answerWithin returns whom a token was last said to be of, if that was not longer ago.
func (a *authentication) answerWithin(id [sha256.Size]byte, within time.Duration) (user.Info, bool) {
	last, ok := a.tokenAnswers.Get(id)
	if !ok || time.Since(last.(cachedAnswer).at) >= within {
		return nil, false
	}
	return last.(cachedAnswer).user, true
}

const webSocketToken = "base64url.bearer.authorization.k8s.io."

// tokenID stands for the token of a request. It is zero for one that has none in any of the two
// places where kube-apiserver looks for it: an Authorization header that says bearer, or, in a
// request for a web socket, one of its protocols.
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
	return sha256.Sum256([]byte(auth + "\n" + protocols)) // no header has a line's end
}
