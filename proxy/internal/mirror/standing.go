package mirror

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir/internal/core/reflector"
)

// Standing says whether a resource is cached, or why it is not.
type Standing int

const (
	// standingCurrent means that the resource is cached and follows the upstream. It is the zero
	// value.
	standingCurrent Standing = iota
	// standingBehind means that the resource is cached but does not follow the upstream at the moment.
	standingBehind
	// StandingLoading means that the resource is being listed, or is about to be listed.
	StandingLoading
	// standingFailing means the same as StandingLoading, after the upstream has answered finalAttempts
	// attempts with an error that may pass. An example is a 500 while the conversion webhook of a
	// custom resource is broken.
	standingFailing
	// standingMissing means that the upstream does not have the resource, or does not let it be listed
	// and watched.
	standingMissing
	// StandingForbidden means that the proxy may not read the resource, or may not see which server
	// serves it.
	StandingForbidden
	// standingAggregated means that another API server serves the resource.
	standingAggregated
	// standingRejected means that the upstream rejects the proxy's requests for the resource, or that
	// the proxy cannot decode the answers.
	standingRejected
)

func (s Standing) String() string {
	return [...]string{"current", "behind", "being read", "failing", "missing", "forbidden", "aggregated", "rejected"}[s]
}

// label returns the text for the standing in metrics.
func (s Standing) label() string {
	if s == StandingLoading {
		return "reading"
	}
	return s.String()
}

// isAnswer reports whether err is caused by an answer of the upstream, and not by a missing answer.
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

// initialLoadTimeout is how long the first load of a resource may delay readiness. After that the
// replica is ready, and reads of the resource are forwarded until it is cached.
const initialLoadTimeout = 5 * time.Minute

// Readiness describes whether a configured resource is cached.
type Readiness struct {
	Name   string
	How    string
	Delays bool // the resource is a reason for the replica not to be ready
}

// Readiness describes each configured resource. well says whether the upstream is healthy.
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

// delaysReadiness reports whether the resource is a reason for the replica not to be ready: it is
// configured, and is being loaded for the first time. A resource does not delay readiness if it
// cannot be cached, if the upstream fails to list it, or if it was cached before.
func (res *Resource) delaysReadiness(now time.Time) bool {
	s := res.State()
	return !res.onDemand && s.Standing() == StandingLoading && s.readySessions == 0 && now.Sub(res.created) < initialLoadTimeout
}
