package proxy

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
)

// outage knows whether the upstream can be asked about callers, from the questions that are asked. While it cannot, one question at a time
// tries, and whoever has an answer from before does not wait for another: an upstream that swallows what it is sent would make each read
// take as long as a question may. Safe for concurrent use.
type outage struct {
	down   atomic.Bool
	asking atomic.Int32
}

// on says that a question would only wait.
func (o *outage) on() bool { return o.down.Load() && o.asking.Load() > 0 }

// wrap watches the questions that go through a transport.
func (o *outage) wrap(rt http.RoundTripper) http.RoundTripper { return &question{o, rt} }

type question struct {
	of *outage
	http.RoundTripper
}

// RoundTrip is http.RoundTripper's.
func (q *question) RoundTrip(r *http.Request) (*http.Response, error) {
	q.of.asking.Add(1)
	defer q.of.asking.Add(-1)
	resp, err := q.RoundTripper.RoundTrip(r)
	if !errors.Is(err, context.Canceled) { // which says nothing of the upstream
		q.of.down.Store(err != nil)
	}
	return resp, err
}

// WrappedRoundTripper is how those look through it who close idle connections.
func (q *question) WrappedRoundTripper() http.RoundTripper { return q.RoundTripper }
