package reflector

import "time"

const (
	// After relistAfter error responses in a row, not counting 429, the reflector lists again. It also
	// lists after relistAfter responses to probes while watches get no response. After that many
	// failures the reason is probably not temporary: the server cannot serve the request, or cannot
	// serve it from this resourceVersion.
	relistAfter = 3
	// After askAfter watches in a row without a response, a probe finds out whether the server
	// responds at all.
	askAfter = 3
	// After listAfter watches in a row without a response, the reflector lists, whether or not the
	// server responds to probes. The number is large, so that a server that returns after an outage
	// receives few LISTs.
	listAfter = 12
	// After maxFailures failures, not counting 429 and requests without a response, the reflector
	// lists again. The limit is higher than the number of failures that may occur while the reflector
	// finds out whether a server went back in time.
	maxFailures = 12
	// A resource that existed before may return soon. So the first 404 responses do not lengthen the
	// waits, neither for the request that got them nor for other requests that fail next. maxMissing
	// is the maximum number of these responses; they take a minute. At most maxRefused of them may be
	// responses to a watch, because each of those also causes a list.
	maxMissing = 100
	maxRefused = 8
	// If a server cannot be reached, or refuses within quickRefusal, the waits start to grow only
	// after maxCheapFailures such failures. These failures take half a minute. They do not lengthen
	// the waits after other failures.
	maxCheapFailures = 22
	quickRefusal     = time.Second
	// cheapObjects is the number of small objects per second that lists may transfer. While no watch
	// stays open, the waits before the first maxCheapLists lists stop growing when the lists stay
	// below that rate; see listBackoffAttempt. A larger object counts as several small ones, each of
	// smallObject bytes.
	cheapObjects  = 1000
	smallObject   = 8 << 10
	maxCheapLists = 12
)

// step returns the state that follows from the state s and the input in. It also returns the
// actions to perform. It contains all decisions of the reflector. It is a pure function: it reads
// no clock, sends no request, and draws no random number.
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
// (KEP-5116, on by default since 1.33). Then, a LIST without a limit costs the server little.
func streams(major, minor int) bool {
	return major > 1 || major == 1 && minor >= 33
}

// machine is the intermediate state during one call of step.
type machine struct {
	state
	in      input
	actions []action
}

func (m *machine) do(a action) { m.actions = append(m.actions, a) }

// report sets the error that says why the reflector is not current.
func (m *machine) report(sentinel, cause error) {
	m.err = &Error{Phase: m.phase, Sentinel: sentinel, Err: cause}
}

// sleep adds a wait before request q. The wait depends on Backoff and on the failure.
func (m *machine) sleep(q request, sentinel error) {
	d := m.cfg.Backoff.delay(sentinel, m.backoffAttempt(sentinel), m.in.retryAfter, m.in.jitter)
	// The wait before a list that replaces a watch also depends on the size of the list. The phase of
	// a watch with initial events is Listing: if such a watch was refused, the server has sent no
	// objects, so the size does not matter.
	if q == reqList && m.request == reqWatch && m.phase == Watching {
		d = max(d, jittered(m.listPace(), m.in.jitter))
	}
	m.phase, m.request = Waiting, q
	m.do(wait{d})
}

// backoffAttempt returns the number of the attempt that determines the next wait. A server that
// cannot be reached, or refuses immediately, may recover soon, and a try costs it little. So the
// waits after the first maxCheapFailures such failures are at most as long as the second wait. Such
// failures also do not lengthen the wait after a failure of another kind.
func (m *machine) backoffAttempt(sentinel error) int {
	if !m.cheap(sentinel) {
		return max(m.attempt-m.cheapFailures, 1)
	}
	return max(1, min(m.attempt, 2), m.attempt-maxCheapFailures)
}

// raiseAttempt makes the next waits at least as long as those of the n-th attempt.
func (m *machine) raiseAttempt(n int) {
	if n > m.attempt-m.cheapFailures {
		m.attempt, m.cheapFailures = max(n, m.attempt), max(0, m.attempt-n)
	}
}

