package reflector

import (
	"errors"
	"time"

	"github.com/weirproject/weir/internal/core/source"
)

const (
	// A watch that ended within shortWatch and sent nothing has failed, as in client-go. A short
	// watch that sent something is resumed immediately. But after maxShortWatches of those in a
	// row, the next watch starts no sooner than shortPace after the start of the last one.
	shortWatch      = time.Second
	maxShortWatches = 3
	shortPace       = 100 * time.Millisecond
	// maxEmptyWatches times Config.WatchTimeout is the time of watches without any event or
	// bookmark after which the reflector lists, see emptyFor.
	maxEmptyWatches = 10
)

// ended handles a watch that the server ended.
func (m *machine) ended() {
	if m.initial {
		m.initialEnded()
		return
	}
	// Before its timeout: perhaps the server is shutting down.
	m.endedWell(!m.brought || m.in.after < m.cfg.WatchTimeout)
}

// brokeOffIdle reports whether a stream that failed counts as one that the server ended: it broke
// off between two events, and was open for long enough or sent something. A proving watch (see
// proves) counts so too if it outlived the short timeout that it asked for.
func (m *machine) brokeOffIdle() bool {
	return m.request == reqWatch && m.open && !m.initial && m.in.err.Sentinel == ErrUnreachable && !m.in.torn &&
		(m.proves() || !errors.Is(m.in.err, source.ErrStalled)) && (m.brought || !m.short())
}

// proves reports whether the next watch, or the one under way while it has sent nothing, must show
// that watches deliver. The watches before it were silent for longer, in total, than a server
// leaves a watch without a bookmark. But each ended before the probe of a silent watch. So nothing
// shows whether the resource does not change or the network loses events. A server sends a bookmark
// before the end of a watch. So the proving watch asks for an end that comes before a proxy ends
// idle streams. It counts as silent if it sends nothing and a probe has found that the server has a
// newer version.
func (m *machine) proves() bool { return m.unheard >= bookmarkPeriod && !m.opaque() }

// short reports whether the current watch ended so soon that it counts as refused if it sent
// nothing. If the timeout was one second, a server may end the watch a little earlier.
func (m *machine) short() bool {
	return m.in.after < min(shortWatch, max(m.cfg.WatchTimeout, time.Second)/2)
}

// emptyFor returns the total time that watches may send nothing, not even a bookmark, before the
// reflector lists. A resource that does not change looks the same as a network that loses the
// resource's events. It also looks the same as a watch that gets no bookmarks because a proxy ends
// idle streams sooner. So the time is about an hour, however soon watches end.
func (m *machine) emptyFor() time.Duration {
	return maxEmptyWatches * max(m.cfg.WatchTimeout, defaultWatchTimeout)
}

// endedWell continues after a watch whose stream ended between two events. That is no failure,
// unless the watch was short and sent nothing. unconfirmed says that the server of the next watch
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
	case m.short() && !m.moved: // otherwise such watches would be repeated forever
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

// endedSilent counts a watch that ended normally and sent nothing. missed is true if the watch had
// to prove that watches deliver, and did not, although a probe has found a newer version since the
// last event or bookmark. A proving watch is too short for a slow answer, so the probes of the
// watches before it count as well. After a proving watch unheard starts again from zero, or a
// server that is too slow for its probe would receive a watch every 3 s.
func (m *machine) endedSilent() (missed bool) {
	proving := m.proves()
	m.unheard += m.in.after
	switch m.in.probe {
	case probeFoundNewer:
		m.newer = true
	case probeAnswered: // probes are sent each bookmarkPeriod
		m.unheard, m.newer = m.in.after%bookmarkPeriod, false
	}
	missed = proving && m.newer
	if proving {
		m.unheard, m.newer = 0, false
	}
	return missed
}

// endedAtOnce handles a watch that ended as soon as it began, and sent nothing.
func (m *machine) endedAtOnce() {
	m.failedOnce(ErrEnded)
	switch {
	case m.rv == "":
		m.sleep(reqList, ErrEnded)
		return
	case m.failedAnswers > 1: // a single one may be a server that shuts down
		m.report(ErrEnded, nil)
	}
	if m.hopeless() {
		m.listInstead(ErrEnded)
		return
	}
	m.sleep(reqWatch, ErrEnded)
}

// listUnversioned lists again after a watch of a server without resourceVersions: there is no
// version to resume from. The rate of such lists is bounded by their size and by Backoff.Min.
func (m *machine) listUnversioned() {
	pace := max(min(time.Duration(m.size)*time.Second/cheapObjects, hungAfter), m.cfg.Backoff.Min)
	if d := jittered(pace, m.in.jitter) - m.in.after; d > 0 {
		m.phase, m.request = Waiting, reqList
		m.do(wait{d})
		return
	}
	m.list()
}

// resume watches again after a watch that ended normally: immediately, unless too many watches were
// short.
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
