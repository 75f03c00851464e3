package review

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"golang.org/x/net/http2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// Decision is the result of authenticating or authorizing a caller. Only Allow and Grace permit the
// request.
type Decision int

const (
	// Deny means that the upstream said no. It is the zero value.
	Deny Decision = iota
	// Allow means that the upstream said yes, within the TTL of the answer.
	Allow
	// Grace means that the upstream cannot be reached. Its last answer was yes, and is not older than
	// the grace period.
	Grace
	// Unreachable means that the upstream cannot be reached, and no earlier answer may be used.
	Unreachable
	// Unanswered means that the upstream can be reached but did not answer the review. That does not
	// show whether the caller is allowed.
	Unanswered
	// Overloaded means that the proxy did not ask the upstream, because too many reviews of this
	// caller, or of unknown callers, are in progress.
	Overloaded
)

// Options control how a caller is reviewed. The zero value is for all requests but reads and
// watches.
type Options struct {
	// Grace is the maximum age of the last answer that may be used while the upstream cannot be
	// reached. 0 or less: no earlier answer is used.
	Grace time.Duration
	// uncached asks the upstream even if an answer is cached. It is for callers that were admitted
	// before, so the review does not count against the bound on reviews (seats.Seats.Reviews).
	uncached bool
}

// retryAfterSeconds is the Retry-After for a caller that got no decision.
const retryAfterSeconds = 1

// Err returns the error for a caller that got no decision. It returns nil for Allow, Grace and
// Deny.
func (d Decision) Err() error {
	switch d {
	case Unreachable:
		return Unavailable("the upstream API server does not respond")
	case Unanswered:
		return Unavailable("the upstream API server does not answer reviews of callers")
	case Overloaded:
		return apierrors.NewTooManyRequests("Too many reviews of callers, please try again later.", retryAfterSeconds)
	}
	return nil
}

// Unavailable returns a 503 with Retry-After.
func Unavailable(why string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable, Message: why,
		Details: &metav1.StatusDetails{RetryAfterSeconds: retryAfterSeconds},
	}}
}

// HasStatus reports whether err contains a Status that the upstream answered.
func HasStatus(err error) bool {
	return contains(err, func(err error) bool {
		_, ok := errors.AsType[*apierrors.StatusError](err)
		return ok
	})
}

// isNetworkError reports whether err contains a network error, or the error of a request that timed
// out or was canceled.
func isNetworkError(err error) bool {
	return contains(err, func(err error) bool {
		_, ofURL := errors.AsType[*url.Error](err)
		_, ofNet := errors.AsType[net.Error](err)
		return ofURL || ofNet || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	})
}

// isCutOff reports whether err contains the error of an answer that ended too early.
func isCutOff(err error) bool {
	return contains(err, func(err error) bool {
		_, ofStream := errors.AsType[http2.StreamError](err)
		_, ofConnection := errors.AsType[http2.GoAwayError](err)
		return ofStream || ofConnection || errors.Is(err, io.ErrUnexpectedEOF)
	})
}

// contains calls the given function (is) with err, or with each error in err if err is an
// aggregate. It reports whether a call has returned true. errors.As does not look into aggregates.
func contains(err error, is func(error) bool) bool {
	if all, ok := errors.AsType[utilerrors.Aggregate](err); ok {
		return slices.ContainsFunc(all.Errors(), func(e error) bool { return contains(e, is) })
	}
	return is(err)
}
