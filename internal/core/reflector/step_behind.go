package reflector

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirproject/weir/internal/core/resourceversion"
)

// errElsewhere is the cause when another reflector has found that the server went back.
var errElsewhere = errors.New("found by another reflector of the server")

const (
	// agreeing is how often a server must answer that rv lies in its future before the reflector
	// concludes that the server went back in time. The server's consistent answers in between must
	// agree.
	agreeing = 2
	// maxRounds bounds the examination of a server whose answers never agree. After that the
	// reflector concludes that the server went back.
	maxRounds = 8
	// maxTooLarge is how often a server may refuse a state that must be not older than the store,
	// although it reports in between that it has reached that version. After that the reflector
	// requests the state without this condition. The refusals take two minutes or more. A replica
	// that lags has caught up by then, or another replica answers.
	maxTooLarge = 20
)

// behind describes a server whose newest resourceVersion is older than rv. There are two
// explanations:
//
//   - The server is a replica that lags. Then it, or another replica, reaches rv soon, and the
//     reflector must not use any state that the server sent.
//   - The server was restored from a backup. Then the reflector must list the server's state.
//
// The reflector concludes that the server went back (wentBack) in three cases: the server answers
// twice (agreeing) that rv lies in its future, and its consistent answers in between do not go
// down; or it reports a version older than rv more than maxRounds times; or it answers twice that
// rv lies in its future, and leaves three questions (relistAfter) for its newest version
// unanswered.
//
// A LIST follows in every case. The zero value means that no such server is known.
type behind struct {
	at string // the newest resourceVersion that the server last reported
	// Answers that rv lies in the server's future, since its versions last went down.
	denied              int
	rounds              int // answers with a resourceVersion older than rv
	unansweredQuestions int // questions for its newest resourceVersion that it did not answer
}

// fallsBehind handles a server whose newest resourceVersion is at, which is older than rv.
func (m *machine) fallsBehind(at string) {
	b := &m.behind
	if b.rounds > 0 && resourceversion.Older(at, b.at) {
		b.denied = 0 // a different server than the one that answered before
	}
	// Without "not older than" the next list may also be too old.
	m.insteadOfWatch, m.noMatch = false, false
	b.at = at
	b.rounds++
	if b.denied >= agreeing || b.rounds > maxRounds {
		m.wentBack(at)
		return
	}
	m.report(ErrServerBehind, fmt.Errorf("its newest is %s, %s was told before", at, m.least()))
	if b.denied > 0 || b.rounds > 1 {
		m.sleep(reqReaches, ErrServerBehind)
		return
	}
	m.request = reqReaches
	m.goOn()
}

// wentBack lists a server that was restored from a backup, and replaces the store's state with the
// server's.
func (m *machine) wentBack(at string) {
	m.restored = true
	m.behind = behind{}
	m.report(ErrWentBack, fmt.Errorf("resourceVersion %s after %s", at, m.least()))
	m.rebase, m.consistent, m.withoutInitial, m.atLeast = true, true, true, false
	m.list()
}

// refusedAsTooLarge handles a state that the server refused because it must not be older than the
// store, or than the server's answer to a probe. A watch cache that no longer advances refuses it
// forever. So does a watch cache whose etcd reports no progress while its resource does not change.
// Probes and consistent lists do not show that fault: etcd answers them.
func (m *machine) refusedAsTooLarge() {
	m.tooLarge++
	m.withoutInitial = m.withoutInitial || m.tooLarge >= relistAfter
	if m.tooLarge >= maxTooLarge {
		m.noMatch, m.noConsistent = true, false
	}
	m.listFloor = "" // the server may have been restored since it reported that version
	m.behind.denied++
	m.sleep(reqNewest, ErrServerBehind)
}

// outdated lists because another reflector has found that the server went back. A different server
// may answer this reflector, and that server may have reached rv again. So the list is a usual one.
// If the list is older than rv, the reflector examines the server.
func (m *machine) outdated() {
	m.report(ErrWentBack, errElsewhere)
	m.consistent, m.unconfirmed = true, true
	m.forgetLists()
	m.phase, m.request = Waiting, reqList
	m.do(wait{m.cfg.Backoff.delay(nil, m.backoffAttempt(nil), 0, m.in.jitter) + time.Duration(float64(m.in.spread)*m.in.jitter)})
}

// incomparableVersions lists a server whose resourceVersions cannot be compared with rv, and
// replaces the store's state, since the order of the two states is unknown.
func (m *machine) incomparableVersions() {
	m.rebase, m.consistent = true, true
	m.list()
}

