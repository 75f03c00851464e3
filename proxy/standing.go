package proxy

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir/internal/core/reflector"
)

// standing says how a resource is cached, or why it is not.
type standing int

const (
	// standingCurrent means that it is cached and follows the upstream. It is the zero value.
	standingCurrent standing = iota
	// standingBehind means that it is cached and does not follow the upstream at the moment.
	standingBehind
	// standingLoading means that it is being listed, or is about to be.
	standingLoading
	// standingFailing is standingLoading after the upstream has answered finalAttempts attempts with
	// an error that may pass, such as a 500 while the conversion webhook of a custom resource is
	// broken.
	standingFailing
	// standingMissing means that the upstream has no such resource, or none that can be listed and
	// watched.
	standingMissing
	// standingForbidden means that the proxy may not read it, or may not see who serves it.
	standingForbidden
	// standingAggregated means that another API server serves it.
	standingAggregated
	// standingRejected means that the upstream rejects the proxy's requests for it, or its answers are
	// not understood.
	standingRejected
)

func (s standing) String() string {
	return [...]string{"current", "behind", "being read", "failing", "missing", "forbidden", "aggregated", "rejected"}[s]
}

// label returns the standing's label value in metrics.
func (s standing) label() string {
	if s == standingLoading {
		return "reading"
	}
	return s.String()
}

// isAnswer reports whether err is, or was made of, an answer of the upstream.
func isAnswer(err error) bool {
	if own, ok := errors.AsType[*reflector.Error](err); ok {
		return own.Sentinel != reflector.ErrUnreachable && own.Sentinel != reflector.ErrSilent
	}
	_, ok := errors.AsType[*apierrors.StatusError](err)
	return ok
}

// standingAfter returns the standing after a session that ended with err. standingLoading means
// that the next attempt may succeed.
func standingAfter(err error) standing {
	switch {
	case errors.Is(err, errAggregated):
		return standingAggregated
	case errors.Is(err, reflector.ErrForbidden), errors.Is(err, reflector.ErrUnauthorized), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return standingForbidden
	case errors.Is(err, errNotWatchable), errors.Is(err, reflector.ErrMethodNotAllowed),
		errors.Is(err, reflector.ErrUnknownResource), apierrors.IsNotFound(err):
		return standingMissing
	case errors.Is(err, reflector.ErrRejected), errors.Is(err, reflector.ErrEncoding):
		return standingRejected
	}
	return standingLoading
}
