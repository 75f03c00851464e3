package reflector

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirproject/weir/internal/core/wire"
)

// Phase says what a reflector does at the moment.
type Phase uint8

const (
	// Starting is the phase before the first step of Run. It is the zero value.
	Starting Phase = iota
	// Asking is the phase of a request for the server's version, or for its newest resourceVersion.
	Asking
	// Listing is the phase of a LIST with its pages, or of the initial events of a WATCH.
	Listing
	// Watching is the phase of a WATCH, from the request on.
	Watching
	// Waiting is the phase of a wait, which ends at Status.NextRetry.
	Waiting
	// Stopped is the phase after Run.
	Stopped
)

var phaseNames = [...]string{
	Starting: "starting", Asking: "asking", Listing: "listing", Watching: "watching", Waiting: "waiting", Stopped: "stopped",
}

func (p Phase) String() string { return name(phaseNames[:], int(p)) }

// Status says what a reflector does, and whether its store is current. It is a copy that does not
// change.
type Status struct {
	Name string // Config.Name

	// Resource, Namespace and Selector say what the reflector lists and watches. An engine sets them
	// for its reflectors.
	Resource  string // such as pods; "" if unknown
	Namespace string // "" means all namespaces
	Selector  string // "" means all objects
	// ScopeUnknown is true if Namespace and Selector are unknown, because the source does not report
	// them.
	ScopeUnknown bool

	Phase Phase
	Since time.Time // when Phase or Err last changed
	// Mode is the mode in use. In mode Auto, it is Auto until the server's version is known.
	Mode Mode
	// Synced is true when the store has received one complete state of the server.
	Synced bool
	// ResourceVersion is the version that the sink is current to, or "" before the first list.
	ResourceVersion string
	// Heard is when the reflector last received something from the server: an event, a bookmark, a
	// part of a list, or a response to a probe. Zero means never.
	Heard time.Time
	// CurrentAt is the latest time for which the store is known to be current: the store contains all
	// changes that the server made before CurrentAt, except changes in transit. An event or a bookmark
	// of a newer version advances CurrentAt, and so does a probe that finds nothing newer. A
	// consistent list advances it to the time of the list's request. Zero means never.
	CurrentAt time.Time
	// ItemType is the apiVersion and kind of the objects. It is empty until the server has stated
	// them. A list without objects may not state them.
	ItemType wire.TypeMeta
	// Err is the *Error that says why the reflector is not current, or nil. If there is no other
	// problem than objects that could not be read, Err is SkippedErr.
	Err error
	// LastErr is the last Err that was not nil and not SkippedErr. LastErrAt is when it occurred.
	LastErr   error
	LastErrAt time.Time
	// Attempts is the number of tries in a row that have failed.
	Attempts int
	// NextRetry is when the phase Waiting ends. It is zero in other phases.
	NextRetry time.Time
	// Queued is true while the list waits until lists of other reflectors have ended; see
	// Config.MaxLists.
	Queued bool
	// Relists is the number of complete states that the reflector received after its first one.
	Relists int
	// RelistsInParts is the number of relists with more changes than the store can stage, so that
	// readers saw parts of them. It also counts relists that broke off after that. An engine sets it.
	RelistsInParts int
	// Listed is the number of objects that the current list, or the last one, has received.
	Listed int64
	// Remaining is the number of objects on further pages, as the server reports it. It is -1 if the
	// server does not report it.
	Remaining int64
	// Skipped is the number of objects that could not be read since the last list started. The store
	// does not contain them, or contains older versions. SkippedErr is the first of their errors;
	// errors.Is finds ErrMalformed in it.
	Skipped    int
	SkippedErr error
	// Unwanted counts the objects and events that Config.Keep did not want. Each list starts the count
	// again.
	Unwanted int64

	failure error // why the reflector is not current, except for objects that could not be read
}

// judge sets Err to failure, or to SkippedErr if there is no failure.
func (s *Status) judge() {
	if s.Err = s.failure; s.Err == nil && s.Skipped > 0 {
		s.Err = s.SkippedErr
	}
}

// String returns the status on one line.
func (s Status) String() string {
	var b strings.Builder
	if s.Name != "" {
		fmt.Fprintf(&b, "%s: ", s.Name)
	}
	fmt.Fprintf(&b, "%s (%s)", s.Phase, s.Mode)
	if s.ResourceVersion != "" {
		fmt.Fprintf(&b, " at %s", s.ResourceVersion)
	}
	switch {
	case s.Queued:
		b.WriteString(", waits for its turn")
	case s.Phase == Listing && s.Listed > 0:
		fmt.Fprintf(&b, ", %d listed", s.Listed)
	}
	if s.Relists > 0 {
		fmt.Fprintf(&b, ", %s", counted(s.Relists, "relist"))
	}
	if s.RelistsInParts > 0 {
		fmt.Fprintf(&b, ", %d in parts", s.RelistsInParts)
	}
	if s.Unwanted > 0 {
		fmt.Fprintf(&b, ", %d unwanted", s.Unwanted)
	}
	if s.Skipped > 0 {
		fmt.Fprintf(&b, ", %d skipped (%v)", s.Skipped, s.SkippedErr)
	}
	if s.Err != nil && s.Err != s.SkippedErr {
		fmt.Fprintf(&b, ", failed %s: %v", counted(s.Attempts, "time"), s.Err)
	}
	return b.String()
}

// counted returns a number with a noun in the right form, as in 1 time or 2 times.
func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}
