package informers

import "github.com/weirproject/weir/internal/core/wire"

// The kinds of changes that a stub can make to its pods.
const (
	// ChangeMix is a mix: of twenty changes, 14 change the status, 3 an annotation, 2 a label and 1
	// the spec.
	ChangeMix = "mix"
	// ChangeStatus makes a container ready or unready, and changes the conditions and times
	// accordingly.
	ChangeStatus     = "status"
	ChangeLabel      = "label"      // sets a new value of a label
	ChangeAnnotation = "annotation" // sets a new value of an annotation
	ChangeSpec       = "spec"       // sets a new image of a container
	ChangeVersion    = "version"    // changes only the resourceVersion
	// ChangeLifecycle replaces pods by rollouts: pods are created, scheduled, started, become ready,
	// and are deleted.
	ChangeLifecycle = "lifecycle"
)

// Changes returns the kinds of changes, the default first.
func Changes() []string {
	return []string{ChangeMix, ChangeStatus, ChangeLabel, ChangeAnnotation, ChangeSpec, ChangeVersion, ChangeLifecycle}
}

// state describes how a pod differs from its state when it was created.
type state struct {
	annotation   int64
	since        uint32 // when the status changed, in seconds after firstTime
	label, image uint16
	generation   uint16 // the number of pods that this pod has replaced one after the other
	phase        phase
}

// firstState returns the initial state of pod i.
func firstState(i int) state { return state{since: uint32(i)} }

// change applies event number k of the given kind of changes to a state.
func (s *state) change(kind string, k int64) {
	if kind == ChangeMix {
		kind = mixed(k)
	}
	switch kind {
	case ChangeStatus:
		if s.phase == ready {
			s.phase = unready
		} else {
			s.phase = ready
		}
		s.since += 1 + uint32(k%300)
	case ChangeLabel:
		s.label++
	case ChangeAnnotation:
		s.annotation = k + 1
	case ChangeSpec:
		s.image++
	}
}

// mixed returns the kind of change of event number k of a mix. The kinds of consecutive events are
// independent of each other, and so are the kinds of consecutive events of one pod.
func mixed(k int64) string {
	h := (uint64(k) + 1) * 0x9e3779b97f4a7c15
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	switch n := (h >> 32) % 20; {
	case n < 14:
		return ChangeStatus
	case n < 17:
		return ChangeAnnotation
	case n < 19:
		return ChangeLabel
	}
	return ChangeSpec
}

// history is the endless series of changes that one watch receives. It changes all pods in turn. It
// stores the state of each pod, so each watch has a separate history.
type history struct {
	*events
	next     int64 // the number of the next event
	rollouts int   // how many rollouts were written
	states   []state
}

// newHistory returns a history. from is the number of its first event.
func newHistory(e *events, from int64) *history {
	h := &history{events: e, next: from, states: make([]state, e.pods.n)}
	for i := range h.states {
		h.states[i] = firstState(i)
	}
	return h
}

// change adds the next event, which is a change of the given kind.
func (h *history) change(kind string) {
	k := h.next
	h.next++
	i := int(k * int64(h.pods.stride) % int64(h.pods.n))
	s := &h.states[i]
	s.change(kind, k)
	h.add(wire.Modified, i, h.version(), *s)
}

// version returns the resourceVersion of the last event.
func (h *history) version() int64 { return h.pods.version() + h.next }
