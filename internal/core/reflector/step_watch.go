package reflector

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/source"
)

const (
	// bookmarkPeriod is longer than kube-apiserver leaves a watch without a bookmark, where etcd tells
	// it of its progress each few seconds.
	bookmarkPeriod = 90 * time.Second
	// hungAfter is how long a watch without an answer takes to count as askAfter of them.
	hungAfter = 10 * time.Second
	// maxSilence is how long such watches may stand while no probe is answered. A server that was
	// restored from a backup accepts a watch from beyond its end, and sends nothing.
	maxSilence = 2 * bookmarkPeriod
	// provingTimeout is the time of a watch that is to bring a bookmark soon, see proves. It is the
	// shortest for which kube-apiserver sends one: two seconds before the end.
	provingTimeout = 3 * time.Second
	// A watch without bookmarks is silent whenever its resource is. So where none ever came, after
	// patientLists lists that stood in for such watches each next one takes twice as many of them, up
	// to 1 << maxPatience times as many: two and a half hours.
	patientLists = 4
	maxPatience  = 5
)

// watch requests the changes since rv.
func (m *machine) watch() {
	m.request, m.phase, m.initial = reqWatch, Watching, false
	m.stream = stream{}
	a := openWatch{WatchOptions: source.WatchOptions{
		ResourceVersion: m.rv, AllowBookmarks: true, Timeout: m.watchTimeout(),
	}}
	if m.proves() {
		a.Timeout = provingTimeout
	}
	switch {
	case m.rv == "": // there is nothing to compare with
	case m.opaque(): // an answer sooner would say nothing, see otherScheme
		a.probe, a.unheard = max(bookmarkPeriod-m.unheard, m.cfg.Backoff.Min), m.unheard
	case m.unconfirmed:
		a.probe = m.cfg.Backoff.delay(nil, 1, 0, m.in.jitter)
	default:
		a.probe = bookmarkPeriod
	}
	m.do(a)
}

// watchInitial requests the whole state as initial events, and then its changes.
func (m *machine) watchInitial() {
	m.request, m.phase, m.initial, m.limit = reqWatch, Listing, true, 0
	m.stream = stream{}
	rv, _ := m.from()
	m.do(openWatch{WatchOptions: source.WatchOptions{
		ResourceVersion: rv, Match: metav1.ResourceVersionMatchNotOlderThan, SendInitialEvents: true,
		AllowBookmarks: true, Timeout: m.watchTimeout(),
	}, deadline: m.cfg.BookmarkDeadline})
}

// watchTimeout returns a random time between Config.WatchTimeout and twice that. It is whole
// seconds or Config.WatchTimeout, which a source rounds up to such.
func (m *machine) watchTimeout() time.Duration {
	d := m.cfg.WatchTimeout
	return max(d, (d + time.Duration(float64(d)*m.in.jitter)).Truncate(time.Second))
}

func (m *machine) watchOpened() {
	m.open = true
	if m.initial {
		m.do(beginReplace{m.rebase, m.restored})
		m.replacing = true
	}
	switch sentinel := m.sentinel(); {
	case sentinel == ErrEnded, sentinel == ErrSilent, sentinel == ErrTooManyRequests && m.failedInStream:
		// These are over only when something comes.
	default:
		m.err = nil
	}
}

// watchDelivered notes that the watch works. Initial events make up for no failure before all of
// them have come.
func (m *machine) watchDelivered() {
	m.brought, m.unconfirmed, m.silence, m.unheard, m.newer, m.standIns, m.err = true, false, 0, 0, false, 0, nil
	if !m.initial && m.stood+m.in.after >= m.cfg.Backoff.Healthy {
		m.forgive()
	}
}

func (m *machine) events() {
	m.watchDelivered()
	if m.initial {
		return
	}
	m.advance()
	if m.in.damaged > 0 && !m.unreadable {
		// Perhaps it was damaged on the way: a list has it as it is. A list that cannot read it
		// either is enough.
		m.unreadable, m.consistent = true, true
		m.do(closeStream{})
		m.attempt++
		m.forcedLists++
		m.raiseAttempt(m.listBackoffAttempt())
		m.sleep(reqList, ErrMalformed)
	}
}

// advance makes the input's resourceVersion the one to resume from.
func (m *machine) advance() {
	if m.in.rv == "" || resourceversion.Older(m.in.rv, m.rv) {
		return
	}
	if m.in.rv != m.rv {
		m.moved, m.stoodIn, m.attempt, m.missing, m.refused = true, false, 0, 0, 0
		m.inVain = inVain{}
		m.forgiveLists()
		m.forgetLists()
	}
	m.rv = m.in.rv
	m.do(progress{m.rv})
}

func (m *machine) bookmark() {
	switch {
	case m.initial && !m.in.final:
		m.brought = true // a server that is alive; where it is counts once it is through
	case m.behindRV() && !(m.initial && m.rebase):
		m.watchBehind()
	case m.initial:
		m.initial, m.phase = false, Watching
		m.watchDelivered()
		m.unreadable = m.in.damaged > 0
		m.complete(m.in.rv)
		m.moved = true
	default:
		m.watchDelivered()
		m.bookmarked = true
		m.advance()
	}
}

// watchBehind handles a bookmark older than the store. The server sends none of its changes until
// it has passed the store's version.
func (m *machine) watchBehind() {
	m.abandon()
	m.failedOnce(ErrServerBehind)
	m.initial = false
	m.do(closeStream{})
	m.fallsBehind(m.in.rv)
}

