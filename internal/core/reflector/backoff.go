package reflector

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// maxRetryAfter bounds how long a Retry-After can delay the next request.
	maxRetryAfter = 2 * time.Minute
	// serverBehindDelay is the wait after ErrServerBehind when the answer has no Retry-After. It is
	// the Retry-After that kube-apiserver sends.
	serverBehindDelay = time.Second
)

// delay returns how long to wait before the next try. attempt counts from 1, and jitter is random
// in [0, 1).
//
//	sentinel                                      wait
//	ErrUnauthorized, ErrForbidden, ErrUnknown…    Backoff, no more than Denied: an administrator may put it right at any moment
//	ErrServerBehind                               1 s: the server says when it will be there
//	ErrMethodNotAllowed                           Backoff, prolonged at random by up to as much, as client-go's: no try will put it right
//	ErrUnreachable; ErrServer at once             Backoff, but no more than the second wait for the first half a minute (backoffAttempt)
//	anything else                                 Backoff; the tries of the line above do not count for it
//	any, with Retry-After                         at least that, no more than maxRetryAfter, and up to a tenth more
func (b Backoff) delay(sentinel error, attempt int, retryAfter time.Duration, jitter float64) time.Duration {
	limit := b.Max
	switch sentinel {
	case ErrUnauthorized, ErrForbidden, ErrUnknownResource:
		limit = min(limit, b.Denied)
	}
	d := jittered(b.base(attempt, limit), jitter)
	switch sentinel {
	case ErrServerBehind:
		d = serverBehindDelay
	case ErrMethodNotAllowed:
		d = 2 * jittered(b.base(attempt, limit), jitter)
	}
	return max(d, putOff(retryAfter, jitter))
}

// jittered returns a wait between half of d and d.
func jittered(d time.Duration, jitter float64) time.Duration {
	return time.Duration(float64(d) * (0.5 + 0.5*jitter))
}

// putOff returns how long a Retry-After delays the next request.
func putOff(retryAfter time.Duration, jitter float64) time.Duration {
	retryAfter = min(retryAfter, maxRetryAfter)
	return retryAfter + time.Duration(float64(retryAfter)*0.1*jitter)
}

// retryAfterOf returns the Retry-After of a failed request, 0 if it has none.
func retryAfterOf(err error) time.Duration {
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	return 0
}

// base returns Min, doubled for each attempt after the first, up to limit.
func (b Backoff) base(attempt int, limit time.Duration) time.Duration {
	d := b.Min
	for ; attempt > 1 && d < limit; attempt-- {
		d *= 2
	}
	return min(d, limit)
}
