package reflector

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirproject/weir/internal/core/checks"
)

// state is everything that step uses to decide. It is a value; cfg points to data that never
// changes.
//
// phase and request belong together. Each row of the table says which flags may be set with them: -
// means that the flag is false, + that the flag may be true or false.
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
//	page is set            only while replacing, and pageRV only while page is
//	replacing with Waiting only between two pages: page is set
//	initial and replacing  only with an open watch
//	moved                  only where the watch has brought something
//	brought                only where the watch was open
//	rv is known, versioned only where synced
//	restored               never with Watching: a list comes first
//	noMatch                never with noConsistent
//
// check enforces these rules. All other combinations of flags are legal. Fields that one event
// clears together are in one struct, so that no field outlives its cause.
type state struct {
	cfg *Config

	phase   Phase
	request request // the request under way; in phase Waiting, the next request
	mode    Mode    // Auto until the server's version is known

	rv     string // the resourceVersion that the store is current to; "" before the first list
	synced bool
	// relists counts the complete states after the first one.
	relists int
	// versioned says that a list had a resourceVersion. After that, a list without one is
	// malformed: the generated decoders read a body that was cut off after its kind, for example,
	// as an empty list.
	versioned bool
	size      int64 // of the last complete list, in small objects
	// The last list had objects that cannot be read. Another unreadable object then causes no list.
	unreadable bool
	// unconfirmed says that the server of the next watch has not yet shown that it is as new as rv.
	unconfirmed bool
	// A watch has sent a bookmark, not counting those up to the end of initial events.
	bookmarked bool
	behind     behind // a server that may have gone back in time

	nextList
	listHistory
	initial bool // the request is a watch, and its initial events are not complete
	stream
	pace
	inVain

	err            *Error
	failedInStream bool   // err belongs to a watch that was open
	reason         Reason // why the list under way, or the next one, is necessary; decides nothing
}

// nextList describes the list under way, or the next one. A complete list clears it. Its flags up
// to noConsistent are conditions on that list. Several can be set together, also with unpaged and
// noMatch.
type nextList struct {
	consistent     bool // it must be consistent, even where the Config does not ask for that
	atLeast        bool // it must not be older than rv: a server that was behind was found
	whole          bool // it must not be paged
	withoutInitial bool // it must be a LIST, even in mode WatchList
	rebase         bool // it replaces the store's state even if it is older than rv
	restored       bool // as rebase, because the server was restored from a backup
	insteadOfWatch bool // it replaces a watch that keeps failing; rv may still be good
	noConsistent   bool // consistent lists keep failing: request "not older than" instead

	page         string // the continue token of the page under way; "" on the first
	pageRV       string // the list's resourceVersion
	replacing    bool   // between beginReplace and endReplace or abortReplace
	brokenListRV string // the newest resourceVersion of the objects of a list that broke off
	listFloor    string // it must not be older than this version, which the server has reached
	// The reflector is asking for the newest resourceVersion, to set listFloor from it.
	askingListFloor bool

	brokenLists  int // lists in a row that failed in the same form: paged, whole, or initial events
	unmatched    int // lists that failed with "not older than" since the condition last changed
	inconsistent int // consistent lists that failed since the condition last changed
	tooLarge     int // states in a row that the server refused because it is behind
}

// listHistory is what the next list must take into account of earlier lists.
type listHistory struct {
	askedConsistent bool  // the request under way, or the last one, is for a consistent list
	limit           int64 // the page size of the request under way, or of the last one
	unpaged         bool  // a next page failed repeatedly the last time: request the whole list first
	rvAtEnd         bool  // lists state their resourceVersion after their items, or may do so
	// stoodIn says that a list has replaced a watch, and no watch has sent a newer version since.
	stoodIn bool
	// The server refuses "not older than", or ignores it: request consistent lists.
	noMatch bool
	// exactLists counts the paged lists in a row, without a newer version between them, that had
	// exactly the store's version or failed because the server has compacted that version.
	exactLists int
}

// stream describes the watch under way, or the last one. The request of the next watch clears it.
type stream struct {
	open    bool // it was answered with 200
	brought bool // it sent an event or a bookmark
	moved   bool // it sent a newer resourceVersion
}

// pace is what sets the pace of requests. All counts are of failures in a row. A newer
// resourceVersion clears all but forcedLists, shortWatches and stood.
type pace struct {
	// attempt counts failures of any kind. A watch that ends well also clears it. cheapFailures
	// counts those among the first of these failures that cost the server little, see
	// backoffAttempt.
	attempt       int
	cheapFailures int
	// forcedLists counts the lists that failing watches, or a server that was behind, made
	// necessary. It sets the pace of lists, see listBackoffAttempt. A watch that stays open for
	// long enough clears it, see forgive and forgiveLists.
	forcedLists  int
	shortWatches int // watches that sent something and ended within shortWatch
	standIns     int // lists that replaced a watch. A watch that sends something clears it
	// stood is the total time of watches in a row that ended well. A failure or a list clears it.
	stood time.Duration
	// missing counts the 404 answers in a row that do not slow the pace: the resource existed
	// shortly before. A list clears it. refused counts those of them that answered a watch. A watch
	// that stays open for Backoff.Healthy, or sends something, clears refused.
	missing int // <= maxMissing
	refused int // <= maxRefused
}

