package reflector

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/source"
)

// After maxBrokenLists failed lists in a row, the reflector requests the state in the other form,
// paged or whole. kube-apiserver limits each response to a minute, and the network may be too slow
// to transfer the whole state in that time.
const maxBrokenLists = 2

// unansweredAsBroken is how many lists without a response count as one failure of their form. If
// there is no response, the reason is probably that no server runs, and not the form.
const unansweredAsBroken = 3

// list requests the whole state, in the form that depends on the mode and on earlier failures.
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

// askListFloor requests the server's newest resourceVersion. The list that follows must not be
// older than this version. It follows even if this request fails.
func (m *machine) askListFloor() {
	m.askingListFloor, m.request = true, reqNewest
	m.goOn()
}

// listInstead lists because the watch, or a probe, keeps failing. If the list fails as well, the
// reflector watches next. The first list after errors need not be newer than the store: when a
// server starts, all its clients list at the same time, and its watch cache can serve such lists.
// The next list is consistent, because a watch cache that no longer advances could serve such a
// list and then a watch without any newer event. A list that replaces a silent watch is also
// consistent.
func (m *machine) listInstead(sentinel error) {
	m.insteadOfWatch, m.withoutInitial = true, true
	m.consistent = m.consistent || m.stoodIn || sentinel == ErrSilent || sentinel == ErrEnded
	m.stoodIn = true
	m.forcedLists++
	m.sleep(reqList, sentinel)
}

// firstPage requests the first page of a list, or the whole list if limit is 0.
func (m *machine) firstPage(limit int64) {
	m.request, m.phase = reqList, Listing
	m.limit, m.page, m.pageRV = limit, "", ""
	rv, match := m.from()
	m.do(openList{rv: rv, match: match, limit: limit})
}

// from returns the parameters resourceVersion and resourceVersionMatch of the next list, which say
// how current its state must be. If the list states its resourceVersion after its items, the
// parameters must exclude a state that is older than the store. The reflector would detect such a
// state only after it had stored the items, including objects that had been deleted.
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

// mustBeConsistent reports whether the Config or the state requires a consistent list. A Config
// with MostRecent requires a consistent list, except in place of a watch: a list that replaces a
// watch may be as old as the store.
func (m *machine) mustBeConsistent() bool {
	return m.consistent || m.cfg.Consistency == MostRecent && !(m.insteadOfWatch && m.least() != "")
}

// opaque reports whether rv is not an integer. Such versions can be compared only for equality.
func (m *machine) opaque() bool { return m.rv != "" && !resourceversion.IsInteger(m.rv) }

// unproven reports whether the next list needs the condition "not older than the store". It does if
// the reflector could detect an older state only after it had read the items, or if a server was
// behind the store.
func (m *machine) unproven() bool {
	return m.least() != "" && !m.opaque() && (m.rvAtEnd || m.atLeast || m.mode == WatchList && !m.withoutInitial)
}

// unknownListFloor reports whether the reflector must request the server's newest resourceVersion
// before the list. A list that is not older than that version is consistent.
func (m *machine) unknownListFloor() bool {
	return m.listFloor == "" && m.unproven() && m.mustBeConsistent() && !m.rebase && !m.noMatch
}

// nextPage requests the page with the current continue token. After a failure, this is the failed
// page again.
func (m *machine) nextPage() {
	m.request, m.phase = reqList, Listing
	m.do(openList{limit: m.limit, page: m.page})
}

