package reflector

import "time"

const (
	// relistAfter is after how many failures in a row that are answers, 429 aside, the state is
	// listed anew, and after how many answered probes while the watch does not come through: then
	// it is the request, or its resourceVersion, that the server cannot serve. What is not known to
	// pass is taken for what does not.
	relistAfter = 3
	// askAfter is after how many watches in a row without an answer a probe asks whether there is a
	// server at all.
	askAfter = 3
	// listAfter is after how many watches in a row without an answer the state is listed, whatever
	// became of the probes. While there is no server at all, as many requests are LISTs as one in
	// so many: few come when there is one again.
	listAfter = 12
	// mostFailures is after how many failures of any kind together the state is listed anew. It is
	// more than the examination of a server that is behind takes.
	mostFailures = 12
	// A resource that was there may be back at any moment. So the first answers that it is not set
	// no slower pace, neither for themselves nor for what fails next: mostMissing take a minute. A
	// watch that is refused costs a list as well: mostRefused are enough.
	mostMissing = 100
	mostRefused = 8
	// briefTries is after how many failures the waits for a server that cannot be reached, or
	// refuses within quickRefusal, grow: half a minute.
	briefTries   = 22
	quickRefusal = time.Second
)

// step is the reflector: what happened, and what is known, give what to do, and what is known then.
// It has no clock, makes no request, and draws no random number.
func step(s state, in input) (state, []action) {
	m := machine{state: s, in: in}
	switch in.kind {
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
	if checking {
		mustHold(s, m.state, in)
	}
	return m.state, m.actions
}

// machine is one step under way.
type machine struct {
	state
	in      input
	actions []action
}

func (m *machine) do(a action) { m.actions = append(m.actions, a) }

// report makes err what stops us from being current.
func (m *machine) report(kind, cause error) {
	m.err = &Error{Phase: m.phase, Kind: kind, Err: cause}
}

// sleep waits before q.
func (m *machine) sleep(q request, kind error) {
	attempt := m.pace(kind)
	m.phase, m.request = Waiting, q
	m.do(wait{m.cfg.Backoff.delay(kind, attempt, m.in.retryAfter, m.in.jitter)})
}

// pace returns for which attempt the wait before the next request is. A server that cannot be
// reached, or refuses at once, does not make it longer than the second for a while: it may be back
// at any moment, and to try costs nobody anything.
func (m *machine) pace(kind error) int {
	if !m.cheap(kind) {
		return max(m.attempt, 1)
	}
	return max(1, min(m.attempt, 2), m.attempt-briefTries)
}

// cheap reports whether a failure has cost the server nothing. One of a watch has, where such
// failures have made more than one list necessary.
func (m *machine) cheap(kind error) bool {
	watching := m.request == reqWatch && !m.initial
	switch {
	case m.trouble > 1 || m.in.answered && !watching:
		return false
	case kind == ErrServer:
		return m.in.after < quickRefusal
	}
	return kind == ErrUnreachable
}

// retryNow begins q without a wait on the first failure in a row, and waits from the second on.
func (m *machine) retryNow(q request, kind error) {
	m.request = q
	if m.attempt = max(m.attempt, m.trouble); m.attempt > 1 || m.in.retryAfter > 0 {
		m.sleep(q, kind)
		return
	}
	m.goOn()
}

// begin lists, or resumes at what is held, which may be of any age.
func (m *machine) begin() {
	m.request = reqList
	if m.rv != "" {
		m.request, m.doubt = reqWatch, true
	}
	m.goOn()
}

// goOn begins the request that stands in the state.
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
	m.err = m.in.err
	kind := m.err.Kind
	m.failedOnce(kind)
	switch m.request {
	case reqVersion:
		m.versionFailed(kind)
	case reqList:
		m.listFailed(kind)
	case reqNewest, reqReaches:
		m.newestFailed(kind)
	case reqWatch:
		if m.initial {
			m.initialFailed(kind)
		} else {
			m.watchFailed(kind)
		}
	}
}

// failedOnce counts a failure. A watch that stood for longer than the wait before it sets no slower
// pace: requests do not come faster than they fail.
func (m *machine) failedOnce(kind error) {
	watching := m.request == reqWatch && !m.initial
	if watching && m.in.after >= m.cfg.Backoff.Healthy {
		m.forgive()
	}
	stood := watching && m.open && m.attempt > 0 && m.in.after >= m.cfg.Backoff.base(m.attempt, m.cfg.Backoff.Max)
	switch {
	case m.missed(kind, watching):
		m.attempt = 0
	case !stood:
		m.attempt++
	}
	switch {
	case kind == ErrTooManyRequests, kind == ErrUnreachable && !(watching && m.open):
		return
	case kind != ErrUnreachable && kind != ErrAhead: // each of these has a bound of its own
		m.fruitless++
	}
	m.failures++
}

// missed counts an answer that there is no such resource, and reports whether it is one of the
// first since the resource was there.
func (m *machine) missed(kind error, watching bool) bool {
	if kind != ErrUnknownResource || !m.synced || m.missing >= mostMissing || watching && m.refused >= mostRefused {
		return false
	}
	if m.missing++; watching {
		m.refused++
	}
	return true
}

// vanished reports whether the failure at hand is one that missed has counted.
func (m *machine) vanished(kind error) bool { return kind == ErrUnknownResource && m.attempt == 0 }

// succeeded forgets the failures of other requests than the watch.
func (m *machine) succeeded() { m.attempt, m.missing = m.trouble, 0 }

// forgive forgets all failures so far that set the pace.
func (m *machine) forgive() { m.attempt, m.trouble, m.missing, m.refused = 0, 0, 0, 0 }

// progressed notes that the state is newer than it was: what failed before has passed.
func (m *machine) progressed() {
	m.fruitless, m.unanswered, m.reached, m.barren, m.failures = 0, 0, 0, 0, 0
}

// hopeless reports whether it has failed as often as it may: a LIST comes next.
func (m *machine) hopeless() bool {
	return m.fruitless >= relistAfter || m.reached >= relistAfter || m.failures >= mostFailures
}
