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

// maxBrokenLists is the number of failed lists in a row after which the reflector requests the
// state in the other form, paged or whole. kube-apiserver gives each answer a minute, and the
// network may be too slow for the whole state.
const maxBrokenLists = 2

// unansweredAsBroken is how many lists without an answer count as one list that failed in its form.
// Without any answer there is most likely no server, unless it answered a probe.
const unansweredAsBroken = 3

// list requests the whole state, in the form that the mode and the earlier failures require.
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

// askListFloor asks for the server's newest resourceVersion. The answer, or its failure, leads to
// the list.
func (m *machine) askListFloor() {
	m.askingListFloor, m.request = true, reqNewest
	m.goOn()
}

// listInstead lists because the watch, or a probe, keeps failing. If the list fails as well, the
// reflector tries the watch again. After errors the first list may be as old as the store: all the
// clients of a starting server list at the same time, and the server's watch cache can answer such
// lists. But a watch that is silent, or sends nothing newer after such a list, may be served by a
// watch cache that no longer advances. So the next list is consistent.
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

// from returns the resourceVersion and match parameters of the next list, which say how current its
// state must be. A list that states its resourceVersion after its items must not be older than the
// store. Otherwise the reflector would notice an older list only after it has stored the items, and
// items that were deleted since would be back.
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

// mustBeConsistent reports whether the Config or the state requires a consistent list. The Config's
// requirement concerns the first state, and is met already when a list replaces a watch.
func (m *machine) mustBeConsistent() bool {
	return m.consistent || m.cfg.Consistency == MostRecent && !(m.insteadOfWatch && m.least() != "")
}

// opaque reports whether rv is no integer. Such versions can only be compared for equality.
func (m *machine) opaque() bool { return m.rv != "" && !resourceversion.IsInteger(m.rv) }

// unproven reports whether a list may be older than the store and show that only after its items.
func (m *machine) unproven() bool {
	return m.least() != "" && !m.opaque() && (m.rvAtEnd || m.atLeast || m.mode == WatchList && !m.withoutInitial)
}

// unknownListFloor reports whether the reflector must first ask for the server's newest
// resourceVersion. A list that is not older than that version is consistent.
func (m *machine) unknownListFloor() bool {
	return m.listFloor == "" && m.unproven() && m.mustBeConsistent() && !m.rebase && !m.noMatch
}

// nextPage requests the page of the current token. After a failure that is the same page again.
func (m *machine) nextPage() {
	m.request, m.phase = reqList, Listing
	m.do(openList{options(m.limit, "", "", m.page)})
}

