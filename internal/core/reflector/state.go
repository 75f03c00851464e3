package reflector

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirproject/weir/internal/core/checks"
)

// state is everything that step knows. It is a value; cfg points to what never changes.
//
// phase and request belong together. Each row tells which of the flags about requests may be set: -
// means that the flag is false, + that it may be either.
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
// check enforces these rules. All other combinations of flags are legal. What is cleared together
// is one struct, so that nothing survives its cause.
type state struct {
	cfg *Config

	phase   Phase
	request request // what is under way, or, while waiting, what comes next
	mode    Mode    // Auto until the server's version is known

	rv     string // the store is current to here; "" before the first list
	synced bool
	// relists counts the states that were complete after the first.
	relists int
	// versioned says that a list had a resourceVersion. One without is no list of that server then: a
	// body that was cut behind its kind, say, is an empty one to the generated decoders.
	versioned bool
	size      int64 // of the last list that came through, in small objects
	// The last list had objects that cannot be read: another one is no reason for a list.
	unreadable bool
	// unconfirmed says that the server of the next watch has yet to show that it is as new as rv.
	unconfirmed bool
	bookmarked  bool   // any watch has brought a bookmark, but for those of initial events
	behind      behind // about a server that may have gone back in time

	nextList
	listHistory
	initial bool // a watch, in its initial events
	stream
	pace
	inVain

	err            *Error
	failedInStream bool   // err came with a watch that was open
	reason         Reason // why the list under way, or the next one, is necessary; decides nothing
}

// nextList is about the list under way, or the next one. A complete list clears it. Its flags up to
// noConsistent are demands on the list; they add up, also with unpaged and noMatch.
type nextList struct {
	consistent     bool // it must be consistent, also where the Config asks for less
	atLeast        bool // it must not be older than rv: a server was found that is behind
	whole          bool // it must not be in pages
	withoutInitial bool // it must be a LIST, also in mode WatchList
	rebase         bool // it is the truth, also where it is older than rv
	restored       bool // it is the truth because the server was restored from a backup
	insteadOfWatch bool // it stands in for a watch that keeps failing; rv may still be good
	noConsistent   bool // consistent lists keep failing: "not older than" is asked for

	page         string // the token of the page under way; "" on the first
	pageRV       string // the list's resourceVersion
	replacing    bool   // between replace and its end
	brokenListRV string // the newest resourceVersion of the objects of a list that broke off
	listFloor    string // it must not be older: the server has told that it has this
	// The newest resourceVersion is asked for because the list must not be older.
	askingListFloor bool

	brokenLists  int // lists in a row that failed in the form they were asked for
	unmatched    int // lists that failed with "not older than" since the form was changed last
	inconsistent int // the same of consistent lists
	tooLarge     int // states, in a row, that were refused because the server is behind
}

// listHistory is what the lists before say of the next one.
type listHistory struct {
	askedConsistent bool  // the request under way, or the last one, is for a consistent one
	limit           int64 // of its pages
	unpaged         bool  // a next page did not come the last time: all in one answer is tried first
	rvAtEnd         bool  // lists tell their resourceVersion behind the items, or may do so
	// stoodIn says that a list has stood in for a watch, and no watch has brought something newer.
	stoodIn bool
	// The server refuses "not older than", or does not know it: a consistent list is asked for.
	noMatch bool
	// exactLists counts the lists in pages, since something newer came, that were of exactly the
	// store's version, or failed since that is too old.
	exactLists int
}

// stream is about the watch under way, or the last one. The request of the next one clears it.
type stream struct {
	open    bool // it was answered with 200
	brought bool // it brought an event or a bookmark
	moved   bool // it brought a newer resourceVersion
}

