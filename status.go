package weir

import (
	"time"

	"github.com/weirproject/weir/internal/core/reflector"
)

// Phase is what a reflector is doing.
type Phase uint8

const (
	// PhaseStarting lasts until Run starts. It is the zero value.
	PhaseStarting Phase = iota
	// PhaseAsking lasts while the reflector requests the server's version, or the server's newest
	// resourceVersion.
	PhaseAsking
	// PhaseListing lasts during a LIST with all its pages, or during the initial events of a WATCH.
	PhaseListing
	// PhaseWatching lasts during a WATCH, starting with its request.
	PhaseWatching
	// PhaseWaiting lasts until Status.NextRetry.
	PhaseWaiting
	// PhaseStopped starts when Run ends.
	PhaseStopped
)

// String returns the phase's name in lower case, such as "watching".
func (p Phase) String() string { return reflector.Phase(p).String() }

// Status is the state of one reflector of an informer. It is a value and does not change.
type Status struct {
	Namespace string // the reflector's namespace; "" means all
	Selector  string // the reflector's selector; "" means all objects

	Phase Phase
	Since time.Time // when Phase or Err last changed
	// Mode is the mode in use. It is ModeAuto until the reflector has chosen a mode.
	Mode Mode
	// Synced reports whether the reflector has received one complete state of the objects that it
	// lists. Synced may become true shortly after the informer's HasSynced, and after handlers have
	// received that state.
	Synced bool
	// ResourceVersion is the version up to which the reflector has received everything.
	ResourceVersion string
	// LastContact is when the reflector last received something from the server: an event, a bookmark,
	// a part of a list, or an answer to a probe for its newest resourceVersion. While Phase is
	// PhaseWatching and Err is nil, the informer has all changes that the server made before
	// LastContact, except those still in transit. The zero time means never.
	LastContact time.Time
	// CurrentAsOf is when the server last confirmed that the informer's state equals the server's: by
	// an event, a bookmark with a newer version, a complete consistent list, or an answer to a probe
	// without a newer version. The informer has all changes that the server made before CurrentAsOf,
	// except those still in transit. This holds in any Phase and with any Err. If all bookmarks of a
	// watch have the same version, only events advance CurrentAsOf. The zero time means never.
	CurrentAsOf time.Time
	// Err is the reason why the informer may lack recent changes, or nil. It is SkippedErr if objects
	// were skipped and there is no other error.
	Err error
	// LastErr is the last failed request's error, and LastErrAt is the time of the failure. A later
	// success does not reset them.
	LastErr   error
	LastErrAt time.Time
	// Attempts is the number of consecutive failures.
	Attempts int
	// NextRetry is when PhaseWaiting ends.
	NextRetry time.Time
	// Queued reports whether the reflector waits for its turn to list, see ListWatch.MaxLists.
	Queued bool
	// Relists counts the complete states that the reflector received after the first one.
	Relists int
	// RelistsInParts counts the relists whose changes exceeded Options.LogBytes: readers saw parts of
	// the new state before all of it. It includes relists that broke off after that.
	RelistsInParts int
	// Listed is the number of objects received so far in the current list. Between lists it is the
	// number of objects received in the last list.
	Listed int64
	// Remaining is the number of objects on the pages after the current page, according to the server.
	// It is -1 if the server does not report this number.
	Remaining int64
	// Skipped is the number of objects that the informer could not read since the last list started.
	// The informer lacks them or stores an older version. SkippedErr is the error of the first of
	// them; it wraps ErrMalformed.
	Skipped    int
	SkippedErr error
	// OutOfShard is the number of objects and events of other shards that the reflector received since
	// the last list started.
	OutOfShard int64
}

// String returns the status on one line.
func (s Status) String() string {
	return reflector.Status{
		Phase: reflector.Phase(s.Phase), Mode: reflector.Mode(s.Mode), ResourceVersion: s.ResourceVersion,
		Queued: s.Queued, Listed: s.Listed, Relists: s.Relists, RelistsInParts: s.RelistsInParts, Unwanted: s.OutOfShard, Skipped: s.Skipped, SkippedErr: s.SkippedErr,
		Err: s.Err, Attempts: s.Attempts,
	}.String()
}

func statusOf(s reflector.Status) Status {
	return Status{
		Namespace: s.Namespace, Selector: s.Selector,
		Phase: Phase(s.Phase), Since: s.Since, Mode: Mode(s.Mode), Synced: s.Synced, ResourceVersion: s.ResourceVersion, LastContact: s.Heard, CurrentAsOf: s.CurrentAt,
		Err: s.Err, LastErr: s.LastErr, LastErrAt: s.LastErrAt, Attempts: s.Attempts, NextRetry: s.NextRetry,
		Queued: s.Queued, Relists: s.Relists, RelistsInParts: s.RelistsInParts, Listed: s.Listed, Remaining: s.Remaining, Skipped: s.Skipped, SkippedErr: s.SkippedErr, OutOfShard: s.Unwanted,
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
