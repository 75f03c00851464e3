package proxy

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// outage knows whether the upstream can be reached, from the questions that it is asked. While it cannot, one question at a time tries, and
// whoever has an answer from before does not wait for another: an upstream that swallows what it is sent would make each read take as long
// as a question may. Safe for concurrent use.
type outage struct {
	// reached asks the upstream for its version, or relies on an answer to somebody who asked after begun, and reports whether there was
	// any HTTP answer.
	reached func(ctx context.Context, begun time.Time) bool
	down    atomic.Bool // its version was asked for last, and nothing was answered
	asking  atomic.Int32
	answers atomic.Uint64 // HTTP answers of any kind
}

// probePath ends the path of the question that shows an outage. Others may stay without an answer though the upstream can be reached: behind
// a review may be a webhook.
const probePath = "/version"

// on says that a question would only wait.
func (o *outage) on() bool { return o.down.Load() && o.asking.Load() > 0 }

// begin returns what a review that fails later is compared with.
func (o *outage) begin() attempt { return attempt{o, time.Now(), o.answers.Load()} }

// attempt is the beginning of a review.
type attempt struct {
	of      *outage
	begun   time.Time
	answers uint64
}

// failed returns what it means that the review ended with err: no, unreached or refused. What the upstream does not answer while it answers
// others is refused, and so is what the caller did not wait for: nobody can make an outage for themselves.
func (a attempt) failed(ctx context.Context, err error) verdict {
	switch {
	case errors.Is(ctx.Err(), context.Canceled) || hasStatus(err):
		return refused
	case !unreachable(err):
		return no
	case a.of.answers.Load() != a.answers || a.of.reached(ctx, a.begun):
		return refused
	}
	return unreached
}

// wrap watches the questions that go through a transport.
func (o *outage) wrap(rt http.RoundTripper) http.RoundTripper { return &question{o, rt} }

type question struct {
	of *outage
	http.RoundTripper
}

// RoundTrip is http.RoundTripper's. It hides a Retry-After of the answer: client-go would heed it itself, up to ten times, until the review's
// time is up, and a server that refuses would look like one that cannot be reached.
func (q *question) RoundTrip(r *http.Request) (*http.Response, error) {
	q.of.asking.Add(1)
	defer q.of.asking.Add(-1)
	resp, err := q.RoundTripper.RoundTrip(r)
	switch {
	case err == nil:
		q.of.answers.Add(1)
		q.of.down.Store(false)
		resp.Header.Del("Retry-After")
	case strings.HasSuffix(r.URL.Path, probePath) && !errors.Is(err, context.Canceled): // which says nothing of the upstream
		q.of.down.Store(true)
	}
	return resp, err
}

// WrappedRoundTripper is how those look through it who close idle connections.
func (q *question) WrappedRoundTripper() http.RoundTripper { return q.RoundTripper }