// listBackoffAttempt returns the number of the attempt that determines the wait before a list that
// failing watches made necessary. A small list costs the server little. So the waits before the
// first maxCheapLists lists grow only until the lists transfer fewer than cheapObjects per second.
// If they grew further, a store with few objects could be half a minute behind. Later lists wait
// longer: a list may be small only because of its selector, and may then cost the server as much as
// a large one.
func (m *machine) listBackoffAttempt() int {
	b := m.cfg.Backoff
	wait := min(time.Duration(m.size)*time.Second/cheapObjects, b.Max)
	enough := min(m.forcedLists, 1)
	for enough < m.forcedLists && b.base(enough, b.Max) < wait {
		enough++
	}
	return max(enough, m.forcedLists-maxCheapLists)
}

// listPace returns the minimum wait before a list that a failing watch made necessary. It depends
// on the size of the list and on the number of such lists. Backoff.Denied does not limit it:
// otherwise, a client that may list but not watch would list a large resource every few seconds.
func (m *machine) listPace() time.Duration {
	return m.cfg.Backoff.base(max(m.forcedLists, m.refused), min(time.Duration(m.size)*time.Second/cheapObjects, m.cfg.Backoff.Max))
}

// cheap reports whether a failure has cost the server little. No failure is cheap after failing
// watches have made many or large lists necessary. The failure of a list is not cheap if the server
// had started to respond.
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

// retryNow sends request q immediately after the first failure in a row. After further failures,
// after several lists that failures made necessary, or if the server sent a Retry-After, it waits
// first.
func (m *machine) retryNow(q request, sentinel error) {
	m.request = q
	if m.raiseAttempt(m.listBackoffAttempt()); m.attempt > 1 || m.forcedLists > 1 || m.in.retryAfter > 0 {
		m.sleep(q, sentinel)
		return
	}
	m.goOn()
}

// begin starts with a list or, if the sink has a resourceVersion, with a watch from that version,
// however old it is.
func (m *machine) begin() {
	m.request = reqList
	if m.rv != "" {
		m.request, m.unconfirmed = reqWatch, true
	}
	m.goOn()
}

// goOn sends the request in m.request.
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

// failed decides what follows the failure of a request, or of its stream.
func (m *machine) failed() {
	if m.brokeOffIdle() {
		m.endedWell(true) // the server of the next watch may have been restored from a backup
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

// failedOnce counts a failure. Two kinds of failed watches do not lengthen the waits. A watch of
// the first kind was open for longer than the wait before it, so such watches are rare enough. A
// watch of the second kind waited long for a response and got none. A watch that was refused after
// a long time does lengthen the waits, because a list follows.
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
		// ErrUnreachable and ErrServerBehind have their own limits.
		m.failedAnswers++
	}
	m.failures++
}

// missed counts a 404 for the resource. It returns true if this 404 does not lengthen the waits,
// because the resource existed shortly before.
func (m *machine) missed(sentinel error, watching bool) bool {
	if sentinel != ErrUnknownResource || !m.synced || m.missing >= maxMissing || watching && m.refused >= maxRefused {
		return false
	}
	if m.missing++; watching {
		m.refused++
	}
	return true
}

// vanished reports whether missed returned true for the current failure.
func (m *machine) vanished(sentinel error) bool {
	return sentinel == ErrUnknownResource && m.attempt == 0
}

// succeeded resets the failure counts after a complete list. It keeps forcedLists and the attempt
// that follows from forcedLists, because they determine the waits between lists while watches fail.
func (m *machine) succeeded() { m.attempt, m.cheapFailures, m.missing = m.listBackoffAttempt(), 0, 0 }

// forgive clears all failure counts that lengthen the waits.
func (m *machine) forgive() { m.attempt, m.forcedLists, m.missing, m.refused = 0, 0, 0, 0 }

// forgiveLists is called when the watch has sent something newer. It reduces forcedLists to one if
// the watch was open for longer than the wait before the list. That list was useful, so the next
// one need not wait longer. Watches that end sooner make the waits grow, which limits the rate of
// lists.
func (m *machine) forgiveLists() {
	if m.in.after >= m.cfg.Backoff.base(m.listBackoffAttempt(), m.cfg.Backoff.Max) {
		m.forcedLists = min(m.forcedLists, 1)
	}
}

// hopeless reports whether the number of failed requests has reached a limit after which the
// reflector lists instead.
func (m *machine) hopeless() bool {
	return m.failedAnswers >= relistAfter || m.answeredProbes >= relistAfter || m.failures >= maxFailures
}
