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
	// agreeing is how many times a server must say that rv lies in its future before it counts as
	// one that went back in time. Its consistent answers in between must agree.
	agreeing = 2
	// maxRounds bounds the examination of servers whose answers never agree.
	maxRounds = 8
	// maxTooLarge is how often a state is refused as newer than the server's, which says otherwise in
	// between, before it is asked for without that condition. The refusals take two minutes or more. A
	// replica that lags has caught up by then, or another one answers.
	maxTooLarge = 20
)

// behind is what is known of a server whose newest resourceVersion is older than rv. There are two
// explanations:
//
//   - The server is a replica that lags. Then it, or another replica, reaches rv soon, and nothing
//     that it told may be taken.
//   - The server was restored from a backup. Then its state is the truth. Only a server that keeps
//     saying that rv lies in its future, and whose consistent answers agree, has gone back.
//
// A LIST follows in both cases. The zero value means that no such server is known.
type behind struct {
	at                  string // its newest resourceVersion, as it told last
	denied              int    // times it said that rv lies in its future, since its answers agree
	rounds              int    // times it told an older resourceVersion than rv
	unansweredQuestions int    // times it did not tell its own
}

// fallsBehind handles a server whose newest resourceVersion is at, which is older than rv.
func (m *machine) fallsBehind(at string) {
	b := &m.behind
	if b.rounds > 0 && resourceversion.Older(at, b.at) {
		b.denied = 0 // not the server that answered before
	}
	// Without "not older than" the next list may be behind as well.
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

// wentBack lists a server that was restored from a backup, and takes its state.
func (m *machine) wentBack(at string) {
	m.restored = true
	m.behind = behind{}
	m.report(ErrWentBack, fmt.Errorf("resourceVersion %s after %s", at, m.least()))
	m.rebase, m.consistent, m.withoutInitial, m.atLeast = true, true, true, false
	m.list()
}

// refusedAsTooLarge handles a state that was refused because it must not be older than the store,
// or than the server's answer to a probe. A watch cache that stands still refuses that for good,
// and so does one whose etcd reports no progress while its resource is quiet. The answer to a probe
// comes from etcd, and shows no fault. So does a consistent list.
func (m *machine) refusedAsTooLarge() {
	m.tooLarge++
	m.withoutInitial = m.withoutInitial || m.tooLarge >= relistAfter
	if m.tooLarge >= maxTooLarge {
		m.noMatch, m.noConsistent = true, false
	}
	m.listFloor = "" // it may have been restored since it told that
	m.behind.denied++
	m.sleep(reqNewest, ErrServerBehind)
}

// outdated lists because another reflector has found that the server went back. The server need not
// be the one of this watch, and it may have reached rv again. So the list is a usual one, and the
// server is examined if the list is older.
func (m *machine) outdated() {
	m.report(ErrWentBack, errElsewhere)
	m.consistent, m.unconfirmed = true, true
	m.forgetLists()
	m.phase, m.request = Waiting, reqList
	m.do(wait{m.cfg.Backoff.delay(nil, m.backoffAttempt(nil), 0, m.in.jitter) + time.Duration(float64(m.in.spread)*m.in.jitter)})
}

// incomparableVersions takes the state of a server whose resourceVersions cannot be compared with
// rv. Nothing is known about what came before.
func (m *machine) incomparableVersions() {
	m.rebase, m.consistent = true, true
	m.list()
}

// newest handles the answer to a question for the newest resourceVersion.
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
		m.deny() // it does not know what was asked, and told its newest
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

// behindRV reports whether the answer is older than the store.
func (m *machine) behindRV() bool { return resourceversion.Older(m.in.rv, m.least()) }

// otherScheme reports whether a is an integer and b is not, or the other way round: then they are
// versions of two servers. Two that are no integers say nothing if they differ: one server may have
// both, in either order.
func otherScheme(a, b string) bool {
	return resourceversion.IsInteger(a) != resourceversion.IsInteger(b)
}

// least returns the oldest resourceVersion that a state of the server may have. It counts the
// objects of a list that broke off, since they are held too.
func (m *machine) least() string { return resourceversion.Newest(m.brokenListRV, m.rv) }

// deny counts an answer that the server has not reached rv, and asks how far it is.
func (m *machine) deny() {
	m.behind.denied++
	m.request = reqNewest
	m.goOn()
}

// caughtUp lists a server that was found behind and is so no longer. Most likely it lagged. But a
// restored server may have reached the store's resourceVersions a second time, with other content,
// and a watch would never show it. The next request may find it behind again. So there is a wait,
// which grows each time that this comes, also where other requests have failed before.
func (m *machine) caughtUp() {
	m.forcedLists++
	m.attempt, m.cheapFailures = m.listBackoffAttempt(), 0
	m.atLeast = m.request == reqReaches
	m.consistent = !m.atLeast
	m.behind, m.unconfirmed = behind{}, true
	m.sleep(reqList, nil)
}

// newestFailed handles a question for the newest resourceVersion that failed.
func (m *machine) newestFailed(sentinel error) {
	examined := m.examined()
	if !examined && sentinel != ErrUnreachable && sentinel != ErrTooManyRequests {
		m.answeredProbes++
	}
	switch {
	case m.request == reqReaches && (sentinel == ErrServerBehind || m.hopeless()):
		m.deny() // or it cannot be asked this way
		return
	case examined && !m.hopeless() && sentinel != ErrUnreachable && sentinel != ErrTooManyRequests:
		m.sleep(m.request, sentinel)
		return
	case examined:
		// It tells nothing but that rv lies in its future. The list itself is then its consistent
		// answer.
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
		m.askingListFloor, m.listFloor = false, m.least() // as new as can be had
		// But the first state must not be older than the start, and lists that are necessary again
		// and again, for want of a watch, must bring what is newer.
		repeated := m.insteadOfWatch || m.forcedLists > 1 || m.refused > 1 || m.unansweredWatches > 0
		m.noMatch = m.noMatch || (repeated || !m.synced) && !m.noConsistent
		m.sleep(reqList, sentinel)
	case sentinel == ErrUnknownResource:
		m.sleep(reqList, sentinel) // when it appears again it may be another one
	case m.hopeless():
		m.listInstead(sentinel)
	default:
		// A watch that could go on without an answer must not wait for one.
		m.sleep(reqWatch, sentinel)
	}
}

// examined reports whether a server that is behind is being examined.
func (m *machine) examined() bool { return m.behind.rounds > 0 || m.behind.denied > 0 }