// newest handles the answer to a request for the newest resourceVersion.
func (m *machine) newest() {
	examined := m.examined()
	if !examined {
		m.answeredProbes++
	}
	m.listFloor = resourceversion.Newest(m.listFloor, m.in.rv)
	switch {
	case m.askingListFloor && m.behindRV():
		m.askingListFloor = false
		m.fallsBehind(m.in.rv)
	case m.request == reqReaches && m.behindRV():
		m.deny() // the server ignored the condition, and reported its newest version
	case m.behindRV():
		m.fallsBehind(m.in.rv)
	case examined:
		m.caughtUp()
	case m.rv != "" && resourceversion.Incomparable(m.in.rv, m.rv):
		m.incomparableVersions()
	case m.askingListFloor:
		m.askingListFloor = false
		m.list()
	case m.hopeless():
		m.listInstead(ErrUnreachable)
	default:
		m.watch()
	}
}

// behindRV reports whether the version in the answer is older than the store.
func (m *machine) behindRV() bool { return resourceversion.Older(m.in.rv, m.least()) }

// otherScheme reports whether exactly one of a and b is an integer: then they are versions of two
// servers. Two versions that are both no integers prove nothing if they differ: one server may have
// both, in either order.
func otherScheme(a, b string) bool {
	return resourceversion.IsInteger(a) != resourceversion.IsInteger(b)
}

// least returns the oldest resourceVersion that a state of the server may have. It includes the
// objects of a list that broke off, since the store contains them too.
func (m *machine) least() string { return resourceversion.Newest(m.brokenListRV, m.rv) }

// deny counts an answer that the server has not reached rv, and asks for the server's newest
// version.
func (m *machine) deny() {
	m.behind.denied++
	m.request = reqNewest
	m.goOn()
}

// caughtUp lists after a server that was behind has reached rv. Most likely it lagged. But a
// restored server may have reached the store's resourceVersions a second time, with other content,
// and a watch would never show that. The server of the next request may be behind again. So
// caughtUp waits before the list. The wait grows each time, even if other requests have failed in
// between.
func (m *machine) caughtUp() {
	m.forcedLists++
	m.attempt, m.cheapFailures = m.listBackoffAttempt(), 0
	m.atLeast = m.request == reqReaches
	m.consistent = !m.atLeast
	m.behind, m.unconfirmed = behind{}, true
	m.sleep(reqList, nil)
}

// newestFailed handles a failed request for the newest resourceVersion.
func (m *machine) newestFailed(sentinel error) {
	examined := m.examined()
	if !examined && sentinel != ErrUnreachable && sentinel != ErrTooManyRequests {
		m.answeredProbes++
	}
	switch {
	case m.request == reqReaches && (sentinel == ErrServerBehind || m.hopeless()):
		m.deny() // ErrServerBehind, or the server cannot answer this kind of request
		return
	case examined && !m.hopeless() && sentinel != ErrUnreachable && sentinel != ErrTooManyRequests:
		m.sleep(m.request, sentinel)
		return
	case examined:
		// The server reports only that rv lies in its future. The list itself then serves as the
		// server's consistent answer.
		if m.askingListFloor {
			m.askingListFloor, m.listFloor = false, m.least()
		}
		if m.behind.unansweredQuestions++; m.behind.unansweredQuestions >= relistAfter && m.behind.denied >= agreeing {
			m.wentBack("an older one")
			return
		}
		m.sleep(reqList, sentinel)
		return
	}
	m.behind, m.unconfirmed = behind{}, true
	switch {
	case m.askingListFloor:
		m.askingListFloor, m.listFloor = false, m.least() // the newest version that is known
		// The first state must not be older than the server was at the start. And lists that are
		// needed repeatedly, because no watch works, must return newer state.
		repeated := m.insteadOfWatch || m.forcedLists > 1 || m.refused > 1 || m.unansweredWatches > 0
		m.noMatch = m.noMatch || (repeated || !m.synced) && !m.noConsistent
		m.sleep(reqList, sentinel)
	case sentinel == ErrUnknownResource:
		m.sleep(reqList, sentinel) // when the resource appears again it may be a different one
	case m.hopeless():
		m.listInstead(sentinel)
	default:
		// A watch that can resume without the answer must not wait for it.
		m.sleep(reqWatch, sentinel)
	}
}

// examined reports whether the reflector is examining a server that is behind.
func (m *machine) examined() bool { return m.behind.rounds > 0 || m.behind.denied > 0 }
