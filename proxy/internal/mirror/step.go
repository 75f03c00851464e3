package mirror

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/serve/feed"
)

const (
	// finalAttempts is how many attempts in a row the upstream must refuse before a session ends. An
	// API server that has just started refuses requests for objects that it has not loaded yet, such
	// as custom resources and permissions.
	finalAttempts = 4
	// finalMissing replaces finalAttempts for a resource that the upstream does not know. Such a
	// resource is retried more often: eight attempts take 3 to 6 s.
	finalMissing = 8
	// maxRestartDelay bounds the pause between two sessions of a resource.
	maxRestartDelay = 5 * time.Second
)

// step returns the state that follows from state s and the given input, and the actions to perform.
// It contains the whole logic of how a resource is cached. It reads no clock and sends no request.
func step(s State, in input) (State, []action) {
	m := machine{State: s, in: in}
	switch in.typ {
	case inBegin, inWoke:
		m.begin()
	case inPreferred:
		m.preferred()
	case inDescribed:
		m.described()
	case inListed:
		m.listed()
	case inStatus:
		m.status()
	case inChecked:
		m.checked()
	case inRefused:
		m.refused()
	case inRestored:
		if m.Session != nil {
			m.do(end{feed.ErrWentBack})
		}
	case inEnded:
		m.ended()
	case inUnwell:
		m.failures = 0 // the cause may have been the upstream, not the resource
	case inStop:
		if !m.stopping {
			m.stopping = true
			m.do(cancel{})
		}
	}
	return m.State, m.actions
}

// machine is one call of step in progress.
type machine struct {
	State
	in      input
	actions []action
}

func (m *machine) do(a action) { m.actions = append(m.actions, a) }

// begin starts an attempt to cache the resource.
func (m *machine) begin() {
	switch {
	case m.stopping:
		m.finish(nil)
	case m.gvr.Version == "":
		m.phase = phaseAsking
		m.do(ask{})
	default:
		m.phase = phaseDescribing
		m.do(describe{})
	}
}

func (m *machine) finish(err error) {
	m.phase = phaseFinished
	m.do(finish{err})
}

func (m *machine) sleep(d time.Duration) {
	m.phase = phaseWaiting
	m.do(sleep{d})
}

// preferred must be called when the upstream has been asked which version it prefers.
func (m *machine) preferred() {
	switch {
	case m.stopping:
		m.finish(nil)
	case m.in.err != nil && m.gvr.Version == "":
		m.fail(m.in.err)
		m.sleep(maxRestartDelay)
	case m.in.err == nil && m.in.version != m.gvr.Version:
		m.do(move{m.gvr})
		// What is known about the other version does not apply to this one.
		m.Err, m.unserved, m.cause, m.delay, m.objects, m.redefined = "", StandingLoading, nil, 0, 0, time.Time{}
		m.gvr.Version = m.in.version
		m.begin()
	default:
		m.retry(m.cause)
	}
}

// described starts a session, if the upstream has described the resource.
func (m *machine) described() {
	m.sessionState = sessionState{}
	if m.in.err != nil {
		m.over(m.in.err)
		return
	}
	m.Sessions++
	m.Session, m.phase = m.in.session, phaseLoading
	m.do(run{})
}

// listed lets the session answer reads.
func (m *machine) listed() {
	m.phase, m.readySessions = phaseServing, m.readySessions+1
	m.Err, m.failures, m.unserved, m.delay, m.redefined = "", 0, StandingLoading, 0, time.Time{}
	m.do(cached{})
}

// status applies a new status of the reflector. It ends a session that must not continue to serve,
// because the resource no longer exists or the proxy may no longer read it.
func (m *machine) status() {
	err := m.in.err
	m.follows = m.follows || m.in.watching
	if m.in.synced && !m.in.watching { // the upstream ends the watches of a redefined resource
		m.do(checkSoon{})
	}
	failed := m.in.attempts > m.attempts
	m.attempts, m.unknown = m.in.attempts, errors.Is(err, reflector.ErrUnknownResource)
	m.noteBehind()
	if err == nil {
		m.Err = ""
		return
	}
	m.Err = err.Error()
	if failed {
		m.countFailure(err)
	}
	if m.attempts >= finalAttempts && (m.attempts >= finalMissing || !m.unknown) && standingAfter(err) != StandingLoading {
		m.do(end{err})
	}
}

