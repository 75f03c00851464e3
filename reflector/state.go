package reflector

import (
	"time"
)

// state is all that step knows. It is a value; cfg points to what never changes.
type state struct {
	cfg *Config

	phase   Phase
	request request // what is under way, or, while waiting, what comes next
	mode    Mode    // Auto until the server's version is known

	rv      string // the store is current to here; "" before the first list
	synced  bool
	relists int

	// About the list under way, or the next one.
	consistent bool   // it must be consistent, whatever the Config says
	asked      bool   // the request under way is consistent
	whole      bool   // it must not be in pages
	plain      bool   // it must be a LIST, also in mode WatchList
	rebase     bool   // it is the truth, also if it is older than rv
	torn       int    // lists without a limit that broke off in a row
	limit      int64  // of its pages
	page       string // the token of the page under way; "" on the first
	pageRV     string // the list's resourceVersion
	replacing  bool   // between replace and its end
	initial    bool   // a watch, in its initial events

	saw     bool // the watch under way brought an event or a bookmark
	attempt int  // failures in a row
	trouble int  // of these, watches that failed or ended at once; a list in between does not make up for them
	empty   int  // of these, watches that ended at once
	err     *Error
}

// request is what a reflector can ask of the server.
type request uint8

const (
	reqNone    request = iota
	reqVersion         // the server's version
	reqList            // the first page, or the next
	reqNewest          // the newest resourceVersion: has the server gone back?
	reqWatch           // changes; initial events when state.initial
)

// inputKind says what happened.
type inputKind uint8

const (
	inNone     inputKind = iota // nothing to tell
	inBegin                     // Run
	inWoke                      // a wait is over
	inVersion                   // major, minor
	inOpened                    // a LIST or WATCH is answered with 200; a LIST's rv, if it stands before the items
	inPage                      // a LIST's body ended well: rv, cont
	inEvents                    // events were put into the store: rv of the last, "" in initial events
	inBookmark                  // rv; final when it ends the initial events
	inEnded                     // a WATCH's body ended well
	inFailed                    // the request, or the stream, failed: err, retryAfter
)

// input is one thing that happened. Streams are closed before inPage, inEnded and inFailed.
type input struct {
	kind         inputKind
	major, minor int
	rv, cont     string
	final        bool
	err          *Error
	retryAfter   time.Duration
	after        time.Duration // since the request under way was made
	luck         float64       // random in [0, 1)
}

func newState(cfg *Config, rv string) state {
	return state{cfg: cfg, mode: cfg.Mode, rv: rv, synced: rv != ""}
}

// kind is the sentinel of the error that stands, or nil.
func (s *state) kind() error {
	if s.err == nil {
		return nil
	}
	return s.err.Kind
}
