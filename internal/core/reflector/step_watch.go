package reflector

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/source"
)

const (
	// bookmarkPeriod is longer than kube-apiserver leaves a watch without a bookmark if etcd
	// reports its progress every few seconds.
	bookmarkPeriod = 90 * time.Second
	// hungAfter is the time after which one watch without an answer counts as askAfter such
	// watches.
	hungAfter = 10 * time.Second
	// maxSilence is how long watches may send nothing while no probe is answered. A server that was
	// restored from a backup accepts a watch from a version that it has not reached, and sends
	// nothing.
	maxSilence = 2 * bookmarkPeriod
	// provingTimeout is the timeout of a watch that must soon receive a bookmark, see proves. It is
	// the shortest timeout for which kube-apiserver sends a bookmark: two seconds before the end.
	provingTimeout = 3 * time.Second
	// A watch without bookmarks is silent whenever its resource does not change. So if no bookmark
	// was ever received, the number of silent watches before a list grows: after patientLists lists
	// that replaced such watches, it doubles with each list, up to 1 << maxPatience times
	// relistAfter: two and a half hours.
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
	case m.rv == "": // no version to compare an answer with
	case m.opaque(): // an earlier answer would prove nothing, see otherScheme
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

// watchTimeout returns a random time between Config.WatchTimeout and twice that, in whole seconds.
// It may also return Config.WatchTimeout itself, which a source rounds up to whole seconds.
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
		// These errors end only when the watch sends something.
	default:
		m.err = nil
	}
}

// watchDelivered records that the watch works. Initial events clear the failure counts only when
// they are complete.
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
		// The object may have been damaged in transit, and a list would return it intact. If the
		// list cannot read it either, no further list follows.
		m.unreadable, m.consistent = true, true
		m.do(closeStream{})
		m.attempt++
		m.forcedLists++
		m.raiseAttempt(m.listBackoffAttempt())
		m.sleep(reqList, ErrMalformed)
	}
}

// advance makes the input's resourceVersion the version to resume from.
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
		m.brought = true // the server is alive; its version counts once the initial events are complete
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

// watchBehind handles a bookmark older than the store. Such a server sends no changes until it has
// passed the store's version.
func (m *machine) watchBehind() {
	m.abandon()
	m.failedOnce(ErrServerBehind)
	m.initial = false
	m.do(closeStream{})
	m.fallsBehind(m.in.rv)
}

// probed handles a watch that a probe broke off: the server reported its newest resourceVersion, or
// did not answer.
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

// silentWatch handles a watch that sent nothing although the server has a newer version. Either no
// object of this watch has changed and the server sends no bookmarks, or the network loses what the
// server sends.
func (m *machine) silentWatch() {
	m.unheard, m.newer = 0, false
	m.failedAnswers++
	if m.hopeless() && m.failedAnswers >= m.silentWatches() {
		m.listInstead(ErrSilent)
		return
	}
	m.watch()
}

// silentWatches returns the number of silent watches in a row after which the reflector lists.
func (m *machine) silentWatches() int {
	if m.bookmarked {
		return relistAfter
	}
	return relistAfter << min(max(m.standIns-patientLists, 0), maxPatience)
}

// initialEnded handles a watch that ended before its initial events were complete. Most likely the
// server is shutting down: a server that does not support initial events runs into the deadline
// instead.
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
		m.attempt = 0 // the server answers: only lists that did not help delay the next one
		m.consistent = true
		m.forcedLists++
		m.retryNow(reqList, sentinel)
	case sentinel == ErrMethodNotAllowed:
		m.verbRefused()
	case sentinel == ErrUnknownResource && m.refused >= maxRefused:
		m.verbRefused() // the server answers lists
	case sentinel == ErrUnknownResource || m.rv == "":
		m.forcedLists++
		m.consistent = m.consistent || m.forcedLists > 1
		m.raiseAttempt(m.listBackoffAttempt())
		m.sleep(reqList, sentinel) // when the resource appears again it may be a different one
	case m.hopeless() && sentinel != ErrTooManyRequests:
		m.listInstead(sentinel)
	case sentinel == ErrServerBehind:
		m.behind.denied++
		m.sleep(reqNewest, sentinel)
	case sentinel == ErrUnreachable && m.moved:
		m.attempt, m.err = 0, nil // a stream that sent something is no failure
		m.resume()
	case sentinel == ErrUnreachable:
		m.watchUnanswered(sentinel)
	default:
		m.sleep(reqWatch, sentinel)
	}
}

// verbRefused lists in place of watches that the server does not serve, while it serves lists. No
// watch will end this series of lists, so they are slow even if they are small.
func (m *machine) verbRefused() {
	m.forcedLists++
	m.consistent = m.consistent || m.forcedLists > 1
	m.raiseAttempt(m.forcedLists)
	m.sleep(reqList, ErrMethodNotAllowed)
}

// watchUnanswered counts a watch that got no answer, or broke off and had sent nothing. At every
// askAfter-th it probes whether there is a server at all. At every listAfter-th it lists: the
// server may answer a LIST although it answers neither a watch nor a probe.
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

// countsAsHung reports whether a failed watch waited so long in vain that it counts as askAfter
// watches. A watch that was open must have waited longer, and must not be the first: that one may
// just have been cut off.
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
		// The request is for the whole state, which cannot be too old. So the server fails at
		// initial events.
		m.withoutInitial = m.askedConsistent || m.least() != ""
		m.consistent = true
		m.sleep(reqList, sentinel)
	default:
		m.mode = Auto // permanently: a LIST in the form for the server's version
		m.retryNow(reqList, sentinel)
	}
}
