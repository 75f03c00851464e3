package reflector

import "time"

const (
	// relistAfter is the number of failed answers in a row, not counting 429, after which the
	// reflector lists again. It also lists after this number of answered probes while its watches
	// get no answer. By then most likely the server cannot serve the request or its
	// resourceVersion. The reflector treats a failure as permanent unless it knows that the failure
	// is temporary.
	relistAfter = 3
	// askAfter is the number of watches in a row without an answer after which a probe asks whether
	// there is a server at all.
	askAfter = 3
	// listAfter is the number of watches in a row without an answer after which the reflector
	// lists, whether or not the server answered probes. While there is no server at all, one
	// request in listAfter is a LIST, so the server receives few LISTs when it returns.
	listAfter = 12
	// maxFailures is the number of failures, not counting 429 and requests without an answer, after
	// which the reflector lists again. It is more than the examination of a server that is behind
	// needs.
	maxFailures = 12
	// A resource that existed before may be back soon. So the first 404 answers do not slow the
	// pace, neither of the request that they answer nor of other requests that fail next.
	// maxMissing bounds the number of these answers; they take a minute. maxRefused bounds those of
	// them that answer a watch, since each of these costs a list as well.
	maxMissing = 100
	maxRefused = 8
	// maxCheapFailures is the number of failures after which waits start to grow for a server that
	// cannot be reached, or that refuses within quickRefusal. That many failures take half a
	// minute, and do not lengthen the waits after other failures.
	maxCheapFailures = 22
	quickRefusal     = time.Second
	// cheapObjects is the number of small objects per second that lists may transfer. maxCheapLists
	// is the number of lists in a row that keep to that rate while no watch stays open. See
	// listBackoffAttempt. A larger object counts as several small ones, each of smallObject bytes.
	cheapObjects  = 1000
	smallObject   = 8 << 10
	maxCheapLists = 12
)

// step returns the state that follows from s and in, and the actions to perform. It contains all
// decisions of the reflector. It reads no clock, makes no request, and draws no random number.
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

// machine is the working state of one call of step.
type machine struct {
	state
	in      input
	actions []action
}

func (m *machine) do(a action) { m.actions = append(m.actions, a) }

// report sets err, the reason why the reflector is not current.
func (m *machine) report(sentinel, cause error) {
	m.err = &Error{Phase: m.phase, Sentinel: sentinel, Err: cause}
}

// sleep waits before request q, for the time that Backoff sets for the failure.
func (m *machine) sleep(q request, sentinel error) {
	d := m.cfg.Backoff.delay(sentinel, m.backoffAttempt(sentinel), m.in.retryAfter, m.in.jitter)
	// Initial events that are refused cost nothing.
	if q == reqList && m.request == reqWatch && m.phase == Watching {
		d = max(d, jittered(m.listPace(), m.in.jitter))
	}
	m.phase, m.request = Waiting, q
	m.do(wait{d})
}

// backoffAttempt returns the attempt number that sets the wait before the next request. The first
// failures to reach a server, or immediate refusals, do not make the wait longer than the second
// one: the server may recover soon, and a try costs little. Nor do such failures lengthen the wait
// after a failure of another kind.
func (m *machine) backoffAttempt(sentinel error) int {
	if !m.cheap(sentinel) {
		return max(m.attempt-m.cheapFailures, 1)
	}
	return max(1, min(m.attempt, 2), m.attempt-maxCheapFailures)
}

// raiseAttempt slows the pace to at least that of the n-th attempt.
func (m *machine) raiseAttempt(n int) {
	if n > m.attempt-m.cheapFailures {
		m.attempt, m.cheapFailures = max(n, m.attempt), max(0, m.attempt-n)
	}
}

// listBackoffAttempt returns the attempt number that sets the wait before a list that failing
// watches made necessary. A small list costs the server little. So the first few waits grow no
// longer than cheapObjects requires, and a store is not half a minute behind because a small list
// must wait. These lists are few, since a list that a selector makes small may be large for the
// server.
func (m *machine) listBackoffAttempt() int {
	b := m.cfg.Backoff
	wait := min(time.Duration(m.size)*time.Second/cheapObjects, b.Max)
	enough := min(m.forcedLists, 1)
	for enough < m.forcedLists && b.base(enough, b.Max) < wait {
		enough++
	}
	return max(enough, m.forcedLists-maxCheapLists)
}

// listPace returns the least wait before a list that a failing watch made necessary. It depends on
// the size of the list and on the number of such lists. Backoff.Denied does not bound it: otherwise
// a client that may list but not watch would list a large resource every few seconds.
func (m *machine) listPace() time.Duration {
	return m.cfg.Backoff.base(max(m.forcedLists, m.refused), min(time.Duration(m.size)*time.Second/cheapObjects, m.cfg.Backoff.Max))
}

// cheap reports whether a failure has cost the server little. The failure of a watch is not cheap
// if such failures have forced many or large lists.
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

// retryNow makes request q immediately after the first failure in a row, and waits before it from
// the second on.
func (m *machine) retryNow(q request, sentinel error) {
	m.request = q
	if m.raiseAttempt(m.listBackoffAttempt()); m.attempt > 1 || m.forcedLists > 1 || m.in.retryAfter > 0 {
		m.sleep(q, sentinel)
		return
	}
	m.goOn()
}

// begin starts with a list, or with a watch from the store's version, which may be of any age.
func (m *machine) begin() {
	m.request = reqList
	if m.rv != "" {
		m.request, m.unconfirmed = reqWatch, true
	}
	m.goOn()
}

// goOn makes the request that the state names.
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
		m.endedWell(true) // the server that answers next may have been restored from a backup
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

// failedOnce counts a failure. A watch that was open for longer than the wait before it does not
// slow the pace: its requests are no more frequent than the waits. Neither does a watch that waited
// long for an answer and got none. A watch that was refused after a long time does slow the pace,
// because a list follows.
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
		// ErrUnreachable and ErrServerBehind each have a separate bound.
		m.failedAnswers++
	}
	m.failures++
}

// missed counts an answer that the resource does not exist. It reports whether the answer is one of
// the first since the resource last existed, which do not slow the pace.
func (m *machine) missed(sentinel error, watching bool) bool {
	if sentinel != ErrUnknownResource || !m.synced || m.missing >= maxMissing || watching && m.refused >= maxRefused {
		return false
	}
	if m.missing++; watching {
		m.refused++
	}
	return true
}

// vanished reports whether missed counted the current failure.
func (m *machine) vanished(sentinel error) bool {
	return sentinel == ErrUnknownResource && m.attempt == 0
}

// succeeded clears the failure counts of all requests except watches.
func (m *machine) succeeded() { m.attempt, m.cheapFailures, m.missing = m.listBackoffAttempt(), 0, 0 }

// forgive clears all failure counts that set the pace.
func (m *machine) forgive() { m.attempt, m.forcedLists, m.missing, m.refused = 0, 0, 0, 0 }

// forgiveLists reduces forcedLists to one when a watch has sent something newer and was open for
// longer than the list before it had to wait. That list was useful, so the next one need not wait
// longer. Watches that end sooner make the waits grow, which bounds the rate of lists.
func (m *machine) forgiveLists() {
	if m.in.after >= m.cfg.Backoff.base(m.listBackoffAttempt(), m.cfg.Backoff.Max) {
		m.forcedLists = min(m.forcedLists, 1)
	}
}

// hopeless reports whether the request has failed as often as it may. The caller lists next.
func (m *machine) hopeless() bool {
	return m.failedAnswers >= relistAfter || m.answeredProbes >= relistAfter || m.failures >= maxFailures
}
