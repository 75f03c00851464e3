package reflector

import "fmt"

// relistAfter is after how many watches in a row that end at once, or cannot be read, the state is listed anew: then it is
// the resourceVersion that the server cannot serve.
const relistAfter = 3

// step is the reflector: what happened, and what is known, give what to do, and what is known then. It has no clock,
// makes no request, and draws no random number.
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
	case inOpened:
		m.opened()
	case inPage:
		m.pageRead()
	case inEvents:
		m.events()
	case inBookmark:
		m.bookmark()
	case inEnded:
		m.ended()
	case inFailed:
		m.failed()
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
	m.phase, m.request = Waiting, q
	m.do(wait{m.cfg.Backoff.delay(kind, m.attempt, m.in.retryAfter, m.in.luck)})
}

// atOnce begins q without a wait on the first failure in a row, and waits from the second on.
func (m *machine) atOnce(q request, kind error) {
	m.request = q
	if m.attempt > 1 || m.in.retryAfter > 0 {
		m.sleep(q, kind)
		return
	}
	m.goOn()
}

func (m *machine) begin() {
	m.request = reqList
	if m.rv != "" {
		m.request = reqNewest // what is held may be of any age
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
		m.do(askNewest{options(1, "", "", "")})
	case reqWatch:
		m.watch()
	}
}

// failed handles a request or a stream that failed.
func (m *machine) failed() {
	m.err = m.in.err
	if m.request == reqWatch && m.in.after >= m.cfg.Backoff.Healthy {
		m.forgive()
	}
	m.failedOnce()
	kind := m.err.Kind
	switch m.request {
	case reqVersion:
		m.versionFailed(kind)
	case reqList:
		m.listFailed(kind)
	case reqNewest:
		if kind == ErrUnknownResource {
			m.sleep(reqList, kind) // when it appears again it may be another one
			return
		}
		m.sleep(reqNewest, kind)
	case reqWatch:
		if m.initial {
			m.initialFailed(kind)
		} else {
			m.watchFailed(kind)
		}
	}
}

// failedOnce counts a failure.
func (m *machine) failedOnce() {
	m.attempt++
	if m.request == reqWatch && !m.initial {
		m.trouble++
	}
}

// succeeded forgets the failures of other requests than the watch.
func (m *machine) succeeded() { m.attempt = m.trouble }

// forgive forgets all failures so far.
func (m *machine) forgive() { m.attempt, m.trouble, m.empty = 0, 0, 0 }

// wentBack reports that the server is at rv, older than what it told before.
func (m *machine) wentBack(rv string) {
	m.report(ErrWentBack, fmt.Errorf("resourceVersion %s after %s", rv, m.rv))
}
