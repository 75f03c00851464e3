package reflector

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/source"
)

func options(limit int64, rv string, match metav1.ResourceVersionMatch, cont string) source.ListOptions {
	return source.ListOptions{ResourceVersion: rv, Match: match, Limit: limit, Continue: cont}
}

// tornLists is after how many lists in a row that broke off the state is asked for in pages: kube-apiserver gives each answer a
// minute, and the way may be too slow for all of it.
const tornLists = 2

// list begins to get the whole state.
func (m *machine) list() {
	m.request, m.phase = reqList, Listing
	switch {
	case m.mode == Auto:
		m.request, m.phase = reqVersion, Asking
		m.do(askVersion{})
	case m.mode == WatchList && !m.plain:
		m.watchInitial()
	case m.mode == Pages || m.torn >= tornLists:
		m.pages()
	default:
		m.firstPage(0)
	}
}

// firstPage requests the list, or all of it when limit is 0.
func (m *machine) firstPage(limit int64) {
	m.request, m.phase = reqList, Listing
	m.limit, m.page, m.pageRV = limit, "", ""
	rv, match := m.from()
	m.do(openList{options(limit, rv, match, "")})
}

// from is how current the state must be, as request parameters.
func (m *machine) from() (rv string, match metav1.ResourceVersionMatch) {
	m.asked = m.consistent || m.cfg.Consistency == Consistent
	switch {
	case m.asked:
		return "", ""
	case m.rv == "":
		return "0", ""
	}
	return m.rv, metav1.ResourceVersionMatchNotOlderThan
}

// nextPage requests the page of the token at hand, again if need be.
func (m *machine) nextPage() {
	m.request, m.phase = reqList, Listing
	m.do(openList{options(m.limit, "", "", m.page)})
}

// versionFailed goes on without the version. A server that answers, but not this, gets the requests that every server
// knows; the next list asks again.
func (m *machine) versionFailed(kind error) {
	switch kind {
	case ErrUnreachable, ErrServer, ErrTooManyRequests:
		m.sleep(reqVersion, kind)
		return
	}
	m.err = nil
	m.attempt--
	m.pages()
}

// pages requests the list in pages, unless it must be whole.
func (m *machine) pages() {
	if m.whole {
		m.firstPage(0)
	} else {
		m.firstPage(m.cfg.PageSize)
	}
}

// opened handles the beginning of an answer.
func (m *machine) opened() {
	switch m.request {
	case reqNewest:
		m.succeeded()
		m.do(closeStream{})
		if older(m.in.rv, m.rv) {
			m.wentBack(m.in.rv)
			m.consistent = true
			m.list()
			return
		}
		m.watch()
	case reqList:
		if m.page != "" {
			m.err = nil
			return
		}
		m.listOpened()
	case reqWatch:
		m.watchOpened()
	}
}

// listOpened decides, before the first object is taken, whether the list may be taken at all: an object of an old list
// may have been deleted since, and would come back.
func (m *machine) listOpened() {
	back := older(m.in.rv, m.rv)
	switch {
	case back && !m.asked:
		m.wentBack(m.in.rv)
		m.consistent = true
		m.do(closeStream{})
		m.list()
		return
	case back:
		m.wentBack(m.in.rv)
	case !m.rebase:
		m.err = nil
	}
	m.do(beginReplace{rebase: back || m.rebase})
	m.replacing = true
}

// pageRead handles a page that ended well.
func (m *machine) pageRead() {
	if m.page == "" {
		m.pageRV = m.in.rv
		if older(m.in.rv, m.rv) && !errors.Is(m.kind(), ErrWentBack) {
			m.lateTruth()
			return
		}
	}
	switch {
	case m.in.cont == "":
		m.complete(m.pageRV)
		m.watch()
	case m.in.cont == m.page:
		m.report(ErrMalformed, errors.New("the page's continue token is that of the page itself"))
		m.failedOnce()
		m.abandon()
		m.sleep(reqList, ErrMalformed)
	default:
		m.succeeded()
		m.page = m.in.cont
		m.nextPage()
	}
}

// lateTruth handles a list that told its resourceVersion behind its objects, and is older than what is held. What it brought
// of older versions the store has ignored, so it is got again: consistent if it was not, to be taken as it is if it was.
func (m *machine) lateTruth() {
	m.wentBack(m.in.rv)
	m.rebase = m.asked
	m.consistent = true
	m.abandon()
	m.list()
}

// complete ends the replace: the store now is what the server was at rv.
func (m *machine) complete(rv string) {
	m.do(endReplace{rv})
	if m.synced {
		m.relists++
	}
	m.succeeded()
	m.rv, m.synced = rv, true
	m.replacing, m.page, m.pageRV = false, "", ""
	m.consistent, m.whole, m.plain, m.rebase, m.torn = false, false, false, false, 0
}

// abandon gives the list up. What it brought stays in the store, and costs nothing when it comes again.
func (m *machine) abandon() {
	m.page, m.pageRV = "", ""
	if m.replacing {
		m.do(abortReplace{})
		m.replacing = false
	}
}

// listFailed handles a LIST that failed before or within its body.
func (m *machine) listFailed(kind error) {
	if m.page != "" {
		switch kind {
		case ErrUnreachable, ErrServer, ErrTooManyRequests, ErrMalformed:
			m.sleep(reqList, kind) // the same page again: those before it are good
			return
		case ErrExpired:
			// The rest can be had as it is now, by the token in the answer, but not together with the first part as it was: no
			// watch could begin there, since the revision of the first part is gone. So all of it, in one answer, which cannot
			// expire on the way.
			m.abandon()
			m.whole, m.consistent, m.torn = true, true, 0
			m.atOnce(reqList, kind)
			return
		}
	}
	if m.replacing && kind == ErrUnreachable {
		if m.torn++; m.torn >= tornLists {
			m.whole = false
		}
	}
	m.abandon()
	if kind == ErrExpired || kind == ErrAhead {
		m.consistent = true
	}
	m.sleep(reqList, kind)
}
