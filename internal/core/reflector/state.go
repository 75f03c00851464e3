package reflector

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirproject/weir/internal/core/checks"
)

// state contains everything on which the decisions of step depend. step gets a copy; cfg points to
// data that never changes.
//
// Each row of the table is a legal combination of phase and request. It says which flags may be set
// with them: - means that the flag is false, + that it may be true or false.
//
//	phase      request               initial  replacing  page  insteadOfWatch
//	Waiting    list                  -        +          +     +
//	Waiting    version               -        -          -     +
//	Waiting    newest, reaches       -        -          -     +
//	Waiting    watch                 -        -          -     -
//	Asking     version               -        -          -     +
//	Asking     newest, reaches       -        -          -     +
//	Listing    list                  -        +          +     +
//	Listing    watch                 true     +          -     +
//	Watching   watch                 -        -          -     -
//
// Also:
//
//	page is set            only while replacing
//	pageRV is set          only while page is set
//	replacing with Waiting only between two pages: page is set
//	initial and replacing  only with an open watch
//	moved                  only if the watch has sent something (brought)
//	brought                only if the watch was answered (open)
//	rv is known, versioned only if synced
//	restored               never with Watching: a list comes first
//	noMatch                never with noConsistent
//
// check enforces these rules. All other combinations of flags are legal. Fields that are always
// cleared together are in one struct, which is cleared as a whole.
type state struct {
	cfg *Config

	phase   Phase
	request request // the current request; in phase Waiting, the next request
	mode    Mode    // the mode in use; Auto until the server's version is known

	rv     string // the resourceVersion that the store is current to; "" before the first list
	synced bool
	// relists is the number of complete states after the first one.
	relists int
	// versioned is true if a list had a resourceVersion. After that, a list without one is malformed:
	// for example, generated protobuf decoders read a body that ends after its kind as an empty list.
	versioned bool
	size      int64 // of the last complete list, as a number of small objects
	// unreadable is true if the last list contained objects that could not be read. While it is true,
	// an unreadable object of a watch causes no list.
	unreadable bool
	// unconfirmed is true if the server of the next watch has not yet shown that it is as new as rv.
	unconfirmed bool
	// bookmarked is true if a watch has sent a bookmark other than the one that ends initial events.
	bookmarked bool
	behind     behind // what is known of a server that may have gone back in time

	nextList
	listHistory
	initial bool // the request is a watch whose initial events are not complete
	stream
	pace
	inVain

	err            *Error
	failedInStream bool // err is the error of a watch that was open
	// why the current list, or the next one, is necessary; no decision depends on it
	reason Reason
}

// nextList describes the current list or, if there is none, the next one. A complete list clears
// it. The flags up to noConsistent are conditions on that list. Several of them may be true at the
// same time, also together with unpaged and noMatch.
type nextList struct {
	consistent     bool // it must be consistent, even if the Config does not require that
	atLeast        bool // it must not be older than rv, because a server was behind rv
	whole          bool // it must not be in pages
	withoutInitial bool // it must be a LIST, even in mode WatchList
	rebase         bool // it replaces the store's state even if it is older than rv
	restored       bool // like rebase, because the server was restored from a backup
	insteadOfWatch bool // it replaces a watch that keeps failing; a watch from rv may still succeed
	noConsistent   bool // consistent lists keep failing: use the condition "not older than" instead

	page      string // the continue token of the current page; "" on the first page
	pageRV    string // the resourceVersion of the list, from its first page
	replacing bool   // between beginReplace and endReplace or abortReplace
	// the newest resourceVersion of the objects of a list that failed before its end
	brokenListRV string
	listFloor    string // a version that the server has reached; the list must not be older
	// The current request is for the newest resourceVersion, which becomes listFloor.
	askingListFloor bool

	brokenLists  int // lists in a row that failed in one form: paged, whole, or initial events
	unmatched    int // failed lists with "not older than", since the condition last changed
	inconsistent int // failed consistent lists, since the condition last changed
	tooLarge     int // requests in a row for a state that the server refused because it is behind
}

