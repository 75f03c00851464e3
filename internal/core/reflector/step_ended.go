package reflector

import (
	"errors"
	"time"

	"github.com/weirproject/weir/internal/core/source"
)

const (
	// A watch that sent nothing and ended within shortWatch has failed, as in client-go. A short watch
	// that sent something is resumed immediately. But after maxShortWatches such watches in a row, the
	// next watch starts at least shortPace after the start of the last one.
	shortWatch      = time.Second
	maxShortWatches = 3
	shortPace       = 100 * time.Millisecond
	// maxEmptyWatches times Config.WatchTimeout is how long watches may send neither events nor
	// bookmarks before the reflector lists; see emptyFor.
	maxEmptyWatches = 10
)

func (m *machine) ended() {
	if m.initial {
		m.initialEnded()
		return
	}
	// A watch that ends before its timeout may be a sign that the server shuts down.
	m.endedWell(!m.brought || m.in.after < m.cfg.WatchTimeout)
}

// brokeOffIdle reports whether the failure of a stream is treated like a normal end: the stream
// ended between two events, and it was open for long enough or sent something. The failure of a
// proving watch (see proves) is treated in the same way if the watch lasted longer than its short
// timeout.
func (m *machine) brokeOffIdle() bool {
	return m.request == reqWatch && m.open && !m.initial && m.in.err.Sentinel == ErrUnreachable && !m.in.torn &&
		(m.proves() || !errors.Is(m.in.err, source.ErrStalled)) && (m.brought || !m.short())
}

// proves reports whether the next watch must be a proving watch, or the current watch is a proving
// watch that has sent nothing yet. A proving watch finds out whether watches still deliver events.
// It is necessary when watches in a row have sent nothing for bookmarkPeriod in total, although a
// server sends a bookmark more often. Each of these watches ended before its probe. So it is
// unknown whether the resource does not change or the network loses events. A server sends a
// bookmark shortly before the end of a watch. The proving watch has a short timeout, so that this
// bookmark arrives before a proxy ends the idle stream. If nothing arrives, and a probe has found
// that the server has a newer version, the proving watch counts as silent.
func (m *machine) proves() bool { return m.unheard >= bookmarkPeriod && !m.opaque() }

// short reports whether the current watch ended so soon that it counts as failed if it sent
// nothing: within shortWatch or, if Config.WatchTimeout is shorter than two seconds, within half of
// that timeout. A server may end a watch a little before its timeout.
func (m *machine) short() bool {
	return m.in.after < min(shortWatch, max(m.cfg.WatchTimeout, time.Second)/2)
}

// emptyFor returns how long watches may send neither events nor bookmarks, in total, before the
// reflector lists. The time is about an hour, even if each watch ends soon, because three causes
// look the same: the resource does not change, the network loses the events, or a proxy ends idle
// streams before they receive a bookmark.
func (m *machine) emptyFor() time.Duration {
	return maxEmptyWatches * max(m.cfg.WatchTimeout, defaultWatchTimeout)
}

// endedWell decides what follows a watch whose stream ended between two events. The end is no
// failure, unless the watch was short and sent nothing. If unconfirmed is true, the server of the
// next watch has to show that it is as new as the store.
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
	// without this, short watches that repeat an old version would continue forever
	case m.short() && !m.moved:
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

// endedSilent counts a watch that ended normally and sent nothing. missed is true if the watch was
// a proving watch, and a probe has found a newer version since the last event or bookmark. The
// probes of the watches before the proving watch count as well, because a proving watch is too
// short for a slow response. After a proving watch, unheard is zero again: otherwise, a server that
// responds to probes slowly would receive a watch every 3 s.
func (m *machine) endedSilent() (missed bool) {
	proving := m.proves()
	m.unheard += m.in.after
	switch m.in.probe {
	case probeFoundNewer:
		m.newer = true
	// probes are sent every bookmarkPeriod: the last one was after the last full period
	case probeAnswered:
		m.unheard, m.newer = m.in.after%bookmarkPeriod, false
	}
	missed = proving && m.newer
	if proving {
		m.unheard, m.newer = 0, false
	}
	return missed
}

// endedAtOnce decides what follows a watch that was short and sent nothing.
func (m *machine) endedAtOnce() {
	m.failedOnce(ErrEnded)
	switch {
	case m.rv == "":
		m.sleep(reqList, ErrEnded)
		return
	case m.failedAnswers > 1: // one such watch alone may mean that the server shuts down
		m.report(ErrEnded, nil)
	}
	if m.hopeless() {
		m.listInstead(ErrEnded)
		return
	}
	m.sleep(reqWatch, ErrEnded)
}

// listUnversioned lists again after a watch of a server without resourceVersions, because there is
// no version to resume from. The size of the lists and Backoff.Min limit their rate.
func (m *machine) listUnversioned() {
	pace := max(min(time.Duration(m.size)*time.Second/cheapObjects, hungAfter), m.cfg.Backoff.Min)
	if d := jittered(pace, m.in.jitter) - m.in.after; d > 0 {
		m.phase, m.request = Waiting, reqList
		m.do(wait{d})
		return
	}
	m.list()
}

// resume starts the next watch after one that ended normally. It waits only if too many watches in
// a row were short.
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
