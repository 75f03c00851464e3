package reflector

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirproject/weir/internal/core/resourceversion"
)

// errElsewhere is the cause of ErrWentBack if another reflector found that the server went back.
var errElsewhere = errors.New("found by another reflector of the server")

const (
	// agreeing is a number of responses which say that the server has not reached the store's version.
	// After them, the reflector concludes that the server went back in time, unless the versions that
	// the server reports became lower in between.
	agreeing = 2
	// maxRounds is how often a server may report a version that is older than the store's. After that,
	// the reflector concludes that the server went back, even if the server's responses contradict
	// each other.
	maxRounds = 8
	// A server may refuse lists with the condition "not older than the store", although its answers to
	// probes say that it has reached the store's version. maxTooLarge is the maximum number of these
	// refusals. After that, the reflector lists without the condition. The refusals take two minutes
	// or more. In that time a replica that lags catches up, or another replica responds.
	maxTooLarge = 20
)

// behind describes a server whose newest resourceVersion is older than rv, the store's version.
// There are two explanations:
//
//   - The server is a replica that lags. Then the reflector must not store its older state: this or
//     another replica reaches rv soon.
//   - The server was restored from a backup. Then the reflector must replace the store's state with
//     the server's.
//
// The reflector concludes that the server was restored (wentBack) in three cases:
//
//   - The server responds twice (agreeing) that it has not reached rv, and the versions that it
//     reports between these responses do not become lower.
//   - The server reports a version older than rv more than maxRounds times.
//   - The server responds twice that it has not reached rv, and three requests (relistAfter) for
//     its newest version get no response.
//
// A LIST follows in every case, also if the replica catches up. The zero value means that no server
// is known to be behind rv.
type behind struct {
	at string // the newest resourceVersion that the server last reported
	// denied counts the responses that say that the server has not reached rv. The count starts again
	// when the server reports a lower version than before.
	denied              int
	rounds              int // reports of a resourceVersion older than rv
	unansweredQuestions int // requests for its newest resourceVersion that got no response
}

// fallsBehind handles a server whose newest resourceVersion, at, is older than rv.
func (m *machine) fallsBehind(at string) {
	b := &m.behind
	if b.rounds > 0 && resourceversion.Older(at, b.at) {
		b.denied = 0 // the earlier response was from a different server
	}
	// Without the condition "not older than", the next list could be too old as well.
	m.insteadOfWatch, m.noMatch = false, false
	b.at = at
	b.rounds++
	if b.denied >= agreeing || b.rounds > maxRounds {
		m.wentBack(at)
		return
	}
	m.report(ErrServerBehind, fmt.Errorf("its newest is %s, and it reported %s before", at, m.least()))
	if b.denied > 0 || b.rounds > 1 {
		m.sleep(reqReaches, ErrServerBehind)
		return
	}
	m.request = reqReaches
	m.goOn()
}

// wentBack handles a server that was restored from a backup: it lists, and replaces the store's
// state with the server's.
func (m *machine) wentBack(at string) {
	m.restored = true
	m.behind = behind{}
	m.report(ErrWentBack, fmt.Errorf("resourceVersion %s after %s", at, m.least()))
	m.rebase, m.consistent, m.withoutInitial, m.atLeast = true, true, true, false
	m.list()
}

// refusedAsTooLarge counts a 504 ResourceVersionTooLarge for a list or for initial events. The
// request required a state not older than the store, or than the version in the response to a
// probe. A watch cache that no longer advances refuses such a state forever. So does a watch cache
// whose etcd does not report progress, while its resource does not change. Probes and consistent
// lists succeed in spite of that fault, because etcd serves them.
func (m *machine) refusedAsTooLarge() {
	m.tooLarge++
	m.withoutInitial = m.withoutInitial || m.tooLarge >= relistAfter
	if m.tooLarge >= maxTooLarge {
		m.noMatch, m.noConsistent = true, false
	}
	m.listFloor = "" // the server may have been restored since it reported this version
	m.behind.denied++
	m.sleep(reqNewest, ErrServerBehind)
}

