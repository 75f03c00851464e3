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
	// Starting lasts until Run begins. It is the zero value.
	Starting Phase = iota
	// Asking lasts while the server is asked for its version, or for its newest resourceVersion.
	Asking
	// Listing lasts during a LIST, its pages, or the initial events of a WATCH.
	Listing
	// Watching lasts during a WATCH, from the request on.
	Watching
	// Waiting lasts until Status.NextRetry.
	Waiting
	// Stopped begins when Run ends.
	Stopped
)

var phaseNames = [...]string{
	Starting: "starting", Asking: "asking", Listing: "listing", Watching: "watching", Waiting: "waiting", Stopped: "stopped",
}

func (p Phase) String() string { return name(phaseNames[:], int(p)) }

// Status says what a reflector is doing, and how well. It is a value: nothing in it changes.
type Status struct {
	Name string // Config.Name

	// What the reflector lists and watches. An engine sets it for its reflectors.
	Resource  string // such as pods; "": not known
	Namespace string // "": all
	Selector  string // "": everything
	// ScopeUnknown says that Namespace and Selector are not known: the source does not know them.
	ScopeUnknown bool

	Phase Phase
	Since time.Time // when Phase, or Err, began
	// Mode is the mode in use. It is Auto until one is chosen.
	Mode Mode
	// Synced reports whether the store holds one complete state of the server.
	Synced bool
	// ResourceVersion is what the writer is current to, or "" before the first list.
	ResourceVersion string
	// Heard is when the server was heard from last: by an event, a bookmark, a part of a list, or an
	// answer to a probe. Zero: never.
	Heard time.Time
	// CurrentAt is when the store was last shown to have the server's state: by an event or a
	// bookmark of a newer version, by a complete list that had to be consistent, at the time of its
	// request, or by a probe that found nothing newer. Changes that the server made before CurrentAt
	// are held, unless they are still on their way. Zero: never. It goes on only with changes where a
	// watch brings no such bookmarks.
	CurrentAt time.Time
	// ItemType is the apiVersion and kind of the objects. It is empty until they are known: a list
	// without objects may not tell.
	ItemType wire.TypeMeta
	// Err is the *Error that stops the reflector from being current, or nil. If only objects that
	// cannot be read do, it is SkippedErr.
	Err error
	// LastErr is the last Err of a request that was not nil. LastErrAt is when it came.
	LastErr   error
	LastErrAt time.Time
	// Attempts counts the tries that have failed in a row.
	Attempts int
	// NextRetry is when Waiting ends. It is zero in other phases.
	NextRetry time.Time
	// Queued says that the list waits for those of other reflectors, see Config.MaxLists.
	Queued bool
	// Relists counts the complete states after the first.
	Relists int
	// Listed counts the objects of the list under way, or of the last one.
	Listed int64
	// Remaining is how many objects the server says will come after this page. It is -1 when the
	// server does not say.
	Remaining int64
	// Skipped counts the objects that could not be read since the last list began. The store misses
	// them, or has an older version. SkippedErr is the first of their errors; errors.Is finds
	// ErrMalformed in it.
	Skipped    int
	SkippedErr error
	// Unwanted counts the objects and events since the last list began that Config.Keep does not
	// want.
	Unwanted int64

	failure error // what stops us from being current but for objects that cannot be read
}

// judge sets Err from failure and SkippedErr.
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