// versionFailed decides what follows a failed request for the server's version. If the server fails
// or does not respond, versionFailed first repeats the request a few times. Otherwise it continues
// without the version: it lists in pages, which every server supports, and the next list requests
// the version again. Then the Status keeps the error that it had before this failure; err and
// inStream describe that error.
func (m *machine) versionFailed(sentinel error, err *Error, inStream bool) {
	switch sentinel {
	case ErrUnreachable: // if no server runs, a LIST gets no response either
		// A request that waited until its time limit has already waited long enough.
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

// pages requests a list in pages. It requests the whole list in one response if the list must be
// whole, or if the last list succeeded only in that form.
func (m *machine) pages() {
	if m.whole || m.unpaged {
		m.firstPage(0)
	} else {
		m.firstPage(m.cfg.PageSize)
	}
}

// opened handles the start of a response with code 200.
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

// listOpened decides, before the first object is stored, whether the reflector may use the list: if
// the list is older than the store, the server may have deleted some of its objects.
func (m *machine) listOpened() {
	if m.behindRV() && !m.rebase {
		m.do(closeStream{})
		m.failedOnce(ErrServerBehind)
		m.fallsBehind(m.in.rv)
		return
	}
	if m.restored && m.in.rv != "" && !m.behindRV() && !m.opaque() && !resourceversion.Incomparable(m.in.rv, m.rv) {
		// The server only lagged, or has reached rv a second time. So an ordinary list
		// suffices: it also replaces what the store has from before the restore.
		m.rebase = false
	}
	if !m.rebase && !m.awaitsWatch() {
		m.err = nil
	}
	// An empty list does not show whether this server states the version of a list before or after the
	// items. So assume the unfavorable case, after the items.
	if m.rvAtEnd = m.in.rv == "" || m.in.empty; m.rv != "" {
		m.rebase = m.rebase || m.opaque() || m.in.rv != "" && resourceversion.Incomparable(m.in.rv, m.rv)
	}
	m.do(beginReplace{m.rebase, m.restored})
	m.replacing = true
}

// awaitsWatch reports whether the current error ends only when a watch is open. It is true if the
// last watches got no response, or if the server does not allow watches: a successful list does not
// prove that a watch would succeed.
func (m *machine) awaitsWatch() bool {
	switch m.sentinel() {
	case nil, ErrServerBehind, ErrWentBack, ErrEnded, ErrSilent: // a successful list ends these errors
		return false
	case ErrMethodNotAllowed:
		return m.err.Phase == Watching
	}
	return m.unansweredWatches > 0 && m.err.Phase != Listing && !m.failedInStream
}

// pageRead handles a page, or a whole list, whose body ended normally.
func (m *machine) pageRead() {
	if m.in.rv == "" && (m.versioned || m.pageRV != "") { // all pages have the same version
		m.malformedPage("the list has no resourceVersion, but earlier responses had one")
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
		m.malformedPage("the page's continue token is the page's own token")
	default:
		m.page = m.in.cont
		m.nextPage()
	}
}

// malformedPage handles a page that ended normally, although the server cannot have written it so.
func (m *machine) malformedPage(what string) {
	m.report(ErrMalformed, errors.New(what))
	m.failedOnce(ErrMalformed)
	m.switchPaging()
	m.abandon()
	m.sleep(reqList, ErrMalformed)
}

// complete ends the replace. The store now has the server's state at rv.
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
// was only "not older than". A server before 1.19 sends such lists because it does not support the
// condition in pages. But every server sends them while its resource does not change. Because a
// list without the condition may come from a replica that lags, the reflector drops the condition
// only after relistAfter such lists in a row.
func (m *machine) countExactList(rv string) {
	if m.limit > 0 && !m.askedConsistent && m.rv != "" && rv == m.rv {
		m.exactLists++
	} else {
		m.exactLists = 0
	}
	m.noMatch = m.exactLists >= relistAfter
}

// tooOld reports whether a paged list with the condition "not older than" failed with 410. A server
// before 1.19 responds in this way if it has compacted exactly the version of the condition.
func (m *machine) tooOld(sentinel error) bool {
	return sentinel == ErrExpired && m.limit > 0 && !m.askedConsistent
}

// abandon ends the list before it is complete. The objects that it contained stay in the store; if
// another list contains them again, the store skips them.
func (m *machine) abandon() {
	m.page, m.pageRV = "", ""
	if m.replacing {
		m.do(abortReplace{})
		m.replacing = false
		m.brokenListRV = resourceversion.Newest(m.brokenListRV, m.in.newestObjectRV)
	}
}

// switchMatch counts the failed lists of each condition, which is "not older than" or consistent.
// After relistAfter failures, or if the server rejects "not older than" (ErrRejected), the next
// list has the other condition. A first state remains consistent if the Config requires that. A 404
// for a resource that existed shortly before does not count.
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

// forgetLists clears the counts of failed lists and the conditions that depend on them, because the
// next list has a new reason. It also clears listFloor: a version that the server had reached
// earlier does not make the next list consistent.
func (m *machine) forgetLists() {
	m.noMatch, m.noConsistent, m.unmatched, m.inconsistent, m.exactLists, m.listFloor = false, false, 0, 0, 0, ""
}

// switchPaging counts a list that failed in its form. After maxBrokenLists failures the next list
// has another form: pages, one response or, in mode WatchList, initial events.
func (m *machine) switchPaging() {
	if m.brokenLists++; m.brokenLists < maxBrokenLists {
		return
	}
	switch {
	case m.limit > 0: // pages failed: request the whole list in one response
		m.whole, m.brokenLists = true, 0
		m.withoutInitial = false
	default:
		m.whole, m.unpaged = false, false
	}
}

// listFailed handles a LIST that failed before its response or inside its body.
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
		// A whole list may have a newer version than the condition, even if the server sends pages at
		// exactly the version of the condition.
		if m.exactLists++; m.exactLists%relistAfter == 0 {
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
		// If pages have just failed often enough, the next request is a whole list instead of a watch.
		m.insteadOfWatch, m.unconfirmed, m.listFloor = false, true, ""
		m.sleep(reqWatch, sentinel)
		return
	}
	m.sleep(reqList, sentinel)
}

// fallsShort reports whether the form or the condition of a failed LIST may be the reason of the
// failure. It returns false after a 429, and after failures that concern the version of the state.
// If LISTs get no response, and nothing shows that a server runs, it returns true only for every
// third one (unansweredAsBroken).
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

// pageFailed handles a failed page after the first. It returns true if the next request is already
// decided. Otherwise the caller handles the failure.
func (m *machine) pageFailed(sentinel error) bool {
	switch sentinel {
	case ErrUnreachable, ErrServer, ErrTooManyRequests, ErrMalformed:
		if m.failedAnswers >= relistAfter || m.attempt >= 2*relistAfter && sentinel != ErrTooManyRequests {
			// The page keeps failing: request the whole list in one response.
			m.brokenLists, m.unpaged = maxBrokenLists, true
			return false
		}
		m.sleep(reqList, sentinel) // the same page again, because the pages before it remain valid
		return true
	case ErrExpired:
		// The continue token in the response is for the rest of the list, but at a newer revision than
		// the first part. No watch could start then, because the revision of the first part is compacted.
		// So request the whole list in one response, which cannot expire while it is sent.
		m.abandon()
		m.whole, m.consistent, m.brokenLists = true, true, 0
		m.retryNow(reqList, sentinel)
		return true
	}
	return false
}
