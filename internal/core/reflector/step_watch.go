package reflector

import (
	"time"

	"github.com/weirproject/weir/internal/core/resourceversion"
)

const (
	// bookmarkPeriod is longer than the time that kube-apiserver leaves a watch without a bookmark, if
	// etcd reports its progress every few seconds.
	bookmarkPeriod = 90 * time.Second
	// hungAfter is the time without a response after which one watch counts as askAfter failed
	// watches.
	hungAfter = 10 * time.Second
	// maxSilence is how long watches may send nothing while no probe gets a response. A server that
	// was restored from a backup accepts a watch from a version that it has not reached, and sends
	// nothing.
	maxSilence = 2 * bookmarkPeriod
	// provingTimeout is the timeout of a proving watch, which must receive a bookmark soon; see
	// proves. It is the shortest timeout with which kube-apiserver sends a bookmark, two seconds
	// before the end.
	provingTimeout = 3 * time.Second
	// A server that sends no bookmarks is silent whenever its resource does not change. So if no
	// bookmark was ever received, the number of silent watches before a list grows. After patientLists
	// lists that replaced such watches, the number doubles with each list, up to 1 << maxPatience
	// times relistAfter. That many watches together last two and a half hours.
	patientLists = 4
	maxPatience  = 5
)

func (m *machine) watch() {
	m.request, m.phase, m.initial = reqWatch, Watching, false
	m.stream = stream{}
	a := openWatch{rv: m.rv, timeout: m.watchTimeout()}
	if m.proves() {
		a.timeout = provingTimeout
	}
	switch {
	case m.rv == "": // without a version, the response to a probe could not be compared
	case m.opaque(): // an earlier probe would prove nothing, see otherScheme
		a.probe, a.unheard = max(bookmarkPeriod-m.unheard, m.cfg.Backoff.Min), m.unheard
	case m.unconfirmed:
		a.probe = m.cfg.Backoff.delay(nil, 1, 0, m.in.jitter)
	default:
		a.probe = bookmarkPeriod
	}
	m.do(a)
}

// watchInitial requests the whole state as initial events, and the changes after it.
func (m *machine) watchInitial() {
	m.request, m.phase, m.initial, m.limit = reqWatch, Listing, true, 0
	m.stream = stream{}
	rv, _ := m.from()
	m.do(openWatch{rv: rv, initial: true, timeout: m.watchTimeout(), deadline: m.cfg.BookmarkDeadline})
}

// watchTimeout returns a random time from Config.WatchTimeout to twice that time. It is in whole
// seconds, or it is Config.WatchTimeout itself, which the request rounds up.
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
		// These errors remain until the watch sends something.
	default:
		m.err = nil
	}
}

// watchDelivered records that the watch has sent something. Initial events clear the failure counts
// only when they are complete.
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
		// The object may have been damaged in transit, and a list would contain it intact. If the list
		// cannot read it either, no further list follows.
		m.unreadable, m.consistent = true, true
		m.do(closeStream{})
		m.attempt++
		m.forcedLists++
		m.raiseAttempt(m.listBackoffAttempt())
		m.sleep(reqList, ErrMalformed)
	}
}

// advance sets rv, from which the next watch resumes, to the version in the input. If that version
// is older than rv, advance is a no-op.
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
		m.brought = true // the server responds, but its version counts only after the initial events
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

// watchBehind handles a bookmark that is older than the store. Such a server sends no changes on
// this watch until it has passed the store's version.
func (m *machine) watchBehind() {
	m.abandon()
	m.failedOnce(ErrServerBehind)
	m.initial = false
	m.do(closeStream{})
	m.fallsBehind(m.in.rv)
}

// probed handles a watch that a probe ended, because of the server's newest resourceVersion or
// because the probe failed.
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

// initialEnded handles a watch that the server ended before its initial events were complete. Most
// likely the server shuts down: with a server that does not support initial events, the deadline
// for the bookmark passes instead.
func (m *machine) initialEnded() {
	m.failedOnce(ErrEnded)
	if m.failedAnswers > 1 {
		m.report(ErrEnded, nil)
	}
	m.initialFailed(ErrEnded)
}

// watchFailed handles a watch that failed with an error response, with an ERROR event, or with an
// error of its stream.
func (m *machine) watchFailed(sentinel error) {
	m.unconfirmed = true // the server of the next watch may have been restored from a backup
	switch {
	case m.vanished(sentinel):
		m.consistent = m.consistent || m.refused > 1
		m.sleep(reqList, sentinel)
	case sentinel == ErrExpired:
		m.attempt = 0 // the server responds; forcedLists may still lengthen the wait
		m.consistent = true
		m.forcedLists++
		m.retryNow(reqList, sentinel)
	case sentinel == ErrMethodNotAllowed:
		m.verbRefused()
	case sentinel == ErrUnknownResource && m.refused >= maxRefused:
		m.verbRefused() // the server has the resource, because it serves lists
	case sentinel == ErrUnknownResource || m.rv == "":
		m.forcedLists++
		m.consistent = m.consistent || m.forcedLists > 1
		m.raiseAttempt(m.listBackoffAttempt())
		m.sleep(reqList, sentinel) // when the resource exists again, it may be a different one
	case m.hopeless() && sentinel != ErrTooManyRequests:
		m.listInstead(sentinel)
	case sentinel == ErrServerBehind:
		m.behind.denied++
		m.sleep(reqNewest, sentinel)
	case sentinel == ErrUnreachable && m.moved:
		m.attempt, m.err = 0, nil // the stream sent something newer, so this is no failure
		m.resume()
	case sentinel == ErrUnreachable:
		m.watchUnanswered(sentinel)
	default:
		m.sleep(reqWatch, sentinel)
	}
}

// verbRefused lists instead of watching, because the server serves lists but no watches of this
// resource. No watch will end this series of lists, so the waits grow even if the lists are small.
func (m *machine) verbRefused() {
	m.forcedLists++
	m.consistent = m.consistent || m.forcedLists > 1
	m.raiseAttempt(m.forcedLists)
	m.sleep(reqList, ErrMethodNotAllowed)
}

// watchUnanswered counts a watch that got no response, or that ended with an error and had sent
// nothing newer. After every askAfter such watches, it sends a probe to find out whether a server
// runs. After every listAfter such watches, it lists: the server may respond to a LIST although it
// responds neither to a watch nor to a probe.
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

// countsAsHung reports whether a failed watch received nothing for so long that it counts as
// askAfter watches. If the watch was open, the limit is longer, and the first such watch does not
// count, because only its connection may have broken.
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
		// The request was for the whole current state, whose version cannot be too old. So the server has
		// a problem with initial events.
		m.withoutInitial = m.askedConsistent || m.least() != ""
		m.consistent = true
		m.sleep(reqList, sentinel)
	default:
		m.mode = Auto // permanently; in mode Auto, the server's version decides the form
		m.retryNow(reqList, sentinel)
	}
}
