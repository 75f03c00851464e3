package mirror

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/core/reflector"
)

// phase says what the proxy is doing about a resource.
type phase int

const (
	// phaseStarting means that the proxy has done nothing yet.
	phaseStarting phase = iota
	// phaseAsking means that the proxy is asking the upstream which version it prefers.
	phaseAsking
	// phaseDescribing means that the proxy is asking the upstream to describe the resource.
	phaseDescribing
	// phaseLoading means that a session lists the resource.
	phaseLoading
	// phaseServing means that a session answers reads.
	phaseServing
	// phaseWaiting means that the next attempt follows after a pause.
	phaseWaiting
	// phaseFinished means that the resource is no longer cached.
	phaseFinished
)

// settings are the properties of a resource that never change.
type settings struct {
	onDemand   bool // cached because a client read it; false: cached because Config.Resources names it
	anyVersion bool // configured without a version, so cached in the version that the upstream prefers
	restart    time.Duration
}

// State is the whole state of a resource, on which step works. It is copied by value. Readers get
// the last published State, which does not change.
type State struct {
	settings
	gvr      schema.GroupVersionResource // the version is empty while it is unknown
	phase    phase
	stopping bool // the resource is evicted, or the proxy ends
	// Session is the session that runs, in phaseLoading and phaseServing, and otherwise nil. step only
	// passes it on: it calls none of its methods.
	Session *Session
	sessionState

	Err      string   // why the resource is not current; empty: it is current
	unserved Standing // why no session serves. StandingLoading: the next attempt may succeed
	// failures counts the attempts to load the resource that the upstream has answered with an error.
	// It restarts at 0 when the resource is ready, and when the upstream is not healthy.
	failures int
	cause    error // in phaseAsking: why the last session ended
	// mayFail is the time until which a resource on demand is retried although it is unknown or not
	// served. An upstream that went back or has redefined a resource may have just started. Such an
	// upstream may need some time until it reports which server serves the resource.
	mayFail time.Time
	delay   time.Duration // the last pause since a session was ready

	Sessions      uint64 // sessions that were started
	readySessions uint64 // sessions that became ready
	failed        uint64 // sessions that ended before they became ready
	objects       int    // number of objects of the last ready session, at its end
	// redefined is when the last session ended with ErrRedefined. Zero: the resource was read since.
	redefined time.Time
}

// sessionState is the part of State about the current session, or about the last one.
type sessionState struct {
	follows bool // the session has watched the upstream; before that, it cannot be proven current
	// unknown means that the upstream's last answer was that the resource does not exist. The resource
	// may have been deleted. Reads are forwarded until the upstream answers otherwise. The session
	// ends after finalMissing such answers.
	unknown bool
	// attempts is how many attempts of the reflector in a row had failed at its last status.
	attempts int
	// behindSince is when the resource fell behind the upstream. Zero: it is current.
	behindSince time.Time
	// refusals counts how many of the monitor's checks in a row the upstream has refused.
	refusals int
}

func newState(gvr schema.GroupVersionResource, of settings) *State {
	return &State{settings: of, gvr: gvr, unserved: StandingLoading}
}

// serving returns the session that can answer reads, or nil.
func (s *State) serving() *Session {
	if s.phase != phaseServing {
		return nil
	}
	return s.Session
}

// Standing returns whether the resource is cached, or why it is not.
func (s *State) Standing() Standing {
	switch {
	case s.phase == phaseServing && s.Err != "":
		return standingBehind
	case s.phase == phaseServing:
		return standingCurrent
	case s.unserved == StandingLoading && s.failures >= finalAttempts:
		return standingFailing
	}
	return s.unserved
}

// wasRedefined reports whether the upstream has redefined the resource less than rereadTime before
// now, and the resource has not been read since.
func (s *State) wasRedefined(now time.Time) bool {
	return !s.redefined.IsZero() && now.Sub(s.redefined) < rereadTime
}

// inputType says what has happened.
type inputType int

const (
	inNone      inputType = iota
	inBegin               // the resource must be cached
	inPreferred           // the upstream has been asked which version it prefers
	inDescribed           // the upstream has been asked to describe the resource
	inListed              // the session has the complete first list
	inStatus              // the session's reflector has a new status
	inChecked             // the monitor has checked the session
	inRefused             // the session's feed cannot represent the upstream
	inRestored            // another resource has found a restore
	inEnded               // the session has ended
	inWoke                // a pause is over
	inUnwell              // the upstream is not healthy
	inStop                // the resource must no longer be cached
)

// input is one thing that has happened.
type input struct {
	typ inputType
	at  time.Time
	// err has four meanings. In inPreferred and inDescribed it is the error of a request. In inStatus
	// it is the error of the upstream's last answer. In inChecked it is the error of the check that
	// finds out which server serves the resource. In inRefused and inEnded it is the reason for which
	// the session ends.
	err       error
	session   *Session // for inDescribed without err
	version   string   // for inPreferred without err
	watching  bool     // for inStatus
	synced    bool     // for inStatus
	attempts  int      // for inStatus: attempts that failed in a row
	redefined bool     // for inChecked
	objects   int      // for inEnded
}

// action is something that the driver, a Resource, must do after a step. Some inputs come from the
// driver's goroutine: inBegin, inPreferred, inDescribed, inEnded and inWoke. After a step of such
// an input, the last action blocks, and no other action does. After a step of any other input, no
// action blocks. The driver performs actions without a lock. Otherwise two resources that find a
// restore at the same time would deadlock, because endOthers locks other resources.
type action any

// Actions that block. After each of them except finish, the driver calls take with the result.
type (
	ask      struct{} // asks the upstream which version it prefers
	describe struct{} // asks the upstream about the resource, and makes a session
	run      struct{} // runs the session
	sleep    struct{ d time.Duration }
	finish   struct{ err error } // ends the driver
)

// Actions that do not block.
type (
	// move registers the resource in its present version; from is the version before.
	move      struct{ from schema.GroupVersionResource }
	end       struct{ cause error } // ends the session
	endOthers struct{}              // ends the sessions of all other resources
	// closeSession frees a session that has ended. If expires is true, the watches of the session get
	// 410. Otherwise their clients may resume.
	closeSession struct{ expires bool }
	// cached is the first action after the session has begun to serve. It notifies the restore
	// tracker, which until now has refused watches from before a restore. From now on the session
	// decides which watches may resume. If the proxy is shutting down, cached also makes the session's
	// watches end by the time at which all watches must have ended.
	cached    struct{}
	checkSoon struct{} // makes the monitor check the session soon
	cancel    struct{} // cancels the context of the driver
	// note logs a line: a warning if there is an error.
	note struct {
		text   string
		err    error
		behind time.Duration // for how long the resource was behind; 0: it was not
	}
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
