package weir

import (
	"time"

	"github.com/weirproject/weir/internal/engine"
	"github.com/weirproject/weir/internal/reflector"
)

// Phase is what a reflector is doing.
type Phase uint8

const (
	// PhaseStarting is before Run. It is the zero value.
	PhaseStarting Phase = iota
	// PhaseAsking is the request for the server's version, or for its newest resourceVersion.
	PhaseAsking
	// PhaseListing is a LIST, its pages, or the initial events of a WATCH.
	PhaseListing
	// PhaseWatching is a WATCH, from the request on.
	PhaseWatching
	// PhaseWaiting is the time until Status.NextRetry.
	PhaseWaiting
	// PhaseStopped is after Run.
	PhaseStopped
)

// String returns the phase's name in lower case, such as "watching".
func (p Phase) String() string { return reflector.Phase(p).String() }

// Status is the state of one reflector of an informer: what it is doing, since when, and what went
// wrong last. It is a value: nothing in it changes.
type Status struct {
	Namespace string // what the reflector lists and watches; "" is all namespaces
	Selector  string // "" is all objects

	Phase Phase
	Since time.Time // when Phase, or Err, began
	// Mode is the one in use; ModeAuto until it is chosen.
	Mode Mode
	// Synced reports that one state of the server is complete in the informer. It may become so some
	// moments after the informer's HasSynced, and after handlers have seen that state.
	Synced bool
	// ResourceVersion is the version up to which the reflector is current.
	ResourceVersion string
	// Heard is when the server was heard from last: by an event, a bookmark, a part of a list, or an
	// answer to the question for its newest resourceVersion. While Phase is PhaseWatching and Err is
	// nil, changes that the server made before Heard are held, unless they are still on their way.
	// Zero: never.
	Heard time.Time
	// CurrentAt is when what is held was last shown to be the server's state: by an event, a bookmark
	// of a newer version, a complete list that had to be consistent, or an answer to that question
	// that was nothing newer. Changes that the server made before CurrentAt are held, unless they are
	// still on their way, whatever Phase and Err are. Where a watch brings no such bookmarks it goes
	// on with changes alone. Zero: never.
	CurrentAt time.Time
	// Err is what keeps the reflector from being current, nil when nothing does. It is SkippedErr
	// if there is nothing worse.
	Err error
	// LastErr is the last Err that was not nil, and LastErrAt when it came.
	LastErr   error
	LastErrAt time.Time
	// Attempts is how many tries have failed in a row.
	Attempts int
	// NextRetry is when PhaseWaiting ends.
	NextRetry time.Time
	// Queued says that the reflector waits for its turn to list, see ListWatch.MaxLists.
	Queued bool
	// Relists is how many times the state was got again after the first.
	Relists int
	// Listed is how many objects the list under way, or the last one, has brought.
	Listed int64
	// Remaining is how many objects the server says are to come after this page; -1 when it does
	// not say.
	Remaining int64
	// Skipped is how many objects could not be read since the last list began. They are missing, or
	// held in an older version. SkippedErr is the first of their errors; it wraps ErrMalformed.
	Skipped    int
	SkippedErr error
	// Unwanted is how many objects and events of other shards came since the last list began.
	Unwanted int64
}

// String returns the status on one line.
func (s Status) String() string {
	return reflector.Status{
		Phase: reflector.Phase(s.Phase), Mode: reflector.Mode(s.Mode), ResourceVersion: s.ResourceVersion,
		Queued: s.Queued, Listed: s.Listed, Relists: s.Relists, Unwanted: s.Unwanted, Skipped: s.Skipped, SkippedErr: s.SkippedErr,
		Err: s.Err, Attempts: s.Attempts,
	}.String()
}

func statusOf(s engine.Status) Status {
	return Status{
		Namespace: s.Namespace, Selector: s.Selector,
		Phase: Phase(s.Phase), Since: s.Since, Mode: Mode(s.Mode), Synced: s.Synced, ResourceVersion: s.ResourceVersion, Heard: s.Heard, CurrentAt: s.CurrentAt,
		Err: s.Err, LastErr: s.LastErr, LastErrAt: s.LastErrAt, Attempts: s.Attempts, NextRetry: s.NextRetry,
		Queued: s.Queued, Relists: s.Relists, Listed: s.Listed, Remaining: s.Remaining, Skipped: s.Skipped, SkippedErr: s.SkippedErr, Unwanted: s.Unwanted,
	}
}

// Status returns the state of each of the informer's reflectors: one for each pair of a namespace
// and a selector.
func (i *Informer[T]) Status() []Status {
	all := i.engine.Statuses()
	states := make([]Status, len(all))
	for n, s := range all {
		states[n] = statusOf(s)
	}
	return states
}