// inVain counts the failed and useless requests since the reflector last received a newer version.
// A newer resourceVersion and a complete list clear it.
type inVain struct {
	failedAnswers     int // failed answers of any kind except 429 and 504 ResourceVersionTooLarge
	unansweredWatches int // watches that got no answer, or broke off and had sent nothing
	answeredProbes    int // answers to probes in that time
	failures          int // of any kind, except 429 and requests without an answer
	unansweredLists   int
	// empty is the total time of watches that sent nothing, see emptyFor.
	empty time.Duration
	// unheard is the total time of watches in a row, before this one, that sent nothing. It
	// restarts about where a probe last answered that the store is current. A watch that sends
	// something clears it, and so does a proving watch, see proves.
	unheard time.Duration
	// newer says that a probe has found a newer version within the time that unheard measures.
	newer bool
	// silence is the total time of watches in a row that sent nothing while no probe was answered.
	// A watch that sends something clears it, and so does an answered probe.
	silence time.Duration
}

// checking makes step check its result. It is set in tests.
var checking = checks.Invariants

// check returns an error that names the rules that the state breaks, or nil.
func (s *state) check() error {
	rule := func(ok bool, text string) error {
		if ok {
			return nil
		}
		return errors.New(text)
	}
	return errors.Join(
		rule(s.matches(), "phase and request do not go together"),
		rule(s.initial == (s.phase == Listing && s.request == reqWatch), "initial is not a watch that lists"),
		rule(s.page == "" || s.replacing, "a page without a replace"),
		rule(s.pageRV == "" || s.page != "", "a page's resourceVersion without a page"),
		rule(!s.replacing || s.initial && s.open || s.request == reqList && (s.phase == Listing || s.page != ""), "a replace without an end"),
		rule(!s.insteadOfWatch || s.request != reqWatch || s.initial, "a list instead of a watch is a watch"),
		rule(!s.brought || s.open, "a watch that was not open has brought something"),
		rule(!s.moved || s.brought, "a watch that brought nothing has moved on"),
		rule(s.rv == "" || s.synced, "current to a resourceVersion, and not synced"),
		rule(!s.versioned || s.synced, "a list had a resourceVersion, and not synced"),
		rule(!s.noMatch || !s.noConsistent, "a list that is neither consistent nor not older than the store"),
		rule(!s.restored || s.phase != Watching, "a watch before the list of a server that was restored"),
		rule(s.reason == NoReason || s.lists(), "a reason for a list that does not come"),
		rule(s.counts(), "a counter out of its range"),
	)
}

// matches reports whether phase and request are a row of the table.
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

// mustHold panics, with both states and the input, if after breaks a rule.
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
	reqVersion         // the server's version
	reqList            // the first page, or the next
	reqNewest          // the newest resourceVersion
	reqReaches         // the newest resourceVersion, on the condition that the server has reached rv
	reqWatch           // changes; with state.initial the initial events first
)

// inputType says what happened.
type inputType uint8

const (
	inNone     inputType = iota // no input: continue
	inBegin                     // Run has started
	inWoke                      // a wait has ended
	inVersion                   // the server's version: major, minor
	inNewest                    // rv is the server's newest; "" when it does not say
	inOpened                    // answered with 200; rv if a LIST states it before its items
	inPage                      // a LIST's body ended well: rv, cont, damaged
	inEvents                    // events were put into the store: rv of the last; damaged
	inBookmark                  // the bookmark's rv; final when it ends the initial events
	// A probe broke off a silent watch: rv is the newest, or err, retryAfter.
	inProbed
	inOutdated // another reflector found that the server went back: spread
	inEnded    // a WATCH's body ended well
	inFailed   // the request, or the stream, failed: err, retryAfter
)

// input is one event that step handles. The driver closes the stream before inNewest, inPage,
// inProbed, inOutdated, inEnded and inFailed.
type input struct {
	typ          inputType
	major, minor int
	rv, cont     string
	final        bool
	damaged      int // objects that could not be read
	err          *Error
	answered     bool // the request that failed was answered with 200 first
	torn         bool // a WATCH's stream broke off within an event
	empty        bool // a LIST that was answered has no items
	retryAfter   time.Duration
	after        time.Duration // since the request under way was made, or the watch was answered
	jitter       float64       // random in [0, 1)
	spread       time.Duration // bounds the random delay of a list that other reflectors request too

	// Set when a list ends with this input: the newest resourceVersion of its objects, and its size
	// with all its pages, in small objects.
	newestObjectRV string
	size           int64

	probe probeResult // of the probes beside a watch that ended, or broke off
}

// newState returns the state before the first step. rv is the version that the sink is current to,
// or "".
func newState(cfg *Config, rv string) state {
	s := state{cfg: cfg, mode: cfg.Mode, rv: rv, synced: rv != ""}
	s.rvAtEnd = rv != ""
	return s
}

// tries returns how many tries have failed in a row.
func (s *state) tries() int { return s.attempt + s.missing }

// sentinel returns the sentinel of the current error, or nil.
func (s *state) sentinel() error {
	if s.err == nil {
		return nil
	}
	return s.err.Sentinel
}
