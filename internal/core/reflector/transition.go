package reflector

import "time"

// Transition is one step of a reflector: what happened, and the request, wait or phase that
// followed.
type Transition struct {
	At    time.Time
	After string // what happened, in a few words
	Err   error  // the error of that step, or nil
	Phase Phase  // the phase after the step
	// Reason says why a list follows. It is NoReason if the list is the first one, or if no list
	// follows.
	Reason Reason
	next   action // the request or wait that follows; nil if the open stream continues
}

// Next returns the request or the wait that follows, as text, or "" if the open stream continues.
func (t Transition) Next() string {
	if t.next == nil {
		return ""
	}
	return t.next.String()
}

// maxTransitions is the maximum number of stored transitions. They use about 4 KB.
const maxTransitions = 32

// transitionRing stores the last transitions of a reflector. The zero value is empty.
type transitionRing struct {
	ring  []Transition // grows to maxTransitions
	first int          // the index of the oldest transition if the ring is full; otherwise 0
}

func (l *transitionRing) add(t Transition) {
	if len(l.ring) < maxTransitions {
		l.ring = append(l.ring, t)
		return
	}
	l.ring[l.first] = t
	l.first = (l.first + 1) % maxTransitions
}

// copied returns a copy of the transitions, ordered by time.
func (l *transitionRing) copied() []Transition {
	all := make([]Transition, 0, len(l.ring))
	return append(append(all, l.ring[l.first:]...), l.ring[:l.first]...)
}

// newTransition returns the transition of one step, with the states before and after it. ok is
// false for steps that are too frequent to record: events, bookmarks, and pages after the first.
func newTransition(in input, before, after *state, ask action) (t Transition, ok bool) {
	if list, paged := ask.(openList); paged && list.page != "" && before.err == after.err {
		return t, false
	}
	if ask == nil && before.phase == after.phase && before.err == after.err {
		return t, false
	}
	t = Transition{At: time.Now(), After: in.what(), Phase: after.phase, Reason: after.reason, next: ask}
	switch {
	case in.err != nil:
		t.Err = in.err
	case after.err != nil && after.err != before.err:
		t.Err = after.err
	}
	return t, true
}

var inputNames = [...]string{
	inNone: "stopped", inBegin: "started", inWoke: "the wait is over", inVersion: "the server reported its version",
	inNewest: "the server reported its newest resourceVersion", inOpened: "answered", inPage: "the list ended", inEvents: "events came",
	inBookmark: "a bookmark came", inProbed: "the watch was silent", inOutdated: "another reflector found that the server went back",
	inEnded: "the server ended the watch", inFailed: "failed",
}

// what describes the input in a few words for Transition.After.
func (in input) what() string { return name(inputNames[:], int(in.typ)) }