// listHistory contains what earlier lists have shown. The form of the next list depends on it.
type listHistory struct {
	askedConsistent bool  // the current request, or the last one, is for a consistent list
	limit           int64 // the page size of the current request, or of the last one
	// a next page failed repeatedly in the last list: request the whole list first
	unpaged bool
	rvAtEnd bool // lists state their resourceVersion after their items, or may do so
	// stoodIn is true from a list that replaced a watch until a watch sends a newer version.
	stoodIn bool
	// The server refuses the condition "not older than", or ignores it: request consistent lists.
	noMatch bool
	// exactLists is the number of paged lists in a row that had exactly the store's version, or failed
	// because the server has compacted that version. A newer version clears it.
	exactLists int
}

// stream describes the current watch, or the last one. The request of the next watch clears it.
type stream struct {
	open    bool // the response had code 200
	brought bool // it sent an event or a bookmark
	moved   bool // it sent a newer resourceVersion
}

// pace contains what the waits before requests depend on. All counts are of failures in a row. A
// newer resourceVersion clears them, except forcedLists, shortWatches and stood.
type pace struct {
	// attempt is the number of failures of any kind. A watch that ends normally also clears it.
	// cheapFailures is how many of these failures, at most maxCheapFailures, cost the server little;
	// see backoffAttempt.
	attempt       int
	cheapFailures int
	// forcedLists is the number of lists that were necessary because watches failed or a server was
	// behind. The wait before a list depends on it; see listBackoffAttempt. A watch that stays open
	// for long enough clears it; see forgive and forgiveLists.
	forcedLists  int
	shortWatches int // watches that sent something and ended within shortWatch
	standIns     int // lists that replaced a watch; a watch that sends something clears it
	// stood is the total time of watches in a row that ended normally. A failure or a list clears it.
	stood time.Duration
	// missing is the number of 404 responses in a row that do not lengthen the waits, because the
	// resource existed shortly before. A list clears it. refused is the number of these responses that
	// answered a watch. A watch that sends something, or stays open for Backoff.Healthy, clears
	// refused.
	missing int // at most maxMissing
	refused int // at most maxRefused
}

// inVain counts failed requests, and requests without a result, since the reflector last received a
// newer version. A newer resourceVersion and a complete list clear it.
type inVain struct {
	// responses with an error of any kind except 429 and 504 ResourceVersionTooLarge
	failedAnswers     int
	unansweredWatches int // watches that got no response, or failed and had sent nothing newer
	answeredProbes    int // responses to probes while watches got none
	failures          int // failures of any kind, except 429 and requests without a response
	unansweredLists   int
	// empty is the total time of watches that sent nothing; see emptyFor.
	empty time.Duration
	// The watches directly before the current one sent nothing. unheard is their total time. When a
	// probe finds that the store is current, unheard becomes the approximate time since that probe. A
	// watch that sends something clears it, and so does a proving watch; see proves.
	unheard time.Duration
	// newer is true if a probe has found a newer version during the time that unheard measures.
	newer bool
	// silence is the total time of watches in a row that sent nothing while no probe got a response. A
	// watch that sends something clears it, and so does a response to a probe.
	silence time.Duration
}

// checking makes step check the rules of its result. Tests set it.
var checking = checks.Invariants

// check returns an error that names the rules that the state violates, or nil.
func (s *state) check() error {
	rule := func(ok bool, text string) error {
		if ok {
			return nil
		}
		return errors.New(text)
	}
	return errors.Join(
		rule(s.matches(), "the phase does not match the request"),
		rule(s.initial == (s.phase == Listing && s.request == reqWatch), "initial is not a watch that lists"),
		rule(s.page == "" || s.replacing, "a page without a replace"),
		rule(s.pageRV == "" || s.page != "", "a page's resourceVersion without a page"),
		rule(!s.replacing || s.initial && s.open || s.request == reqList && (s.phase == Listing || s.page != ""), "a replace without an end"),
		rule(!s.insteadOfWatch || s.request != reqWatch || s.initial, "a list in place of a watch is a watch"),
		rule(!s.brought || s.open, "a watch that was not open has received something"),
		rule(!s.moved || s.brought, "a watch that received nothing has advanced"),
		rule(s.rv == "" || s.synced, "current up to a resourceVersion, but not synced"),
		rule(!s.versioned || s.synced, "a list had a resourceVersion, but not synced"),
		rule(!s.noMatch || !s.noConsistent, "a list that is not consistent and may be older than the store"),
		rule(!s.restored || s.phase != Watching, "a watch before the list of a server that was restored"),
		rule(s.reason == NoReason || s.lists(), "a reason for a list that is not sent"),
		rule(s.counts(), "a counter outside its range"),
	)
}

