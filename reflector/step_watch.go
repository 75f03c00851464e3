package reflector

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/source"
)

// bookmarkPeriod is longer than kube-apiserver ever leaves a watch without a bookmark.
const bookmarkPeriod = 90 * time.Second

// watch requests the changes since rv.
func (m *machine) watch() {
	m.request, m.phase, m.initial, m.saw = reqWatch, Watching, false, false
	m.do(openWatch{WatchOptions: source.WatchOptions{
		ResourceVersion: m.rv, AllowBookmarks: true, Timeout: m.watchTimeout(),
	}})
}

// watchInitial requests the whole state, and then its changes.
func (m *machine) watchInitial() {
	m.request, m.phase, m.initial, m.saw = reqWatch, Listing, true, false
	rv, _ := m.from()
	m.do(openWatch{source.WatchOptions{
		ResourceVersion: rv, Match: metav1.ResourceVersionMatchNotOlderThan, SendInitialEvents: true,
		AllowBookmarks: true, Timeout: m.watchTimeout(),
	}, m.cfg.BookmarkDeadline})
}

func (m *machine) watchTimeout() time.Duration {
	d := m.cfg.WatchTimeout
	return (d + time.Duration(float64(d)*m.in.luck)).Truncate(time.Second)
}

func (m *machine) watchOpened() {
	if m.initial {
		m.do(beginReplace{rebase: m.rebase})
		m.replacing = true
	}
	if m.kind() != ErrEnded { // that one is over only when something comes
		m.err = nil
	}
}

// alive notes that the watch works.
func (m *machine) alive() {
	m.saw, m.empty, m.err = true, 0, nil
	if m.in.after >= m.cfg.Backoff.Healthy {
		m.forgive()
	}
}

func (m *machine) events() {
	m.alive()
	if m.initial {
		return
	}
	m.advance()
}

// advance makes the input's resourceVersion the one to resume from.
func (m *machine) advance() {
	if m.in.rv == "" || older(m.in.rv, m.rv) {
		return
	}
	m.rv = m.in.rv
	m.do(progress{m.rv})
}

func (m *machine) bookmark() {
	switch {
	case m.initial && !m.in.final:
		m.saw = true // a server that is alive; where it is counts once it is through
	case older(m.in.rv, m.rv):
		m.watchWentBack()
	case m.initial:
		m.alive()
		m.initial, m.phase = false, Watching
		m.complete(m.in.rv)
	default:
		m.alive()
		m.advance()
	}
}

// watchWentBack handles a bookmark older than what is held. Its server sends none of its changes until it has
// overtaken us, so the state is listed anew. After initial events it is a LIST, which tells its resourceVersion first.
func (m *machine) watchWentBack() {
	m.wentBack(m.in.rv)
	m.abandon()
	if m.in.after >= m.cfg.Backoff.Healthy {
		m.forgive()
	}
	m.failedOnce()
	m.consistent, m.plain, m.initial = true, true, false
	m.do(closeStream{})
	m.atOnce(reqList, ErrWentBack)
}

// ended handles a watch that the server ended.
func (m *machine) ended() {
	if m.initial {
		m.report(ErrNoBookmark, nil)
		m.failedOnce()
		m.initialFailed(ErrNoBookmark)
		return
	}
	next := reqWatch
	if m.rv == "" {
		next = reqList // a server without resourceVersions: nothing to resume from
	}
	switch {
	case m.in.after >= m.cfg.Backoff.Healthy:
		m.forgive()
		m.err = nil
		if m.request = next; next == reqWatch && !m.saw && m.in.after >= bookmarkPeriod {
			m.request = reqNewest // not even a bookmark: is the server behind us?
		}
		m.goOn()
	case m.saw:
		// It brought something, so it is no failure; but a server that ends every watch so soon sets no pace.
		m.phase, m.request = Waiting, next
		m.do(wait{m.cfg.Backoff.delay(nil, 1, 0, m.in.luck)})
	default:
		m.failedOnce()
		m.empty++
		if m.empty > 1 { // once is a server that shuts down
			m.report(ErrEnded, nil)
		}
		if m.empty%relistAfter == 0 {
			m.consistent = true
			next = reqList
		}
		m.sleep(next, ErrEnded)
	}
}

// watchFailed handles a watch that failed, by its answer, an ERROR event, or its stream.
func (m *machine) watchFailed(kind error) {
	switch kind {
	case ErrExpired:
		m.consistent = true
		m.atOnce(reqList, kind)
	case ErrAhead:
		m.consistent = true
		m.sleep(reqList, kind)
	case ErrUnknownResource:
		m.sleep(reqList, kind) // when it appears again it may be another one
	case ErrUnreachable:
		next := reqNewest // whoever answers next may have been restored from a backup
		if m.rv == "" {
			next = reqList
		}
		m.sleep(next, kind)
	case ErrMalformed:
		if m.attempt%relistAfter == 0 || m.rv == "" {
			m.sleep(reqList, kind) // an event that cannot be read: a list has what came of it
			return
		}
		m.sleep(reqWatch, kind)
	default:
		m.sleep(reqWatch, kind)
	}
}

// initialFailed handles a watch that failed before its initial events were complete.
func (m *machine) initialFailed(kind error) {
	m.abandon()
	m.initial = false
	switch kind {
	case ErrUnreachable, ErrUnauthorized, ErrForbidden, ErrUnknownResource, ErrTooManyRequests:
		m.sleep(reqList, kind)
	case ErrAhead, ErrExpired:
		// No version was asked for that could be too old: what is wrong is the server's way with initial events.
		m.plain = kind == ErrExpired && m.asked
		m.consistent = true
		m.sleep(reqList, kind)
	default:
		m.mode = Auto // for good: a LIST as the server's version wants it
		m.atOnce(reqList, kind)
	}
}
