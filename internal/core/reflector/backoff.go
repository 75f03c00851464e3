package reflector

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// maxRetryAfter is the maximum delay of the next request because of a Retry-After.
	maxRetryAfter = 2 * time.Minute
	// serverBehindDelay is the wait after ErrServerBehind if the response has no Retry-After.
	// kube-apiserver sends the same value as its Retry-After.
	serverBehindDelay = time.Second
)

// delay returns how long to wait before the next try, depending on the failure. attempt counts from
// 1, and jitter is random in [0, 1).
//
//	sentinel                                      wait
//	ErrUnauthorized, ErrForbidden, ErrUnknown…    Backoff, at most Denied: an administrator may correct the cause soon
//	ErrServerBehind                               1 s, or the server's Retry-After
//	ErrMethodNotAllowed                           Backoff, and up to twice as long, as in client-go: a retry hardly helps
//	ErrUnreachable; ErrServer within 1 s          Backoff, in the first half minute at most its second wait (backoffAttempt)
//	anything else                                 Backoff; failures of the line above do not lengthen it
//	any, with Retry-After                         at least Retry-After, at most maxRetryAfter, and up to a tenth more
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

// jittered returns a wait between d/2 and d.
func jittered(d time.Duration, jitter float64) time.Duration {
	return time.Duration(float64(d) * (0.5 + 0.5*jitter))
}

// putOff returns how long to wait before the next request because of a Retry-After: that time, at
// most maxRetryAfter, plus up to a tenth of it. The addition is random, so that clients do not all
// return at the same time.
func putOff(retryAfter time.Duration, jitter float64) time.Duration {
	retryAfter = min(retryAfter, maxRetryAfter)
	return retryAfter + time.Duration(float64(retryAfter)*0.1*jitter)
}

// retryAfterOf returns the Retry-After of a failed request, or 0.
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