// pace is what sets the pace of requests. Counts are of failures in a row, and 0 or more. A newer
// resourceVersion clears all but forcedLists, shortWatches and stood.
type pace struct {
	// attempt counts failures of any kind. It ends with a watch that stood as well. cheapFailures
	// counts the first of these that cost the server little, see backoffAttempt.
	attempt       int
	cheapFailures int
	// forcedLists counts the lists that failing watches, or a server that was behind, made necessary.
	// It sets the pace of lists, see listBackoffAttempt. It ends with a watch that stood, see
	// forgiveLists.
	forcedLists  int
	shortWatches int // watches that brought something and ended within shortWatch
	standIns     int // lists that stood in for a watch. Ends with what a watch brings
	// stood is how long watches have stood, one after the other, that ended well. Ends with a failure
	// and with a list.
	stood time.Duration
	// missing counts the answers in a row that there is no such resource, where there was one a
	// moment ago, while they set no slower pace. It ends with a list. refused counts those of them to
	// a watch. It ends with a watch that stood, or brought something.
	missing int // <= maxMissing
	refused int // <= maxRefused
}

// inVain counts what was of no use since the state was newer last. A newer resourceVersion and a
// complete list clear it.
type inVain struct {
	failedAnswers     int // answers of any kind but 429 and 504 ResourceVersionTooLarge
	unansweredWatches int // watches that got no answer, or broke off and had brought nothing
	answeredProbes    int // answers to a probe meanwhile
	failures          int // of any kind, but for 429 and requests that got no answer
	unansweredLists   int
	// empty is how long watches have stood that brought nothing, see emptyFor.
	empty time.Duration
	// unheard is how long watches in a row before this one have stood that brought nothing, about
	// since a probe was answered last that did not find something newer. What a watch brings ends it,
	// and a watch that proves, see there.
	unheard time.Duration
	// newer says that a probe has found something newer within unheard.
	newer bool
	// silence is how long watches in a row have stood that brought nothing while no probe was
	// answered. What a watch brings ends it, and an answered probe.
	silence time.Duration
}

// checking makes step check its result. Tests set it.
var checking = checks.Invariants

// check returns an error that names the rules of state that are broken, or nil.
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
	reqReaches         // the newest resourceVersion, if the server has reached rv
	reqWatch           // changes; initial events when state.initial
)

// inputType says what happened.
type inputType uint8

const (
	inNone     inputType = iota // nothing to tell
	inBegin                     // Run
	inWoke                      // a wait is over
	inVersion                   // major, minor
	inNewest                    // rv is the server's newest; "" when it does not say
	inOpened                    // answered with 200; rv of a LIST that tells it before its items
	inPage                      // a LIST's body ended well: rv, cont, damaged
	inEvents                    // events were put into the store: rv of the last; damaged
	inBookmark                  // rv; final when it ends the initial events
	inProbed                    // a silent watch was broken off: rv, the newest, or err, retryAfter
	inOutdated                  // another reflector found that the server went back: spread
	inEnded                     // a WATCH's body ended well
	inFailed                    // the request, or the stream, failed: err, retryAfter
)

// input is one thing that happened. The driver closes the stream before inNewest, inPage, inProbed,
// inOutdated, inEnded and inFailed.
type input struct {
	typ          inputType
	major, minor int
	rv, cont     string
	final        bool
	damaged      int // objects that could not be read
	err          *Error
	answered     bool // what failed was answered with 200
	torn         bool // a WATCH's stream broke off within an event
	empty        bool // a LIST that was answered has no items
	retryAfter   time.Duration
	after        time.Duration // since the request under way was made, or the watch was answered
	jitter       float64       // random in [0, 1)
	spread       time.Duration // what a list that others make as well is put off by, at random

	// Of a list that ends here: the newest resourceVersion of its objects, and its size with all its
	// pages, in small objects.
	newestObjectRV string
	size           int64

	probe probeResult // of a watch that ended, or broke off
}

// newState returns the state before the first step. rv is what the writer is current to, or "".
func newState(cfg *Config, rv string) state {
	s := state{cfg: cfg, mode: cfg.Mode, rv: rv, synced: rv != ""}
	s.rvAtEnd = rv != ""
	return s
}

// tries returns how many tries have failed in a row.
func (s *state) tries() int { return s.attempt + s.missing }

// sentinel returns that of the error that stands, or nil.
func (s *state) sentinel() error {
	if s.err == nil {
		return nil
	}
	return s.err.Sentinel
}
