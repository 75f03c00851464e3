package proxy

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir/internal/reflector"
)

// resourceState is how a resource is held, or why it is not.
type resourceState int

const (
	// stateCurrent: it is held, and follows the upstream. The zero value.
	stateCurrent resourceState = iota
	// stateBehind: it is held, and does not follow the upstream at the moment.
	stateBehind
	// stateLoading: it is being read, or is about to be.
	stateLoading
	// stateMissing: the upstream has no such resource, or none that can be listed and watched.
	stateMissing
	// stateForbidden: the proxy may not read it, or may not see who serves it.
	stateForbidden
	// stateAggregated: another API server serves it.
	stateAggregated
	// stateRejected: the upstream refuses the proxy's requests for it, or answers in a way that is
	// not understood.
	stateRejected
)

func (s resourceState) String() string {
	return [...]string{"current", "behind", "being read", "missing", "forbidden", "aggregated", "rejected"}[s]
}

// label returns the standing as metrics write it.
func (s resourceState) label() string {
	if s == stateLoading {
		return "reading"
	}
	return s.String()
}

// initialLoadTimeout is how long a resource that is being read for the first time delays its
// replica. What takes longer is passed on meanwhile.
const initialLoadTimeout = 5 * time.Minute

// state returns how the resource is held.
func (res *resource) state() resourceState {
	switch {
	case res.ready.Load() == nil:
		return resourceState(res.notReady.Load())
	case res.lastError.Load() != nil:
		return stateBehind
	}
	return stateCurrent
}

// delaysReadiness reports whether a replica must not be ready because of the resource: it was
// named, and is being read for the first time. One that is not to be had, or was held before, makes
// only itself be passed on.
func (res *resource) delaysReadiness(now time.Time) bool {
	return res.configured && res.state() == stateLoading && !res.everReady.Load() && now.Sub(res.created) < initialLoadTimeout
}

// stateOfError returns why a resource cannot be held, by the error that its last session ended
// with; reading: that may be over soon.
func stateOfError(err error) resourceState {
	switch {
	case errors.Is(err, errAggregated):
		return stateAggregated
	case errors.Is(err, reflector.ErrForbidden), errors.Is(err, reflector.ErrUnauthorized), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return stateForbidden
	case errors.Is(err, errNotWatchable), errors.Is(err, reflector.ErrUnknownResource), apierrors.IsNotFound(err):
		return stateMissing
	case errors.Is(err, reflector.ErrRejected), errors.Is(err, reflector.ErrEncoding):
		return stateRejected
	}
	return stateLoading
}
