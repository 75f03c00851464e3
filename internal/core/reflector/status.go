package reflector

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirproject/weir/internal/core/wire"
)

// Phase says what a reflector is doing.
type Phase uint8

const (
	// Starting lasts until Run is called. It is the zero value.
	Starting Phase = iota
	// Asking lasts while the reflector asks the server for its version, or for its newest
	// resourceVersion.
	Asking
	// Listing lasts during a LIST, its pages, or the initial events of a WATCH.
	Listing
	// Watching lasts during a WATCH, from the request on.
	Watching
	// Waiting lasts until Status.NextRetry.
	Waiting
	// Stopped starts when Run ends.
	Stopped
)

var phaseNames = [...]string{
	Starting: "starting", Asking: "asking", Listing: "listing", Watching: "watching", Waiting: "waiting", Stopped: "stopped",
}

func (p Phase) String() string { return name(phaseNames[:], int(p)) }

// Status says what a reflector is doing, and whether it is current. It is a value that never
// changes.
type Status struct {
	Name string // Config.Name

	// What the reflector lists and watches. An engine sets these fields for its reflectors.
	Resource  string // such as pods; "": unknown
	Namespace string // "": all
	Selector  string // "": everything
	// ScopeUnknown says that the source does not report Namespace and Selector, so they are
	// unknown.
	ScopeUnknown bool

	Phase Phase
	Since time.Time // when Phase or Err last changed
	// Mode is the mode in use. It is Auto until one is chosen.
	Mode Mode
	// Synced reports whether the store has contained one complete state of the server.
	Synced bool
	// ResourceVersion is the version that the sink is current to, or "" before the first list.
	ResourceVersion string
	// Heard is when the reflector last received something from the server: an event, a bookmark, a
	// part of a list, or an answer to a probe. Zero: never.
	Heard time.Time
	// CurrentAt is when the store was last shown to have the server's state. An event or a bookmark
	// of a newer version shows that, and so does a probe that found nothing newer. A complete list
	// that had to be consistent shows it for the time of its request. The store contains all
	// changes that the server made before CurrentAt, except those still in transit. Zero: never.
	// Where a watch receives no such bookmarks, only changes advance CurrentAt.
	CurrentAt time.Time
	// ItemType is the apiVersion and kind of the objects. It is empty until the server has stated
	// them: a list without objects may not.
	ItemType wire.TypeMeta
	// Err is the *Error that says why the reflector is not current, or nil. If the only problem is
	// objects that cannot be read, it is SkippedErr.
	Err error
	// LastErr is the last Err of a request that was not nil. LastErrAt is when it occurred.
	LastErr   error
	LastErrAt time.Time
	// Attempts counts the tries that have failed in a row.
	Attempts int
	// NextRetry is when Waiting ends. It is zero in other phases.
	NextRetry time.Time
	// Queued says that the list waits for lists of other reflectors, see Config.MaxLists.
	Queued bool
	// Relists counts the complete states after the first one.
	Relists int
	// Listed counts the objects of the list under way, or of the last one.
	Listed int64
	// Remaining is how many objects the server says will come after this page. It is -1 when the
	// server does not say.
	Remaining int64
	// Skipped counts the objects that could not be read since the last list started. The store does
	// not contain them, or contains older versions. SkippedErr is the first of their errors;
	// errors.Is finds ErrMalformed in it.
	Skipped    int
	SkippedErr error
	// Unwanted counts the objects and events that Config.Keep did not want since the last list
	// started.
	Unwanted int64

	failure error // why the reflector is not current, apart from objects that cannot be read
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

// counted returns a number with a word, as in 1 time, 2 times.
func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}