// outdated handles the case that another reflector has found that the server went back in time: it
// requests an ordinary consistent list. This reflector may reach a different server, which may have
// reached the store's version a second time. If the version of the list is older than the store's,
// the reflector examines whether the server went back.
func (m *machine) outdated() {
	m.report(ErrWentBack, errElsewhere)
	m.consistent, m.unconfirmed = true, true
	m.forgetLists()
	m.phase, m.request = Waiting, reqList
	m.do(wait{m.cfg.Backoff.delay(nil, m.backoffAttempt(nil), 0, m.in.jitter) + time.Duration(float64(m.in.spread)*m.in.jitter)})
}

// incomparableVersions requests a list from a server whose resourceVersions cannot be compared with
// rv. The list replaces the store's state, because the order of the two states is unknown.
func (m *machine) incomparableVersions() {
	m.rebase, m.consistent = true, true
	m.list()
}

// newest handles the response to a request for the newest resourceVersion.
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

// behindRV reports whether the version in the input is older than the store.
func (m *machine) behindRV() bool { return resourceversion.Older(m.in.rv, m.least()) }

// otherScheme reports whether exactly one of a and b is an integer. Then the versions are from two
// servers. If neither is an integer, a difference proves nothing: one server may report both a and
// b, in either order.
func otherScheme(a, b string) bool {
	return resourceversion.IsInteger(a) != resourceversion.IsInteger(b)
}

// least returns the lowest version that a state of the server may have: the store's version. The
// store also contains the objects of a list that failed before its end. So the result is not older
// than the newest of these objects.
func (m *machine) least() string { return resourceversion.Newest(m.brokenListRV, m.rv) }

// deny counts a response in which the server denies that it has reached rv. It then requests the
// server's newest version.
func (m *machine) deny() {
	m.behind.denied++
	m.request = reqNewest
	m.goOn()
}

// caughtUp handles a server that was behind and has now reached rv: it requests a list. Most likely
// the server was a replica that lagged. But a restored server may have reached the store's
// resourceVersions a second time, with other content, and a watch would never show that. caughtUp
// waits before the list, because the next request may reach a replica that is still behind. The
// wait becomes longer each time, even if other requests have failed in between.
func (m *machine) caughtUp() {
	m.forcedLists++
	m.attempt, m.cheapFailures = m.listBackoffAttempt(), 0
	m.atLeast = m.request == reqReaches
	m.consistent = !m.atLeast
	m.behind, m.unconfirmed = behind{}, true
	m.sleep(reqList, nil)
}

// newestFailed handles the failure of a request for the newest resourceVersion.
func (m *machine) newestFailed(sentinel error) {
	examined := m.examined()
	if !examined && sentinel != ErrUnreachable && sentinel != ErrTooManyRequests {
		m.answeredProbes++
	}
	switch {
	case m.request == reqReaches && (sentinel == ErrServerBehind || m.hopeless()):
		m.deny() // the server has not reached rv, or cannot serve this kind of request
		return
	case examined && !m.hopeless() && sentinel != ErrUnreachable && sentinel != ErrTooManyRequests:
		m.sleep(m.request, sentinel)
		return
	case examined:
		// The server reports that it has not reached rv, but it does not report its newest version. So
		// the version of the next list decides.
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
		m.askingListFloor, m.listFloor = false, m.least() // least is the newest version that is known
		// A first state must be consistent: it must not be older than the server was at the start. Lists
		// that are repeated because no watch works must be consistent too, so that they show newer
		// changes.
		repeated := m.insteadOfWatch || m.forcedLists > 1 || m.refused > 1 || m.unansweredWatches > 0
		m.noMatch = m.noMatch || (repeated || !m.synced) && !m.noConsistent
		m.sleep(reqList, sentinel)
	case sentinel == ErrUnknownResource:
		m.sleep(reqList, sentinel) // when the resource exists again, it may be a different one
	case m.hopeless():
		m.listInstead(sentinel)
	default:
		// A watch can resume without the newest version, so it does not wait for that version.
		m.sleep(reqWatch, sentinel)
	}
}

// examined reports whether the reflector is finding out why a server is behind.
func (m *machine) examined() bool { return m.behind.rounds > 0 || m.behind.denied > 0 }