// probed handles a watch that was broken off by a probe: the server told its newest
// resourceVersion, or did not answer.
func (m *machine) probed() {
	switch {
	case m.in.err != nil:
		if m.in.err.Sentinel != ErrUnreachable && m.in.err.Sentinel != ErrTooManyRequests {
			m.answeredProbes++
		}
		m.failedOnce(m.in.err.Sentinel)
		m.report(ErrSilent, m.in.err)
		m.listInstead(ErrSilent)
		return
	case m.behindRV():
		m.failedOnce(ErrServerBehind)
		m.fallsBehind(m.in.rv)
		return
	case otherScheme(m.in.rv, m.rv):
		m.incomparableVersions()
		return
	}
	m.silentWatch()
}

// silentWatch handles a watch that brought nothing although the server has something newer. Either
// nothing of ours has changed and there are no bookmarks, or what the server sends is lost.
func (m *machine) silentWatch() {
	m.unheard, m.newer = 0, false
	m.failedAnswers++
	if m.hopeless() && m.failedAnswers >= m.silentWatches() {
		m.listInstead(ErrSilent)
		return
	}
	m.watch()
}

// silentWatches returns after how many silent watches in a row the state is listed again.
func (m *machine) silentWatches() int {
	if m.bookmarked {
		return relistAfter
	}
	return relistAfter << min(max(m.standIns-patientLists, 0), maxPatience)
}

// initialEnded handles a watch that ended before its initial events were complete. Most likely the
// server goes: one that knows no initial events meets the deadline.
func (m *machine) initialEnded() {
	m.failedOnce(ErrEnded)
	if m.failedAnswers > 1 {
		m.report(ErrEnded, nil)
	}
	m.initialFailed(ErrEnded)
}

// watchFailed handles a watch that failed by its answer, by an ERROR event, or by its stream.
func (m *machine) watchFailed(sentinel error) {
	m.unconfirmed = true // the server that answers next may have been restored from a backup
	switch {
	case m.vanished(sentinel):
		m.consistent = m.consistent || m.refused > 1
		m.sleep(reqList, sentinel)
	case sentinel == ErrExpired:
		m.attempt = 0 // it answers: only lists that were no help put the next one off
		m.consistent = true
		m.forcedLists++
		m.retryNow(reqList, sentinel)
	case sentinel == ErrMethodNotAllowed:
		m.verbRefused()
	case sentinel == ErrUnknownResource && m.refused >= maxRefused:
		m.verbRefused() // lists are answered
	case sentinel == ErrUnknownResource || m.rv == "":
		m.forcedLists++
		m.consistent = m.consistent || m.forcedLists > 1
		m.raiseAttempt(m.listBackoffAttempt())
		m.sleep(reqList, sentinel) // when it appears again it may be another one
	case m.hopeless() && sentinel != ErrTooManyRequests:
		m.listInstead(sentinel)
	case sentinel == ErrServerBehind:
		m.behind.denied++
		m.sleep(reqNewest, sentinel)
	case sentinel == ErrUnreachable && m.moved:
		m.attempt, m.err = 0, nil // a stream that brought something is no failure
		m.resume()
	case sentinel == ErrUnreachable:
		m.watchUnanswered(sentinel)
	default:
		m.sleep(reqWatch, sentinel)
	}
}

// verbRefused lists in place of watches that the server does not serve, while it serves lists. No
// watch will take the place of these lists, so they come slowly however small they are.
func (m *machine) verbRefused() {
	m.forcedLists++
	m.consistent = m.consistent || m.forcedLists > 1
	m.raiseAttempt(m.forcedLists)
	m.sleep(reqList, ErrMethodNotAllowed)
}

// watchUnanswered counts a watch that got no answer, or broke off and had brought nothing. Now and
// then it asks whether there is a server at all, or lists: the server may answer neither a watch
// nor a probe, and a LIST all the same.
func (m *machine) watchUnanswered(sentinel error) {
	before := m.unansweredWatches
	if m.unansweredWatches++; m.countsAsHung() {
		m.unansweredWatches = before + askAfter
	}
	switch {
	case m.unansweredWatches/listAfter > before/listAfter:
		m.listInstead(sentinel)
	case m.unansweredWatches/askAfter > before/askAfter:
		m.sleep(reqNewest, sentinel)
	default:
		m.sleep(reqWatch, sentinel)
	}
}

// countsAsHung reports whether a watch that failed took so long for nothing that it counts as
// askAfter watches. One that was open is given longer, and the first of them may just have been
// cut.
func (m *machine) countsAsHung() bool {
	if m.open {
		return !m.brought && m.unansweredWatches > 1 && m.in.after >= askAfter*hungAfter
	}
	return m.in.after >= hungAfter
}

// initialFailed handles a watch that failed before its initial events were complete.
func (m *machine) initialFailed(sentinel error) {
	m.abandon()
	m.initial = false
	switch sentinel {
	case ErrUnreachable, ErrEnded, ErrUnauthorized, ErrForbidden, ErrUnknownResource, ErrTooManyRequests:
		m.withoutInitial = m.tries() >= relistAfter
		m.sleep(reqList, sentinel)
	case ErrServerBehind:
		m.refusedAsTooLarge()
	case ErrExpired:
		// No state can be too old to be sent, so the server fails at initial events.
		m.withoutInitial = m.askedConsistent || m.least() != ""
		m.consistent = true
		m.sleep(reqList, sentinel)
	default:
		m.mode = Auto // for good: a LIST as the server's version wants it
		m.retryNow(reqList, sentinel)
	}
}
