package reflector

import "time"

const (
	// relistAfter is the number of failed answers in a row, 429 aside, after which the state is
	// listed again. It is also the number of answered probes after which that happens while the
	// watch does not come through. Then it is the request, or its resourceVersion, that the server
	// cannot serve. A failure that is not known to pass counts as one that does not.
	relistAfter = 3
	// askAfter is the number of watches in a row without an answer after which a probe asks whether
	// there is a server at all.
	askAfter = 3
	// listAfter is the number of watches in a row without an answer after which the state is
	// listed, whether probes were answered or not. While there is no server at all, one request in
	// listAfter is a LIST, so few LISTs come when the server returns.
	listAfter = 12
	// maxFailures is the number of failures, but for 429 and requests without an answer, after which
	// the state is listed again. It is more than the examination of a server that is behind takes.
	maxFailures = 12
	// A resource that was there may be back at any moment. So the first answers that it is missing
	// set no slower pace, neither for themselves nor for what fails next. maxMissing bounds them;
	// they take a minute. maxRefused bounds those of them to a watch, since a refused watch
	// costs a list as well.
	maxMissing = 100
	maxRefused = 8
	// maxCheapFailures is the number of failures after which the waits grow for a server that cannot
	// be reached, or that refuses within quickRefusal. They take half a minute, and do not make
	// the waits after other failures longer.
	maxCheapFailures = 22
	quickRefusal     = time.Second
	// cheapObjects is the number of small objects that lists may bring in a second, and maxCheapLists
	// that of lists in a row that keep to it, while no watch stands. See listBackoffAttempt. A larger
	// object counts as several of smallObject bytes.
	cheapObjects  = 1000
	smallObject   = 8 << 10
	maxCheapLists = 12
)

// step returns the state that follows from s and in, and the actions to perform. It is the whole
// logic of the reflector. It has no clock, makes no request, and draws no random number.
func step(s state, in input) (state, []action) {
	m := machine{state: s, in: in}
	switch in.typ {
	case inBegin:
		m.begin()
	case inWoke:
		m.goOn()
	case inVersion:
		m.mode = Pages
		if streams(in.major, in.minor) {
			m.mode = List
		}
		m.list()
	case inNewest:
		m.newest()
	case inOpened:
		m.opened()
	case inPage:
		m.pageRead()
	case inEvents:
		m.events()
	case inBookmark:
		m.bookmark()
	case inProbed:
		m.probed()
	case inOutdated:
		m.outdated()
	case inEnded:
		m.ended()
	case inFailed:
		m.failed()
	}
	m.cheapFailures = min(m.cheapFailures, m.attempt)
	m.noteReason(&s)
	if checking {
		mustHold(s, m.state, in)
	}
	return m.state, m.actions
}

// streams reports whether a kube-apiserver of this version encodes a LIST while it sends it
// (KEP-5116, on by default since 1.33). There, a LIST without a limit costs the server little.
func streams(major, minor int) bool {
	return major > 1 || major == 1 && minor >= 33
}

// machine is one call of step under way.
type machine struct {
	state
	in      input
	actions []action
}

func (m *machine) do(a action) { m.actions = append(m.actions, a) }

// report sets err, which stops the reflector from being current.
func (m *machine) report(sentinel, cause error) {
	m.err = &Error{Phase: m.phase, Sentinel: sentinel, Err: cause}
}

// sleep waits before request q, as long as the failure wants.
func (m *machine) sleep(q request, sentinel error) {
	d := m.cfg.Backoff.delay(sentinel, m.backoffAttempt(sentinel), m.in.retryAfter, m.in.jitter)
	// Initial events that are refused cost nothing.
	if q == reqList && m.request == reqWatch && m.phase == Watching {
		d = max(d, jittered(m.listPace(), m.in.jitter))
	}
	m.phase, m.request = Waiting, q
	m.do(wait{d})
}

// backoffAttempt returns for which attempt the wait before the next request is. A server that
// cannot be reached, or refuses at once, does not make the wait longer than the second one for a
// while. It may recover at any moment, and a try costs little. Nor do such failures make the wait
// longer after one of another kind.
func (m *machine) backoffAttempt(sentinel error) int {
	if !m.cheap(sentinel) {
		return max(m.attempt-m.cheapFailures, 1)
	}
	return max(1, min(m.attempt, 2), m.attempt-maxCheapFailures)
}

// raiseAttempt sets a pace that is no faster than the n-th attempt's.
func (m *machine) raiseAttempt(n int) {
	if n > m.attempt-m.cheapFailures {
		m.attempt, m.cheapFailures = max(n, m.attempt), max(0, m.attempt-n)
	}
}

// listBackoffAttempt returns for which attempt the wait before a list is that failures of watches
// have made necessary. A small list costs the server little. So the waits of the first few grow no
// longer than cheapObjects asks for, and no store is behind for half a minute for want of a small
// list. They are few because a list that a selector makes small may cost the server a large one.
func (m *machine) listBackoffAttempt() int {
	b := m.cfg.Backoff
	wait := min(time.Duration(m.size)*time.Second/cheapObjects, b.Max)
	enough := min(m.forcedLists, 1)
	for enough < m.forcedLists && b.base(enough, b.Max) < wait {
		enough++
	}
	return max(enough, m.forcedLists-maxCheapLists)
}

