package weir

import (
	"time"

	"github.com/weirproject/weir/internal/core/reflector"
)

// Phase is what a reflector is doing.
type Phase uint8

const (
	// PhaseStarting is before Run. It is the zero value.
	PhaseStarting Phase = iota
	// PhaseAsking is a request for the server's version, or for its newest resourceVersion.
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

// Status is the state of one reflector of an informer: its phase, since when, and its last error.
// It is an immutable value.
type Status struct {
	Namespace string // of the reflector; "" is all namespaces
	Selector  string // "" is all objects

	Phase Phase
	Since time.Time // when Phase, or Err, started
	// Mode is the mode in use. It is ModeAuto until the reflector has chosen.
	Mode Mode
	// Synced reports that the informer has received one complete state of the server. It may become
	// true shortly after the informer's HasSynced, and after handlers have received that state.
	Synced bool
	// ResourceVersion is the version up to which the reflector is current.
	ResourceVersion string
	// LastContact is when the reflector last received something from the server: an event, a bookmark,
	// a part of a list, or an answer to a probe for its newest resourceVersion. While Phase is
	// PhaseWatching and Err is nil, the informer has the changes that the server made before
	// LastContact, except those still in transit. It is zero until then.
	LastContact time.Time
	// CurrentAsOf is when the server last confirmed that the informer's state is its own: by an event,
	// a bookmark of a newer version, a complete consistent list, or an answer to a probe that had
	// nothing newer. The informer has the changes that the server made before CurrentAsOf, except
	// those still in transit, in any Phase and with any Err. If a watch receives no such bookmarks,
	// only changes advance it. It is zero until then.
	CurrentAsOf time.Time
	// Err is the error that keeps the reflector from being current, or nil. It is SkippedErr if there
	// is no other.
	Err error
	// LastErr is the last Err that was not nil. LastErrAt is its time.
	LastErr   error
	LastErrAt time.Time
	// Attempts is the number of consecutive failures.
	Attempts int
	// NextRetry is when PhaseWaiting ends.
	NextRetry time.Time
	// Queued reports that the reflector waits for its turn to list, see ListWatch.MaxLists.
	Queued bool
	// Relists counts how often the reflector fetched the whole state again after the first time.
	Relists int
	// Listed is how many objects the current or last list has received.
	Listed int64
	// Remaining is how many objects will follow this page according to the server; -1 if it does not
	// say.
	Remaining int64
	// Skipped is how many objects could not be read since the last list started. The informer lacks
	// them or stores an older version. SkippedErr is the first of their errors; it wraps ErrMalformed.
	Skipped    int
	SkippedErr error
	// OutOfShard is how many objects and events of other shards the reflector received since the last
	// list started.
	OutOfShard int64
}

// String returns the status on one line.
func (s Status) String() string {
	return reflector.Status{
		Phase: reflector.Phase(s.Phase), Mode: reflector.Mode(s.Mode), ResourceVersion: s.ResourceVersion,
		Queued: s.Queued, Listed: s.Listed, Relists: s.Relists, Unwanted: s.OutOfShard, Skipped: s.Skipped, SkippedErr: s.SkippedErr,
		Err: s.Err, Attempts: s.Attempts,
	}.String()
}

func statusOf(s reflector.Status) Status {
	return Status{
		Namespace: s.Namespace, Selector: s.Selector,
		Phase: Phase(s.Phase), Since: s.Since, Mode: Mode(s.Mode), Synced: s.Synced, ResourceVersion: s.ResourceVersion, LastContact: s.Heard, CurrentAsOf: s.CurrentAt,
		Err: s.Err, LastErr: s.LastErr, LastErrAt: s.LastErrAt, Attempts: s.Attempts, NextRetry: s.NextRetry,
		Queued: s.Queued, Relists: s.Relists, Listed: s.Listed, Remaining: s.Remaining, Skipped: s.Skipped, SkippedErr: s.SkippedErr, OutOfShard: s.Unwanted,
	}
}

// Status returns the state of each of the informer's reflectors: one for each pair of a namespace
// and a selector.
func (i *informer[T]) Status() []Status {
	all := i.engine.Statuses()
	states := make([]Status, len(all))
	for n, s := range all {
		states[n] = statusOf(s)
	}
	return states
}
