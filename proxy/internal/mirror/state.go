package mirror

import "time"

// phase says what is done about a resource.
type phase int

const (
	// phaseStarting means that nothing was done yet.
	phaseStarting phase = iota
	// phaseAsking means that the upstream is asked which version it prefers.
	phaseAsking
	// phaseDescribing means that the upstream is asked to describe the resource.
	phaseDescribing
	// phaseLoading means that a session lists the resource.
	phaseLoading
	// phaseServing means that a session answers reads.
	phaseServing
	// phaseWaiting means that the next attempt comes after a pause.
	phaseWaiting
	// phaseFinished means that the resource is not cached any more.
	phaseFinished
)

// settings are what never changes about a resource.
type settings struct {
	onDemand   bool // cached because a client read it; false: in Options.Resources, so cached for good
	unresolved bool // it finishes once the version is known in which it is to be cached
	anyVersion bool // configured without a version, so cached in the one that the upstream prefers
	restart    time.Duration
}

// State is everything that step knows about a resource. It is a value. Readers get the last one
// that was published, which is immutable.
type State struct {
	settings
	phase    phase
	stopping bool // it is evicted, or the proxy ends
	// Session is the one that runs: in phaseLoading and phaseServing, else nil. step only passes it
	// on.
	Session *Session
	sessionState

	Err      string   // why it is not current; empty: it is
	unserved Standing // why no session serves. StandingLoading: the next attempt may succeed
	// failures counts the attempts to load it that the upstream has answered with an error, since it
	// was ready, or the upstream was not well.
	failures int
	cause    error // of the last end, in phaseAsking
	// mayFail is until when a resource on demand may be unknown, or not served yet. An upstream that
	// went back, or has another definition, may have just started: then it may take a while until it
	// reports who serves the resource.
	mayFail time.Time
	delay   time.Duration // of the last pause since a session was ready

	Sessions      uint64 // that were started
	readySessions uint64 // that became ready
	failed        uint64 // that never became ready
	objects       int    // of the last session that was ready, at its end
	// redefined is when the last session ended with ErrRedefined. Zero: it was read since.
	redefined time.Time
}

// sessionState is what the state has of the current session, or of the last one.
type sessionState struct {
	follows bool // it has watched the upstream: before that, nothing can be proven
	// unknown means that the upstream has answered last that it has no such resource, which may have
	// been deleted. Until it answers otherwise, or the session ends after finalMissing such answers,
	// reads are forwarded.
	unknown bool
	// attempts is how many of the reflector's had failed in a row at its last status.
	attempts int
	// behindSince is when the resource fell behind its upstream. Zero: it is current.
	behindSince time.Time
	// refusals counts the checks in a row that the upstream has refused.
	refusals int
}

func newState(of settings) *State { return &State{settings: of, unserved: StandingLoading} }

// serving returns the session that can answer reads, or nil.
func (s *State) serving() *Session {
	if s.phase != phaseServing {
		return nil
	}
	return s.Session
}

// Standing returns the standing of the resource.
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

// wasRedefined reports whether the upstream has redefined the resource a short while before now,
// and it has not been read since.
func (s *State) wasRedefined(now time.Time) bool {
	return !s.redefined.IsZero() && now.Sub(s.redefined) < rereadTime
}

// inputType says what has happened.
type inputType int

const (
	inNone      inputType = iota
	inBegin               // the resource is to be cached
	inPreferred           // the upstream was asked which version it prefers
	inDescribed           // the upstream was asked to describe the resource
	inListed              // the session has the first list
	inStatus              // the session's reflector has another status
	inChecked             // the monitor has checked the session
	inRefused             // the session's feed cannot represent the upstream
	inRestored            // another resource has found that the upstream went back
	inEnded               // the session has ended
	inWoke                // a pause is over
	inUnwell              // the upstream is not well
	inStop                // the resource must not be cached any more
)

// input is one thing that has happened.
type input struct {
	typ inputType
	at  time.Time
	// err is that of a request (inPreferred, inDescribed), of the upstream's last answer (inStatus),
	// of the check who serves the resource (inChecked), or why the session ends (inRefused, inEnded).
	err       error
	session   *Session // inDescribed without err
	other     bool     // inPreferred: the version differs from the resource's
	watching  bool     // inStatus
	synced    bool     // inStatus
	attempts  int      // inStatus: that failed in a row
	redefined bool     // inChecked
	objects   int      // inEnded
}