// versionFailed continues without the server's version. A server that answers other requests
// receives requests that every server supports. The next list asks for the version again. err and
// inStream are the error before this failure; they remain in force.
func (m *machine) versionFailed(sentinel error, err *Error, inStream bool) {
	switch sentinel {
	case ErrUnreachable: // where there is no server at all, a LIST gets no answer either
		// A request that was silent until its time limit has already waited long enough.
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

// pages requests the list in pages. It requests the whole list if the list must be whole, or if the
// last list succeeded only as a whole.
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

// listOpened decides, before the first object is stored, whether the reflector may use the list at
// all: an object of an old list may have been deleted since, and would come back.
func (m *machine) listOpened() {
	if m.behindRV() && !m.rebase {
		m.do(closeStream{})
		m.failedOnce(ErrServerBehind)
		m.fallsBehind(m.in.rv)
		return
	}
	if m.restored && m.in.rv != "" && !m.behindRV() && !m.opaque() && !resourceversion.Incomparable(m.in.rv, m.rv) {
		// The server lagged, or has reached rv again. Then an ordinary list also replaces what the
		// store has of another past.
		m.rebase = false
	}
	if !m.rebase && !m.awaitsWatch() {
		m.err = nil
	}
	// Before an empty list: as if after the items.
	if m.rvAtEnd = m.in.rv == "" || m.in.empty; m.rv != "" {
		m.rebase = m.rebase || m.opaque() || m.in.rv != "" && resourceversion.Incomparable(m.in.rv, m.rv)
	}
	m.do(beginReplace{m.rebase, m.restored})
	m.replacing = true
}

// awaitsWatch reports whether the current error ends only when a watch is open. That is so if the
// last watches got no answer, or the server does not allow them: lists that succeed do not change
// that.
func (m *machine) awaitsWatch() bool {
	switch m.sentinel() {
	case nil, ErrServerBehind, ErrWentBack, ErrEnded, ErrSilent: // a successful list ends these errors
		return false
	case ErrMethodNotAllowed:
		return m.err.Phase == Watching
	}
	return m.unansweredWatches > 0 && m.err.Phase != Listing && !m.failedInStream
}

// pageRead handles a page that ended well.
func (m *machine) pageRead() {
	if m.in.rv == "" && (m.versioned || m.pageRV != "") { // every page has the version of the first
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

// malformedPage handles a page that ended normally, but cannot be what the server wrote.
func (m *machine) malformedPage(what string) {
	m.report(ErrMalformed, errors.New(what))
	m.failedOnce(ErrMalformed)
	m.switchPaging()
	m.abandon()
	m.sleep(reqList, ErrMalformed)
}

// complete ends the replace: the store now has the server's state at rv.
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

// countExactList counts paged lists that had exactly the store's version, although the condition
// was "not older than" it and nothing newer had been received. A server before 1.19 answers so,
// because it does not support "not older than" in pages. But any server does so while its resource
// does not change, and a list without the condition may come from a replica that lags. So the
// reflector accepts a few such lists before it gives the condition up.
func (m *machine) countExactList(rv string) {
	if m.limit > 0 && !m.askedConsistent && m.rv != "" && rv == m.rv {
		m.exactLists++
	} else {
		m.exactLists = 0
	}
	m.noMatch = m.exactLists >= relistAfter
}

// tooOld reports whether a list failed because a server before 1.19 has compacted exactly the
// resourceVersion that the list must not be older than.
func (m *machine) tooOld(sentinel error) bool {
	return sentinel == ErrExpired && m.limit > 0 && !m.askedConsistent
}

// abandon ends the list before it is complete. The objects that it returned stay in the store, and
// cost little if they are received again.
func (m *machine) abandon() {
	m.page, m.pageRV = "", ""
	if m.replacing {
		m.do(abortReplace{})
		m.replacing = false
		m.brokenListRV = resourceversion.Newest(m.brokenListRV, m.in.newestObjectRV)
	}
}

// switchMatch counts a failed list against its condition: "not older than", or consistent. After
// relistAfter failures the next list uses the other condition. A first state stays consistent if
// the Config requires it. A 404 of a resource that existed shortly before does not count.
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

// forgetLists clears what lists have failed with, because the next lists have another reason. It
// also clears listFloor: a version that the server had reached earlier does not make the next lists
// consistent.
func (m *machine) forgetLists() {
	m.noMatch, m.noConsistent, m.unmatched, m.inconsistent, m.exactLists, m.listFloor = false, false, 0, 0, 0, ""
}

// switchPaging counts a list that failed in its form. After maxBrokenLists failures the next list
// has another form: paged, whole, or initial events in mode WatchList.
func (m *machine) switchPaging() {
	if m.brokenLists++; m.brokenLists < maxBrokenLists {
		return
	}
	switch {
	case m.limit > 0: // pages: request all in one answer
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
		if m.exactLists++; m.exactLists%relistAfter == 0 { // not answered at exactly that version
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
		// Unless the reflector has just switched to a list in one answer, which it has not tried
		// yet.
		m.insteadOfWatch, m.unconfirmed, m.listFloor = false, true, ""
		m.sleep(reqWatch, sentinel)
		return
	}
	m.sleep(reqList, sentinel)
}

// fallsShort reports whether a failed LIST counts against its form and its condition. A failure
// because of how new or old the state had to be does not count.
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

// pageFailed handles a page that failed. It reports whether it has done everything; if not, the
// caller handles the failure.
func (m *machine) pageFailed(sentinel error) bool {
	switch sentinel {
	case ErrUnreachable, ErrServer, ErrTooManyRequests, ErrMalformed:
		if m.failedAnswers >= relistAfter || m.attempt >= 2*relistAfter && sentinel != ErrTooManyRequests {
			// The page keeps failing: request the whole list in one answer.
			m.brokenLists, m.unpaged = maxBrokenLists, true
			return false
		}
		m.sleep(reqList, sentinel) // the same page again: the pages before it remain valid
		return true
	case ErrExpired:
		// The token in the answer returns the rest of the list, but at a newer revision than the
		// first part. No watch could start from there, since the revision of the first part is
		// gone. So request all in one answer, which cannot expire on the way.
		m.abandon()
		m.whole, m.consistent, m.brokenLists = true, true, 0
		m.retryNow(reqList, sentinel)
		return true
	}
	return false
}
