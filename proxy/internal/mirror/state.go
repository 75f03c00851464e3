package mirror

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
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
