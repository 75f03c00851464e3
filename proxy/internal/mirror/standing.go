package mirror

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir/internal/core/reflector"
)

// Standing says how a resource is cached, or why it is not.
type Standing int

const (
	// standingCurrent means that it is cached and follows the upstream. It is the zero value.
	standingCurrent Standing = iota
	// standingBehind means that it is cached and does not follow the upstream at the moment.
	standingBehind
	// StandingLoading means that it is being listed, or is about to be.
	StandingLoading
	// standingFailing is StandingLoading after the upstream has answered finalAttempts attempts with
	// an error that may pass, such as a 500 while the conversion webhook of a custom resource is
	// broken.
	standingFailing
	// standingMissing means that the upstream has no such resource, or none that can be listed and
	// watched.
	standingMissing
	// StandingForbidden means that the proxy may not read it, or may not see who serves it.
	StandingForbidden
	// standingAggregated means that another API server serves it.
	standingAggregated
	// standingRejected means that the upstream rejects the proxy's requests for it, or its answers are
	// not understood.
	standingRejected
)

func (s Standing) String() string {
	return [...]string{"current", "behind", "being read", "failing", "missing", "forbidden", "aggregated", "rejected"}[s]
}

// label returns the standing's label value in metrics.
func (s Standing) label() string {
	if s == StandingLoading {
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

// standingAfter returns the standing after a session that ended with err. StandingLoading means
// that the next attempt may succeed.
func standingAfter(err error) Standing {
	switch {
	case errors.Is(err, errAggregated):
		return standingAggregated
	case errors.Is(err, reflector.ErrForbidden), errors.Is(err, reflector.ErrUnauthorized), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return StandingForbidden
	case errors.Is(err, errNotWatchable), errors.Is(err, reflector.ErrMethodNotAllowed),
		errors.Is(err, reflector.ErrUnknownResource), apierrors.IsNotFound(err):
		return standingMissing
	case errors.Is(err, reflector.ErrRejected), errors.Is(err, reflector.ErrEncoding):
		return standingRejected
	}
	return StandingLoading
}

// initialLoadTimeout is how long the first load of a resource delays readiness. After that its
// reads are forwarded meanwhile.
const initialLoadTimeout = 5 * time.Minute

// Readiness is how a configured resource is doing.
type Readiness struct {
	Name   string
	How    string
	Delays bool // the replica must not be ready
}

// Readiness returns how the configured resources are doing. well says whether the upstream is.
func (m *Mirror) Readiness(well bool) (all []Readiness) {
	for _, res := range m.All() {
		if res.onDemand {
			continue
		}
		if !well {
			res.take(input{typ: inUnwell})
		}
		r := Readiness{Name: res.name(), Delays: res.delaysReadiness(time.Now())}
		switch st := res.State().Standing(); {
		case r.Delays:
			r.How = st.String()
		case st == standingCurrent:
			r.How = "ok"
		case st == standingBehind:
			r.How = "ok, but behind"
		default:
			r.How = "forwarded: " + st.String()
		}
		all = append(all, r)
	}
	return all
}

// delaysReadiness reports whether the replica must not be ready because of the resource: it is
// configured, and is being loaded for the first time. A resource that cannot be cached, that the
// upstream fails to list, or that was cached before does not delay readiness.
func (res *Resource) delaysReadiness(now time.Time) bool {
	s := res.State()
	return !res.onDemand && s.Standing() == StandingLoading && s.readySessions == 0 && now.Sub(res.created) < initialLoadTimeout
}
