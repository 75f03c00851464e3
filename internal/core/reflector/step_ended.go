package reflector

import (
	"errors"
	"time"

	"github.com/weirproject/weir/internal/core/source"
)

const (
	// A watch that ended within shortWatch and brought nothing has failed, as in client-go. One that
	// brought something is resumed immediately. But after maxShortWatches of those no watch begins
	// within shortPace after the last one.
	shortWatch      = time.Second
	maxShortWatches = 3
	shortPace       = 100 * time.Millisecond
	// maxEmptyWatches is the number of watches of Config.WatchTimeout after whose time the state is
	// listed again, see emptyFor.
	maxEmptyWatches = 10
)

// ended handles a watch that the server ended.
func (m *machine) ended() {
	if m.initial {
		m.initialEnded()
		return
	}
	// Before its time: perhaps the server ends.
	m.endedWell(!m.brought || m.in.after < m.cfg.WatchTimeout)
}

// brokeOffIdle reports whether a stream that failed is as good as one that the server ended: it
// broke off between two events, and has stood or brought something. So is one that proves, and
// outlives the short time that the server was asked for.
func (m *machine) brokeOffIdle() bool {
	return m.request == reqWatch && m.open && !m.initial && m.in.err.Sentinel == ErrUnreachable && !m.in.torn &&
		(m.proves() || !errors.Is(m.in.err, source.ErrStalled)) && (m.brought || !m.short())
}

// proves reports whether the next watch, or the one under way while it has brought nothing, is to
// show that watches deliver. The watches before it were silent for as long as a server leaves one
// without a bookmark, but each ended sooner than the probe of a silent watch, so that nothing tells
// a quiet resource from a network that swallows events. A server sends a bookmark before the end of
// a watch. So this one is asked to end before a front end that ends idle streams does it, and
// counts as silent if it brings nothing and a probe has found that the server has something newer.
func (m *machine) proves() bool { return m.unheard >= bookmarkPeriod && !m.opaque() }

// short reports whether the watch at hand has ended so soon that it counts as refused if it brought
// nothing. A server that was asked for a second may end it a little earlier.
func (m *machine) short() bool {
	return m.in.after < min(shortWatch, max(m.cfg.WatchTimeout, time.Second)/2)
}

// emptyFor returns how long watches may stand, one after the other, that bring not even a bookmark,
// before the state is listed again. A resource that does not change looks the same as a network
// that swallows its events, and so does one whose bookmarks do not come since a proxy ends idle
// streams sooner. So this takes an hour or so, however soon watches end.
func (m *machine) emptyFor() time.Duration {
	return maxEmptyWatches * max(m.cfg.WatchTimeout, defaultWatchTimeout)
}

// endedWell continues after a watch whose stream ended between two events. That is no failure,
// unless the watch was short and brought nothing. unconfirmed says that the server of the next one
// has to show how new it is.
func (m *machine) endedWell(unconfirmed bool) {
	m.unconfirmed = unconfirmed
	if m.short() && !m.brought {
		m.endedAtOnce()
		return
	}
	m.attempt = 0
	if m.stood += m.in.after; m.stood >= m.cfg.Backoff.Healthy {
		m.forgive()
	}
	if m.silence += m.in.after; m.brought || m.in.probe != probeUnanswered {
		m.silence = 0
	}
	missed := false
	switch {
	case !m.brought:
		m.empty += m.in.after
		missed = m.endedSilent()
	case m.short() && !m.moved: // or they would be repeated forever
		m.empty += max(m.in.after, shortPace)
	}
	switch {
	case m.rv == "":
		m.listUnversioned()
		return
	case m.silence >= maxSilence:
		m.report(ErrSilent, nil)
		m.listInstead(ErrSilent)
		return
	case m.sentinel() != ErrSilent:
		m.err = nil
	}
	if m.empty >= m.emptyFor() {
		m.consistent = true
		m.list()
		return
	}
	if missed {
		m.silentWatch()
		return
	}
	m.resume()
}

// endedSilent counts a watch that ended well and has brought nothing. It reports whether the watch
// was to prove that watches deliver, and has not, although a probe has found a newer version since
// something was heard. Such a watch is too short for a slow answer, so the answers of the probes
// before it count as well. After it the 90 s begin again in any case, or a server that is too slow
// for its probe would be sent a watch every 3 s.
func (m *machine) endedSilent() (missed bool) {
	proving := m.proves()
	m.unheard += m.in.after
	switch m.in.probe {
	case probeFoundNewer:
		m.newer = true
	case probeAnswered: // they are sent each bookmarkPeriod
		m.unheard, m.newer = m.in.after%bookmarkPeriod, false
	}
	missed = proving && m.newer
	if proving {
		m.unheard, m.newer = 0, false
	}
	return missed
}

// endedAtOnce handles a watch that ended as soon as it began, and brought nothing.
func (m *machine) endedAtOnce() {
	m.failedOnce(ErrEnded)
	switch {
	case m.rv == "":
		m.sleep(reqList, ErrEnded)
		return
	case m.failedAnswers > 1: // once is a server that shuts down
		m.report(ErrEnded, nil)
	}
	if m.hopeless() {
		m.listInstead(ErrEnded)
		return
	}
	m.sleep(reqWatch, ErrEnded)
}

// listUnversioned lists again after a watch of a server without resourceVersions: there is nothing
// to resume from. Such lists are no more frequent than their size and the first wait permit.
func (m *machine) listUnversioned() {
	pace := max(min(time.Duration(m.size)*time.Second/cheapObjects, hungAfter), m.cfg.Backoff.Min)
	if d := jittered(pace, m.in.jitter) - m.in.after; d > 0 {
		m.phase, m.request = Waiting, reqList
		m.do(wait{d})
		return
	}
	m.list()
}

// resume watches again after a watch that ended well: immediately, unless too many were short.
func (m *machine) resume() {
	if !m.short() {
		m.shortWatches = 0
	} else if m.shortWatches++; m.shortWatches > maxShortWatches && m.in.after < shortPace {
		m.phase, m.request = Waiting, reqWatch
		m.do(wait{shortPace - m.in.after})
		return
	}
	m.watch()
}