// noteBehind logs when a cached resource falls behind the upstream, and when it is current again.
func (m *machine) noteBehind() {
	if m.in.err != nil && m.behindSince.IsZero() && m.phase == phaseServing {
		m.behindSince = m.in.at
		m.do(note{text: "a resource is behind its upstream", err: m.in.err})
	} else if m.in.err == nil && !m.behindSince.IsZero() {
		m.do(note{text: "a resource is current again", behind: m.in.at.Sub(m.behindSince)})
		m.behindSince = time.Time{}
	}
}

// checked ends the session if another server serves the resource, if its definition has changed, or
// if the upstream has refused finalAttempts checks in a row.
func (m *machine) checked() {
	err := m.in.err
	switch {
	case m.in.redefined:
		m.do(end{ErrRedefined})
		return
	case err == nil:
		m.refusals = 0
	case apierrors.IsForbidden(err) || apierrors.IsNotFound(err):
		m.refusals++
	}
	if errors.Is(err, errAggregated) || m.refusals == finalAttempts {
		m.do(end{err})
	}
}

// refused ends the session. If the upstream went back, the sessions of all other resources and all
// forwarded watches end, too. Otherwise they might find the restore only when the upstream has
// reached the same resourceVersions again, and then nothing shows what they have missed. A resource
// may have no session when another one finds the restore, for instance because an upstream that has
// just started does not know the resource yet. The RestoreTracker remembers such a resource.
func (m *machine) refused() {
	m.do(end{m.in.err})
	if errors.Is(m.in.err, feed.ErrWentBack) {
		m.do(endOthers{})
	}
}

// ended is called when the session has ended. The cause determines how the watches of the session
// end and how the next session begins.
func (m *machine) ended() {
	cause := m.in.err
	if m.phase == phaseServing {
		m.objects = m.in.objects
	} else if !m.stopping {
		m.failed++
	}
	if errors.Is(cause, ErrRedefined) {
		m.redefined = m.in.at
	}
	m.Session = nil
	m.do(closeSession{expires: errors.Is(cause, feed.ErrWentBack) || errors.Is(cause, errAggregated)})
	m.over(cause)
}

// over ends an attempt to cache the resource, and starts or schedules the next one. If the resource
// is configured without a version, and the upstream no longer serves the current version or has
// redefined the resource, over first asks which version the upstream prefers.
func (m *machine) over(cause error) {
	if m.stopping {
		m.finish(nil)
		return
	}
	m.fail(cause)
	m.do(note{text: "a resource is not cached", err: cause})
	if m.anyVersion && (errors.Is(cause, ErrRedefined) || m.unserved == standingMissing) {
		m.phase, m.cause = phaseAsking, cause
		m.do(ask{})
		return
	}
	m.retry(cause)
}

// retry waits for the next attempt, or finishes a resource on demand that cannot be cached. The
// pause doubles after each failed attempt. After a session that was ready, the pause is shortest;
// an example is the session of a resource that was then redefined.
func (m *machine) retry(cause error) {
	m.cause = nil
	switch {
	case errors.Is(cause, feed.ErrWentBack), errors.Is(cause, feed.ErrRelistTooLarge), errors.Is(cause, ErrRedefined):
		m.mayFail = m.in.at.Add(rereadTime)
	case m.onDemand && (errors.Is(cause, errAggregated) || m.in.at.After(m.mayFail)):
		m.finish(cause)
		return
	}
	if m.delay == 0 {
		m.delay = m.restart
	} else {
		m.delay = min(2*m.delay, maxRestartDelay)
	}
	m.sleep(m.delay)
}

// fail records why the resource is not cached.
func (m *machine) fail(err error) {
	m.Err, m.unserved = err.Error(), standingAfter(err)
	m.countFailure(err)
}

// countFailure counts an attempt to load the resource as failed. err is the error of the attempt.
// It counts the attempt only if the upstream has answered and the next attempt may succeed.
func (m *machine) countFailure(err error) {
	if standingAfter(err) == StandingLoading && isAnswer(err) {
		m.failures++
	}
}
