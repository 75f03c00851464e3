package review

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// Breaker tracks whether the upstream can be reached, by the proxy's own requests. While it is
// open, one request at a time probes the upstream; callers with a cached answer use that at once.
// Otherwise an upstream that drops packets would delay each read by a full timeout. It is safe for
// concurrent use.
type Breaker struct {
	// probe requests the upstream's version, or uses the answer of a request that began after
	// begun. It reports whether there was any HTTP answer.
	Probe    func(ctx context.Context, begun time.Time) bool
	down     atomic.Bool // the last request for the version had no answer
	pending  atomic.Int32
	answered atomic.Uint64 // HTTP answers of any kind
}

// VersionPath is the suffix of the probe's path. Other requests do not open the breaker: a review
// may hang in a webhook although the upstream answers.
const VersionPath = "/version"

// open reports whether another request would only wait.
func (b *Breaker) open() bool { return b.down.Load() && b.pending.Load() > 0 }

// begin returns the state that a failed review is compared with.
func (b *Breaker) begin() reviewAttempt { return reviewAttempt{b, time.Now(), b.answered.Load()} }

// reviewAttempt is a review in progress.
type reviewAttempt struct {
	breaker *Breaker
	begun   time.Time
	answers uint64
}

// classify returns the decision for a review that failed with err: Unreachable or
// Unanswered. A review that fails while the upstream answers others is unanswered, and so
// is one that its caller has cancelled, and one whose answer cannot be read. No caller can open the
// breaker for itself.
func (a reviewAttempt) classify(ctx context.Context, err error) Decision {
	switch {
	case errors.Is(ctx.Err(), context.Canceled) || HasStatus(err) || !isNetworkError(err):
		return Unanswered
	case a.breaker.answered.Load() != a.answers || a.breaker.Probe(ctx, a.begun):
		return Unanswered
	}
	return Unreachable
}

// Wrap adds the breaker to a transport.
func (b *Breaker) Wrap(rt http.RoundTripper) http.RoundTripper { return &breakerTransport{b, rt} }

type breakerTransport struct {
	breaker *Breaker
	http.RoundTripper
}

// RoundTrip sends a request and records the outcome. It removes Retry-After from the answer:
// client-go would heed it up to ten times within the review's timeout, and a server that rejects
// would look unreachable.
func (q *breakerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	q.breaker.pending.Add(1)
	defer q.breaker.pending.Add(-1)
	resp, err := q.RoundTripper.RoundTrip(r)
	switch {
	case err == nil:
		q.breaker.answered.Add(1)
		q.breaker.down.Store(false)
		resp.Header.Del("Retry-After")
	case strings.HasSuffix(r.URL.Path, VersionPath) && !errors.Is(err, context.Canceled):
		// A cancelled request says nothing.
		q.breaker.down.Store(true)
	}
	return resp, err
}

// WrappedRoundTripper returns the wrapped transport, for closing idle connections.
func (q *breakerTransport) WrappedRoundTripper() http.RoundTripper { return q.RoundTripper }