// matches reports whether the combination of phase and request is in the table.
func (s *state) matches() bool {
	switch s.phase {
	case Waiting:
		return s.request != reqNone
	case Asking:
		return s.request == reqVersion || s.request == reqNewest || s.request == reqReaches
	case Listing:
		return s.request == reqList || s.request == reqWatch
	case Watching:
		return s.request == reqWatch
	}
	return false
}

// counts reports whether all counters are within their bounds.
func (s *state) counts() bool {
	for _, n := range []int{
		s.relists, s.unmatched, s.inconsistent, s.exactLists, s.brokenLists, s.attempt, s.cheapFailures, s.forcedLists, s.failedAnswers,
		s.tooLarge, s.unansweredWatches, s.answeredProbes, s.failures, s.unansweredLists, s.shortWatches, s.standIns, s.missing, s.refused,
		s.behind.denied, s.behind.rounds, s.behind.unansweredQuestions,
	} {
		if n < 0 {
			return false
		}
	}
	return s.empty >= 0 && s.stood >= 0 && s.unheard >= 0 && s.cheapFailures <= min(s.attempt, maxCheapFailures) && s.missing <= maxMissing && s.refused <= maxRefused && s.behind.rounds <= maxRounds
}

// If the state after a step violates a rule, mustHold panics with both states and the input.
func mustHold(before, after state, in input) {
	if err := after.check(); err != nil {
		before.cfg, after.cfg = nil, nil
		panic(fmt.Sprintf("reflector: %v\nafter  %+v\nbefore %+v\ninput  %+v", err, after, before, in))
	}
}

// request is a kind of request that a reflector makes.
type request uint8

const (
	reqNone    request = iota
	reqVersion         // for the server's version
	reqList            // for the first page of a list, or the next one
	reqNewest          // for the newest resourceVersion
	// for the newest resourceVersion, with the condition that the server has reached rv
	reqReaches
	reqWatch // for changes; if state.initial is true, for the initial events first
)

// inputType says what happened. The comments name the fields of input that have a value.
type inputType uint8

const (
	inNone    inputType = iota // no input: the stream continues
	inBegin                    // Run has started
	inWoke                     // a wait has ended
	inVersion                  // the server's version: major, minor
	// rv is the server's newest version, or "" if the server does not report it
	inNewest
	inOpened   // the response has code 200; rv, if a list states it before its items
	inPage     // the body of a LIST, or of a page, ended normally: rv, cont, damaged
	inEvents   // events were written to the store: rv of the last one, damaged
	inBookmark // a bookmark was received: rv; final if it ends the initial events
	// A probe ended a silent watch: rv is the server's newest version, or err and retryAfter are set.
	inProbed
	inOutdated // another reflector found that the server went back in time: spread
	inEnded    // the body of a WATCH ended normally
	inFailed   // the request or its stream failed: err, retryAfter
)

// input says what happened. step decides from it what follows. The driver has closed the stream
// before inNewest, inPage, inProbed, inOutdated, inEnded and inFailed.
type input struct {
	typ          inputType
	major, minor int
	rv, cont     string
	final        bool
	damaged      int // the number of objects that could not be read
	err          *Error
	answered     bool // the failed request had got a response with code 200 first
	torn         bool // the stream of a WATCH ended inside an event
	empty        bool // the opened LIST has no items
	retryAfter   time.Duration
	after        time.Duration // the time since the current request was sent or, for a watch, answered
	jitter       float64       // random in [0, 1)
	spread       time.Duration // the maximum random delay of a list that other reflectors also send

	// Set if a list ends with this input: the newest resourceVersion of its objects, and its size over
	// all its pages, as a number of small objects.
	newestObjectRV string
	size           int64

	probe probeResult // what the probes of the ended watch found
}

// newState returns the state before the first step. rv is the version that the sink is current to,
// or "" if there is none.
func newState(cfg *Config, rv string) state {
	s := state{cfg: cfg, mode: cfg.Mode, rv: rv, synced: rv != ""}
	s.rvAtEnd = rv != ""
	return s
}

// tries returns the number of tries in a row that have failed.
func (s *state) tries() int { return s.attempt + s.missing }

// sentinel returns the sentinel of the current error, or nil.
func (s *state) sentinel() error {
	if s.err == nil {
		return nil
	}
	return s.err.Sentinel
}
