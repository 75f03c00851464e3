package reflector

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/source"
)

func options(limit int64, rv string, match metav1.ResourceVersionMatch, cont string) source.ListOptions {
	return source.ListOptions{ResourceVersion: rv, Match: match, Limit: limit, Continue: cont}
}

// maxBrokenLists is the number of failed lists in a row after which the state is asked for in the
// other form, in pages or whole. kube-apiserver gives each answer a minute, and the network may be
// too slow for the whole state.
const maxBrokenLists = 2

// unansweredAsBroken is how many lists without an answer count as one that failed in its form. Most
// likely there is no server, unless a probe was answered.
const unansweredAsBroken = 3

// list requests the whole state, in the form that the mode and the failures so far call for.
func (m *machine) list() {
	m.request, m.phase = reqList, Listing
	if m.mode != Auto && m.unknownListFloor() {
		m.askListFloor()
		return
	}
	switch {
	case m.mode == Auto:
		m.request, m.phase = reqVersion, Asking
		m.do(askVersion{})
	case m.mode == WatchList && !m.withoutInitial:
		m.watchInitial()
	case m.mode == Pages || m.brokenLists >= maxBrokenLists:
		m.pages()
	default:
		m.firstPage(0)
	}
}

// askListFloor asks for the server's newest resourceVersion. The list follows.
func (m *machine) askListFloor() {
	m.askingListFloor, m.request = true, reqNewest
	m.goOn()
}

// listInstead lists because the watch, or a probe, keeps failing. If the list fails as well, the
// watch is tried again. After errors the first list may be as old as the store: all the clients of
// a server that is starting get here at once, and its watch cache can answer them. A watch that
// is silent, or brings nothing newer after such a list, may be that of a watch cache that stands
// still, which cannot.
func (m *machine) listInstead(sentinel error) {
	m.insteadOfWatch, m.withoutInitial = true, true
	m.consistent = m.consistent || m.stoodIn || sentinel == ErrSilent || sentinel == ErrEnded
	m.stoodIn = true
	m.forcedLists++
	m.sleep(reqList, sentinel)
}

// firstPage requests the first page of the list, or the whole list if limit is 0.
func (m *machine) firstPage(limit int64) {
	m.request, m.phase = reqList, Listing
	m.limit, m.page, m.pageRV = limit, "", ""
	rv, match := m.from()
	m.do(openList{options(limit, rv, match, "")})
}

// from returns how current the state must be, as request parameters. A list that tells its
// resourceVersion behind its items must not be older than the store. That would show only after
// the items have been taken, and those that were deleted since would be back.
func (m *machine) from() (rv string, match metav1.ResourceVersionMatch) {
	m.askedConsistent = m.rebase || m.noMatch || m.opaque() || !m.unproven() && m.mustBeConsistent() && !m.noConsistent
	switch {
	case m.askedConsistent:
		return "", ""
	case m.least() == "":
		return "0", ""
	}
	return resourceversion.Newest(m.listFloor, m.least()), metav1.ResourceVersionMatchNotOlderThan
}

// mustBeConsistent reports whether the Config or the state asks for a consistent list. What the
// Config asks of a first state has been met when a list stands in for a watch.
func (m *machine) mustBeConsistent() bool {
	return m.consistent || m.cfg.Consistency == MostRecent && !(m.insteadOfWatch && m.least() != "")
}

// opaque reports whether rv is no integer. Then it can only be compared for equality.
func (m *machine) opaque() bool { return m.rv != "" && !resourceversion.IsInteger(m.rv) }

// unproven reports whether a list may be older than the store without showing it in time.
func (m *machine) unproven() bool {
	return m.least() != "" && !m.opaque() && (m.rvAtEnd || m.atLeast || m.mode == WatchList && !m.withoutInitial)
}

// unknownListFloor reports whether the server's newest resourceVersion must be asked for first. A
// list that is not older than that is consistent.
func (m *machine) unknownListFloor() bool {
	return m.listFloor == "" && m.unproven() && m.mustBeConsistent() && !m.rebase && !m.noMatch
}

// nextPage requests the page of the token at hand. After a failure it requests the same page again.
func (m *machine) nextPage() {
	m.request, m.phase = reqList, Listing
	m.do(openList{options(m.limit, "", "", m.page)})
}

// versionFailed goes on without the server's version. A server that answers other requests gets
// those that every server knows. The next list asks for the version again. What stood in the way
// before, err and inStream, still does.
func (m *machine) versionFailed(sentinel error, err *Error, inStream bool) {
	switch sentinel {
	case ErrUnreachable: // where there is no server at all, a LIST gets no answer either
		// One that was silent for as long as a request may be has been asked slowly enough.
		if m.attempt%relistAfter != 0 && !errors.Is(m.in.err, source.ErrStalled) {
			m.sleep(reqVersion, sentinel)
			return
		}
	case ErrServer, ErrTooManyRequests:
		if m.attempt < relistAfter {
			m.sleep(reqVersion, sentinel)
			return
		}
	}
	m.err, m.failedInStream = err, inStream
	m.attempt = max(m.attempt-1, 0)
	if m.unknownListFloor() {
		m.askListFloor()
		return
	}
	m.pages()
}