// listPace returns the least wait before a list that a failing watch has made necessary, by the
// size of the list and how many there were. Backoff.Denied is no bound of it: who may list and not
// watch would list a large resource every few seconds.
func (m *machine) listPace() time.Duration {
	return m.cfg.Backoff.base(max(m.forcedLists, m.refused), min(time.Duration(m.size)*time.Second/cheapObjects, m.cfg.Backoff.Max))
}

// cheap reports whether a failure has cost the server little. A failure of a watch has cost
// something if such failures have made lists necessary, many or large ones.
func (m *machine) cheap(sentinel error) bool {
	watching := m.request == reqWatch && !m.initial
	switch {
	case m.listBackoffAttempt() > 2 || m.in.answered && !watching:
		return false
	case sentinel == ErrServer:
		return m.in.after < quickRefusal
	}
	return sentinel == ErrUnreachable
}

// retryNow makes request q at once on the first failure in a row, and waits before it from the
// second on.
func (m *machine) retryNow(q request, sentinel error) {
	m.request = q
	if m.raiseAttempt(m.listBackoffAttempt()); m.attempt > 1 || m.forcedLists > 1 || m.in.retryAfter > 0 {
		m.sleep(q, sentinel)
		return
	}
	m.goOn()
}

// begin lists, or resumes from the store's version, which may be of any age.
func (m *machine) begin() {
	m.request = reqList
	if m.rv != "" {
		m.request, m.unconfirmed = reqWatch, true
	}
	m.goOn()
}

// goOn makes the request that stands in the state.
func (m *machine) goOn() {
	switch m.request {
	case reqList:
		if m.page != "" {
			m.nextPage()
		} else {
			m.list()
		}
	case reqVersion:
		m.list()
	case reqNewest:
		m.phase = Asking
		m.do(askNewest{})
	case reqReaches:
		m.phase = Asking
		m.do(askNewest{m.least()})
	case reqWatch:
		m.watch()
	}
}

// failed handles a request or a stream that failed.
func (m *machine) failed() {
	if m.brokeOffIdle() {
		m.endedWell(true) // whichever server answers next may have been restored from a backup
		return
	}
	err, inStream := m.err, m.failedInStream
	m.err, m.failedInStream = m.in.err, m.request == reqWatch && m.open
	sentinel := m.err.Sentinel
	m.failedOnce(sentinel)
	switch m.request {
	case reqVersion:
		m.versionFailed(sentinel, err, inStream)
	case reqList:
		m.listFailed(sentinel)
	case reqNewest, reqReaches:
		m.newestFailed(sentinel)
	case reqWatch:
		if m.initial {
			m.initialFailed(sentinel)
		} else {
			m.watchFailed(sentinel)
		}
	}
}

// failedOnce counts a failure. A watch that stood for longer than the wait before it sets no slower
// pace: its requests do not come faster than they fail. One that got no answer for long does not
// either, but one that was refused after long does: what follows is a list.
func (m *machine) failedOnce(sentinel error) {
	watching := m.request == reqWatch && !m.initial
	if watching && (m.open && m.stood+m.in.after >= m.cfg.Backoff.Healthy || sentinel == ErrUnreachable && m.in.after >= hungAfter) {
		m.forgive()
	}
	m.stood = 0
	stood := watching && m.open && m.attempt > 0 && m.in.after >= m.cfg.Backoff.base(m.attempt, m.cfg.Backoff.Max)
	switch {
	case m.missed(sentinel, watching):
		m.attempt = 0
	case !stood:
		m.attempt++
		if m.cheapFailures < maxCheapFailures && m.cheap(sentinel) {
			m.cheapFailures++
		}
	}
	switch {
	case sentinel == ErrTooManyRequests, sentinel == ErrUnreachable && !(watching && m.open):
		return
	case sentinel != ErrUnreachable && sentinel != ErrServerBehind:
		// Each of the two has a bound of its own.
		m.failedAnswers++
	}
	m.failures++
}

// missed counts an answer that the resource does not exist. It reports whether the answer is one of
// the first since the resource was there.
func (m *machine) missed(sentinel error, watching bool) bool {
	if sentinel != ErrUnknownResource || !m.synced || m.missing >= maxMissing || watching && m.refused >= maxRefused {
		return false
	}
	if m.missing++; watching {
		m.refused++
	}
	return true
}

// vanished reports whether missed has counted the failure at hand.
func (m *machine) vanished(sentinel error) bool {
	return sentinel == ErrUnknownResource && m.attempt == 0
}

// succeeded forgets the failures of all requests but the watch.
func (m *machine) succeeded() { m.attempt, m.cheapFailures, m.missing = m.listBackoffAttempt(), 0, 0 }

// forgive forgets all failures that set the pace.
func (m *machine) forgive() { m.attempt, m.forcedLists, m.missing, m.refused = 0, 0, 0, 0 }

// forgiveLists leaves one of the failures that made lists necessary, when a watch has brought
// something newer and stood for longer than its list was put off: that list was of use, and the
// next one is put off no longer. Watches that end sooner make the waits grow, which bounds the rate
// of lists.
func (m *machine) forgiveLists() {
	if m.in.after >= m.cfg.Backoff.base(m.listBackoffAttempt(), m.cfg.Backoff.Max) {
		m.forcedLists = min(m.forcedLists, 1)
	}
}

// hopeless reports whether it has failed as often as it may: a LIST comes next.
func (m *machine) hopeless() bool {
	return m.failedAnswers >= relistAfter || m.answeredProbes >= relistAfter || m.failures >= maxFailures
}
