package reflector

import (
	"fmt"
	"strings"
	"time"
)

// Phase is what a reflector is doing.
type Phase uint8

const (
	// Starting is before Run. It is the zero value.
	Starting Phase = iota
	// Asking is the request for the server's version, or for its newest resourceVersion.
	Asking
	// Listing is a LIST, its pages, or the initial events of a WATCH.
	Listing
	// Watching is a WATCH, from the request on.
	Watching
	// Waiting is for Status.NextRetry.
	Waiting
	// Stopped is after Run.
	Stopped
)

var phaseNames = [...]string{
	Starting: "starting", Asking: "asking", Listing: "listing", Watching: "watching", Waiting: "waiting", Stopped: "stopped",
}

func (p Phase) String() string { return name(phaseNames[:], int(p)) }

// Status is what a reflector is doing and how well. It is a value: nothing in it changes.
type Status struct {
	Name  string
	Phase Phase
	Since time.Time // when Phase, or Err, began
	// Mode is the one in use; Auto until it is chosen.
	Mode Mode
	// Synced says that one state of the server is complete in the store.
	Synced bool
	// ResourceVersion is where the writer is current to.
	ResourceVersion string
	// Heard is when the server was heard last: by an event, a bookmark, a list, or an answer to the
	// question for its newest resourceVersion. Zero: never. What is held is at least as new as the
	// server was then, but for what is on its way.
	Heard time.Time
	// Err is what stops the reflector from being current; nil when nothing does. It is an *Error.
	// Objects that cannot be read count: then it is SkippedErr, if there is nothing worse.
	Err error
	// LastErr is the last Err that was not nil, and LastErrAt when it came.
	LastErr   error
	LastErrAt time.Time
	// Attempts is how many tries have failed in a row.
	Attempts int
	// NextRetry is when Waiting ends.
	NextRetry time.Time
	// Relists is how many times the state was got again after the first.
	Relists int
	// Listed is how many objects the list under way, or the last one, has brought.
	Listed int64
	// Remaining is how many objects the server says are to come after this page; -1 when it does
	// not say.
	Remaining int64
	// Skipped is how many objects could not be read since the last list began. They are missing
	// from the store, or there in an older version. SkippedErr is the first of their errors;
	// errors.Is finds ErrMalformed.
	Skipped    int
	SkippedErr error
	// Unwanted is how many objects and events came, since the last list began, that Config.Keep
	// does not want.
	Unwanted int64

	failure error // what stops us from being current but for objects that cannot be read
}

// judge makes Err of what is known.
func (s *Status) judge() {
	if s.Err = s.failure; s.Err == nil && s.Skipped > 0 {
		s.Err = s.SkippedErr
	}
}

// String is the status on one line.
func (s Status) String() string {
	var b strings.Builder
	if s.Name != "" {
		fmt.Fprintf(&b, "%s: ", s.Name)
	}
	fmt.Fprintf(&b, "%s (%s)", s.Phase, s.Mode)
	if s.ResourceVersion != "" {
		fmt.Fprintf(&b, " at %s", s.ResourceVersion)
	}
	if s.Phase == Listing && s.Listed > 0 {
		fmt.Fprintf(&b, ", %d listed", s.Listed)
	}
	if s.Relists > 0 {
		fmt.Fprintf(&b, ", %d relists", s.Relists)
	}
	if s.Unwanted > 0 {
		fmt.Fprintf(&b, ", %d unwanted", s.Unwanted)
	}
	if s.Skipped > 0 {
		fmt.Fprintf(&b, ", %d skipped (%v)", s.Skipped, s.SkippedErr)
	}
	if s.Err != nil && s.Err != s.SkippedErr {
		fmt.Fprintf(&b, ", failed %d times: %v", s.Attempts, s.Err)
	}
	return b.String()
}
