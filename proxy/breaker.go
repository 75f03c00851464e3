package proxy

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// breaker knows whether the upstream can be reached, from the questions that it is asked. While it
// cannot, one question at a time tries, and whoever has an answer from before does not wait for
// another: an upstream that swallows what it is sent would make each read take as long as a
// question may. Safe for concurrent use.
type breaker struct {
	// probe asks the upstream for its version, or relies on an answer to somebody who asked after
	// begun, and reports whether there was any HTTP answer.
	probe    func(ctx context.Context, begun time.Time) bool
	down     atomic.Bool // its version was asked for last, and nothing was answered
	pending  atomic.Int32
	answered atomic.Uint64 // HTTP answers of any kind
}

// versionPath ends the path of the question that shows an outage. Others may stay without an answer
// though the upstream can be reached: behind a review may be a webhook.
const versionPath = "/version"

// open reports that a question would only wait.
func (b *breaker) open() bool { return b.down.Load() && b.pending.Load() > 0 }

// begin returns what a review that fails later is compared with.
func (b *breaker) begin() reviewAttempt { return reviewAttempt{b, time.Now(), b.answered.Load()} }

// reviewAttempt is the beginning of a review.
type reviewAttempt struct {
	breaker *breaker
	begun   time.Time
	answers uint64
}

// classify returns what it means that the review ended with err: no, unreached or refused. What the
// upstream does not answer while it answers others is refused, and so is what the caller did not
// wait for: nobody can make an outage for themselves.
func (a reviewAttempt) classify(ctx context.Context, err error) decision {
	switch {
	case errors.Is(ctx.Err(), context.Canceled) || hasStatus(err):
		return decisionUnanswered
	case !isNetworkError(err):
		return decisionDeny
	case a.breaker.answered.Load() != a.answers || a.breaker.probe(ctx, a.begun):
		return decisionUnanswered
	}
	return decisionUnreachable
}

// wrap watches the questions that go through a transport.
func (b *breaker) wrap(rt http.RoundTripper) http.RoundTripper { return &breakerTransport{b, rt} }

type breakerTransport struct {
	breaker *breaker
	http.RoundTripper
}

// RoundTrip is http.RoundTripper's. It hides a Retry-After of the answer: client-go would heed it
// itself, up to ten times, until the review's time is up, and a server that refuses would look like
// one that cannot be reached.
func (q *breakerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	q.breaker.pending.Add(1)
	defer q.breaker.pending.Add(-1)
	resp, err := q.RoundTripper.RoundTrip(r)
	switch {
	case err == nil:
		q.breaker.answered.Add(1)
		q.breaker.down.Store(false)
		resp.Header.Del("Retry-After")
	case strings.HasSuffix(r.URL.Path, versionPath) && !errors.Is(err, context.Canceled): // which says nothing of the upstream
		q.breaker.down.Store(true)
	}
	return resp, err
}

// WrappedRoundTripper returns how those look through it who close idle connections.
func (q *breakerTransport) WrappedRoundTripper() http.RoundTripper { return q.RoundTripper }
