package proxy

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir/internal/core/reflector"
)

// resourceState says how a resource is cached, or why it is not.
type resourceState int

const (
	// stateCurrent means that it is cached and follows the upstream. It is the zero value.
	stateCurrent resourceState = iota
	// stateBehind means that it is cached and does not follow the upstream at the moment.
	stateBehind
	// stateLoading means that it is being listed, or is about to be.
	stateLoading
	// stateFailing is stateLoading after the upstream has answered finalAttempts attempts with an
	// error that may pass, such as a 500 while the conversion webhook of a custom resource is broken.
	stateFailing
	// stateMissing means that the upstream has no such resource, or none that can be listed and
	// watched.
	stateMissing
	// stateForbidden means that the proxy may not read it, or may not see who serves it.
	stateForbidden
	// stateAggregated means that another API server serves it.
	stateAggregated
	// stateRejected means that the upstream rejects the proxy's requests for it, or its answers are
	// not understood.
	stateRejected
)

func (s resourceState) String() string {
	return [...]string{"current", "behind", "being read", "failing", "missing", "forbidden", "aggregated", "rejected"}[s]
}

// label returns the state's label value in metrics.
func (s resourceState) label() string {
	if s == stateLoading {
		return "reading"
	}
	return s.String()
}

// initialLoadTimeout is how long the first load of a resource delays readiness. After that its
// reads are forwarded meanwhile.
const initialLoadTimeout = 5 * time.Minute

// state returns the state of the resource.
func (res *resource) state() resourceState {
	switch as := resourceState(res.notReady.Load()); {
	case res.ready.Load() == nil && as == stateLoading && res.failures.Load() >= finalAttempts:
		return stateFailing
	case res.ready.Load() == nil:
		return as
	case res.lastError.Load() != nil:
		return stateBehind
	}
	return stateCurrent
}

// delaysReadiness reports whether the replica must not be ready because of the resource: it is
// configured, and is being loaded for the first time. A resource that cannot be cached, that the
// upstream fails to list, or that was cached before does not delay readiness.
func (res *resource) delaysReadiness(now time.Time) bool {
	return res.configured && res.state() == stateLoading && res.readySessions.Load() == 0 && now.Sub(res.created) < initialLoadTimeout
}

// countFailure counts an attempt to load the resource that has ended with err, if the upstream has
// answered it and the next one may succeed.
func (res *resource) countFailure(err error) {
	if stateOfError(err) == stateLoading && isAnswer(err) {
		res.failures.Add(1)
	}
}

// isAnswer reports whether err is, or was made of, an answer of the upstream.
func isAnswer(err error) bool {
	if own, ok := errors.AsType[*reflector.Error](err); ok {
		return own.Sentinel != reflector.ErrUnreachable && own.Sentinel != reflector.ErrSilent
	}
	return hasStatus(err)
}

// stateOfError returns the state after a session that ended with err. stateLoading means that the
// next attempt may succeed.
func stateOfError(err error) resourceState {
	switch {
	case errors.Is(err, errAggregated):
		return stateAggregated
	case errors.Is(err, reflector.ErrForbidden), errors.Is(err, reflector.ErrUnauthorized), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return stateForbidden
	case errors.Is(err, errNotWatchable), errors.Is(err, reflector.ErrMethodNotAllowed),
		errors.Is(err, reflector.ErrUnknownResource), apierrors.IsNotFound(err):
		return stateMissing
	case errors.Is(err, reflector.ErrRejected), errors.Is(err, reflector.ErrEncoding):
		return stateRejected
	}
	return stateLoading
}
