package review

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// Breaker observes the proxy's own requests to detect whether the upstream can be reached. While
// the Breaker is open, the proxy does not ask about callers with a cached answer, but uses that
// answer immediately. Otherwise an upstream that drops packets would delay each read by a full
// timeout. Breaker is safe for concurrent use.
type Breaker struct {
	// Probe sends a request for the upstream's version, or uses the answer to such a request that
	// started after the given time (begun). It reports whether the upstream sent any HTTP answer.
	Probe    func(ctx context.Context, begun time.Time) bool
	down     atomic.Bool // the last request for the version got no answer
	pending  atomic.Int32
	answered atomic.Uint64 // number of HTTP answers of any kind
}

// VersionPath is the suffix of the path that Probe requests. A failure of other requests does not
// open the breaker: a review may hang in a webhook although the upstream answers.
const VersionPath = "/version"

// open reports whether the upstream does not answer, and another request already waits for its
// answer.
func (b *Breaker) open() bool { return b.down.Load() && b.pending.Load() > 0 }

// begin records, at the start of a review, the time and the number of the upstream's answers. If
// the review fails, classify checks whether the upstream has answered another request since then.
func (b *Breaker) begin() reviewAttempt { return reviewAttempt{b, time.Now(), b.answered.Load()} }

// reviewAttempt is a review in progress.
type reviewAttempt struct {
	breaker *Breaker
	begun   time.Time
	answers uint64
}

// classify returns the decision for a review that failed with err: Unreachable or Unanswered. It is
// Unanswered if the upstream answers other requests or answered this one with an error, if the
// caller has canceled the review, or if the answer cannot be read. A caller therefore cannot open
// the breaker by its own requests.
func (a reviewAttempt) classify(ctx context.Context, err error) Decision {
	switch {
	case errors.Is(ctx.Err(), context.Canceled) || HasStatus(err) || !isNetworkError(err):
		return Unanswered
	case a.breaker.answered.Load() != a.answers || a.breaker.Probe(ctx, a.begun):
		return Unanswered
	}
	return Unreachable
}

// Wrap returns a RoundTripper that reports the outcomes of requests to the breaker.
func (b *Breaker) Wrap(rt http.RoundTripper) http.RoundTripper { return &breakerTransport{b, rt} }

type breakerTransport struct {
	breaker *Breaker
	http.RoundTripper
}

// RoundTrip sends a request and records its outcome. It removes Retry-After from the answer.
// Otherwise client-go would retry up to ten times within the review's timeout, and a server that
// rejects requests would look unreachable.
func (q *breakerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	q.breaker.pending.Add(1)
	defer q.breaker.pending.Add(-1)
	resp, err := q.RoundTripper.RoundTrip(r)
	if err == nil {
		q.breaker.answered.Add(1)
		q.breaker.down.Store(false)
		resp.Header.Del("Retry-After")
	} else if strings.HasSuffix(r.URL.Path, VersionPath) && !errors.Is(err, context.Canceled) {
		// A canceled request does not show whether the upstream answers.
		q.breaker.down.Store(true)
	}
	return resp, err
}

// WrappedRoundTripper returns the wrapped transport. Kubernetes libraries use it to close idle
// connections.
func (q *breakerTransport) WrappedRoundTripper() http.RoundTripper { return q.RoundTripper }