// pages requests the list in pages. It requests the whole list if it must be whole, or if the last
// one came only so.
func (m *machine) pages() {
	if m.whole || m.unpaged {
		m.firstPage(0)
	} else {
		m.firstPage(m.cfg.PageSize)
	}
}

// opened handles the beginning of a successful answer.
func (m *machine) opened() {
	switch {
	case m.request == reqWatch:
		m.watchOpened()
	case m.page == "":
		m.listOpened()
	case m.sentinel() != ErrWentBack && !m.awaitsWatch():
		m.err = nil
	}
}

// listOpened decides, before the first object is taken, whether the list may be taken at all: an
// object of an old list may have been deleted since, and would come back.
func (m *machine) listOpened() {
	if m.behindRV() && !m.rebase {
		m.do(closeStream{})
		m.failedOnce(ErrServerBehind)
		m.fallsBehind(m.in.rv)
		return
	}
	if m.restored && m.in.rv != "" && !m.behindRV() && !m.opaque() && !resourceversion.Incomparable(m.in.rv, m.rv) {
		// It lagged, or has come to rv again: then the list heals what the store has of another past.
		m.rebase = false
	}
	if !m.rebase && !m.awaitsWatch() {
		m.err = nil
	}
	if m.rvAtEnd = m.in.rv == "" || m.in.empty; m.rv != "" { // before no items is behind them as well
		m.rebase = m.rebase || m.opaque() || m.in.rv != "" && resourceversion.Incomparable(m.in.rv, m.rv)
	}
	m.do(beginReplace{m.rebase, m.restored})
	m.replacing = true
}

// awaitsWatch reports whether what stands in the way is over only when a watch is open. That is so
// if the last watches got no answer, or the server does not allow them: lists that come do not
// change that.
func (m *machine) awaitsWatch() bool {
	switch m.sentinel() {
	case nil, ErrServerBehind, ErrWentBack, ErrEnded, ErrSilent: // a list that comes shows otherwise
		return false
	case ErrMethodNotAllowed:
		return m.err.Phase == Watching
	}
	return m.unansweredWatches > 0 && m.err.Phase != Listing && !m.failedInStream
}

// pageRead handles a page that ended well.
func (m *machine) pageRead() {
	if m.in.rv == "" && (m.versioned || m.pageRV != "") { // every page has that of the first
		m.malformedPage("the list has no resourceVersion, and what came before had")
		return
	}
	if m.page == "" {
		m.pageRV = m.in.rv
		if m.behindRV() && !m.rebase {
			m.abandon()
			m.failedOnce(ErrServerBehind)
			m.fallsBehind(m.in.rv)
			return
		}
		if m.rv != "" && resourceversion.Incomparable(m.in.rv, m.rv) && !m.rebase {
			m.abandon()
			m.incomparableVersions()
			return
		}
	}
	switch {
	case m.in.cont == "":
		m.unreadable, m.versioned = m.in.damaged > 0, m.pageRV != ""
		m.complete(m.pageRV)
		m.watch()
	case m.in.cont == m.page:
		m.malformedPage("the page's continue token is that of the page itself")
	default:
		m.page = m.in.cont
		m.nextPage()
	}
}

// malformedPage handles a page that ended well, and cannot be what the server wrote.
func (m *machine) malformedPage(what string) {
	m.report(ErrMalformed, errors.New(what))
	m.failedOnce(ErrMalformed)
	m.switchPaging()
	m.abandon()
	m.sleep(reqList, ErrMalformed)
}

// complete ends the replace: the store is now what the server was at rv.
func (m *machine) complete(rv string) {
	if resourceversion.Older(rv, m.rv) && m.sentinel() != ErrWentBack {
		m.report(ErrWentBack, fmt.Errorf("resourceVersion %s after %s", rv, m.rv))
	}
	m.do(endReplace{rv})
	if m.synced {
		m.relists++
	}
	if m.size = m.in.size; m.insteadOfWatch {
		m.standIns++
	}
	m.succeeded()
	m.inVain = inVain{}
	m.stood = 0
	m.countExactList(rv)
	m.rv, m.synced = rv, true
	m.unconfirmed, m.behind, m.nextList = false, behind{}, nextList{}
}

// countExactList counts lists that were not to be older than the store, and were of exactly its
// version, though nothing newer had come before. So a server before 1.19 answers in pages, which
// does not know "not older than". But so does any server whose resource is quiet, and without the
// condition its list may come from a replica that lags. So a few are taken before the condition is
// given up.
func (m *machine) countExactList(rv string) {
	if m.limit > 0 && !m.askedConsistent && m.rv != "" && rv == m.rv {
		m.exactLists++
	} else {
		m.exactLists = 0
	}
	m.noMatch = m.exactLists >= relistAfter
}

