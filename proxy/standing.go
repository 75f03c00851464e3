package proxy

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir/internal/reflector"
)

// standing is how a resource is held, or why it is not.
type standing int

const (
	// current: it is held, and follows the upstream. The zero value.
	current standing = iota
	// behind: it is held, and does not follow the upstream at the moment.
	behind
	// reading: it is being read, or is about to be.
	reading
	// missing: the upstream has no such resource, or none that can be listed and watched.
	missing
	// forbidden: the proxy may not read it, or may not see who serves it.
	forbidden
	// aggregated: another API server serves it.
	aggregated
	// rejected: the upstream refuses the proxy's requests for it, or answers in a way that is not understood.
	rejected
)

func (s standing) String() string {
	return [...]string{"current", "behind", "being read", "missing", "forbidden", "aggregated", "rejected"}[s]
}

// label returns the standing as metrics write it.
func (s standing) label() string {
	if s == reading {
		return "reading"
	}
	return s.String()
}

// firstRead is how long a resource that is being read for the first time delays its replica. What takes longer is passed on meanwhile.
const firstRead = 5 * time.Minute

// standing returns how the resource is held.
func (h *held) standing() standing {
	switch {
	case h.session.Load() == nil:
		return standing(h.refusal.Load())
	case h.failure.Load() != nil:
		return behind
	}
	return current
}

// delays reports whether a replica must not be ready because of the resource: it was named, and is being read for the first time. One that is not to be
// had, or was held before, makes only itself be passed on.
func (h *held) delays(now time.Time) bool {
	return h.named && h.standing() == reading && !h.wasHeld.Load() && now.Sub(h.begun) < firstRead
}

// refusalOf returns why a resource cannot be held, by the error that its last session ended with; reading: that may be over soon.
func refusalOf(err error) standing {
	switch {
	case errors.Is(err, errAggregated):
		return aggregated
	case errors.Is(err, reflector.ErrForbidden), errors.Is(err, reflector.ErrUnauthorized), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return forbidden
	case errors.Is(err, errCannotHold), errors.Is(err, reflector.ErrUnknownResource), apierrors.IsNotFound(err):
		return missing
	case errors.Is(err, reflector.ErrRejected), errors.Is(err, reflector.ErrEncoding):
		return rejected
	}
	return reading
}