// tooOld reports whether a list failed because such a server has compacted exactly the
// resourceVersion that the list was not to be older than.
func (m *machine) tooOld(sentinel error) bool {
	return sentinel == ErrExpired && m.limit > 0 && !m.askedConsistent
}

// abandon ends the list before it is complete. The objects that it brought stay in the store, and
// cost nothing when they come again.
func (m *machine) abandon() {
	m.page, m.pageRV = "", ""
	if m.replacing {
		m.do(abortReplace{})
		m.replacing = false
		m.brokenListRV = resourceversion.Newest(m.brokenListRV, m.in.newestObjectRV)
	}
}

// switchMatch counts a list that failed with the condition "not older than", or consistent. If that
// was too often, the next one is the other. Each form is tried up to relistAfter times. A first
// state stays consistent where the Config says so. A resource that is missing for a while says
// nothing of the condition.
func (m *machine) switchMatch(sentinel error) {
	if m.vanished(sentinel) {
		return
	}
	failed := &m.unmatched
	if m.askedConsistent {
		failed = &m.inconsistent
	}
	if *failed++; *failed >= relistAfter || sentinel == ErrRejected && !m.askedConsistent {
		m.noMatch, m.noConsistent = !m.askedConsistent, m.askedConsistent && m.synced
		m.unmatched, m.inconsistent = 0, 0
	}
}

// forgetLists forgets what lists have failed with: the next ones are wanted for another reason. It
// forgets listFloor too. How far the server had come then does not make the next lists consistent.
func (m *machine) forgetLists() {
	m.noMatch, m.noConsistent, m.unmatched, m.inconsistent, m.exactLists, m.listFloor = false, false, 0, 0, 0, ""
}

// switchPaging counts a list that failed in the form it was asked for. If that was too often, the
// next list has another form: pages, whole, or initial events in mode WatchList.
func (m *machine) switchPaging() {
	if m.brokenLists++; m.brokenLists < maxBrokenLists {
		return
	}
	switch {
	case m.limit > 0: // pages: all of it in one answer
		m.whole, m.brokenLists = true, 0
		m.withoutInitial = false
	default:
		m.whole, m.unpaged = false, false
	}
}

// listFailed handles a LIST that failed before its answer or within its body.
func (m *machine) listFailed(sentinel error) {
	if m.page != "" && m.pageFailed(sentinel) {
		return
	}
	inPages := !m.whole
	switch {
	case m.fallsShort(sentinel):
		m.switchPaging()
		m.switchMatch(sentinel)
	case m.tooOld(sentinel):
		m.noMatch, m.noConsistent, m.unmatched, m.inconsistent = true, false, 0, 0
		if m.exactLists++; m.exactLists%relistAfter == 0 { // a whole one is not exact
			m.whole, m.brokenLists = true, 0
		}
	}
	m.abandon()
	switch {
	case sentinel == ErrServerBehind && m.least() != "" && !m.askedConsistent:
		m.insteadOfWatch = false
		m.refusedAsTooLarge()
		return
	case sentinel == ErrExpired || sentinel == ErrServerBehind:
		m.consistent = true
	case m.insteadOfWatch && m.rv != "" && sentinel != ErrUnknownResource && !(inPages && m.whole):
		// But not where all in one answer was just chosen, which has not been tried yet.
		m.insteadOfWatch, m.unconfirmed, m.listFloor = false, true, ""
		m.sleep(reqWatch, sentinel)
		return
	}
	m.sleep(reqList, sentinel)
}

// fallsShort reports whether a LIST that failed counts against the form and the condition that it
// was asked for with. One that failed for how new or old it had to be does not.
func (m *machine) fallsShort(sentinel error) bool {
	switch {
	case sentinel == ErrTooManyRequests || sentinel == ErrServerBehind || m.tooOld(sentinel):
		return false
	case sentinel != ErrUnreachable || m.replacing || m.in.answered || m.insteadOfWatch && m.answeredProbes > 0:
		return true
	}
	m.unansweredLists++
	return m.unansweredLists%unansweredAsBroken == 0
}

// pageFailed handles a page that failed, and reports whether nothing else is to be done about it.
func (m *machine) pageFailed(sentinel error) bool {
	switch sentinel {
	case ErrUnreachable, ErrServer, ErrTooManyRequests, ErrMalformed:
		if m.failedAnswers >= relistAfter || m.attempt >= 2*relistAfter && sentinel != ErrTooManyRequests {
			// This page will not come: all of it in one answer.
			m.brokenLists, m.unpaged = maxBrokenLists, true
			return false
		}
		m.sleep(reqList, sentinel) // the same page again: those before it are good
		return true
	case ErrExpired:
		// The rest can be had as it is now, by the token in the answer, but not together with the
		// first part as it was: no watch could begin there, since the revision of the first part is
		// gone. So all of it, in one answer, which cannot expire on the way.
		m.abandon()
		m.whole, m.consistent, m.brokenLists = true, true, 0
		m.retryNow(reqList, sentinel)
		return true
	}
	return false
}
