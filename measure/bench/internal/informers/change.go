package informers

import "github.com/weirproject/weir/internal/core/wire"

// The kinds of changes that a stub can make to its pods.
const (
	// ChangeMix: of twenty changes 14 are of the status, 3 of an annotation, 2 of a label and 1 of the
	// spec.
	ChangeMix = "mix"
	// ChangeStatus: a container becomes ready, or is no longer ready. Its conditions and times follow.
	ChangeStatus     = "status"
	ChangeLabel      = "label"      // a label has a new value
	ChangeAnnotation = "annotation" // an annotation has a new value
	ChangeSpec       = "spec"       // a container has a new image
	ChangeVersion    = "version"    // nothing but the resourceVersion
	// ChangeLifecycle: rollouts replace pods, which are created, scheduled, started, ready and
	// deleted.
	ChangeLifecycle = "lifecycle"
)

// Changes returns the kinds of changes, the usual one first.
func Changes() []string {
	return []string{ChangeMix, ChangeStatus, ChangeLabel, ChangeAnnotation, ChangeSpec, ChangeVersion, ChangeLifecycle}
}

// state is what has changed in a pod since it was created.
type state struct {
	annotation   int64
	since        uint32 // when the status changed, in seconds after firstTime
	label, image uint16
	generation   uint16 // how many pods this one has replaced, one after another
	phase        phase
}

// firstState returns the state of pod i before anything has changed.
func firstState(i int) state { return state{since: uint32(i)} }

// change changes a state as event number k of a kind does.
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

// mixed returns what event number k of a mix changes. Near numbers are independent of each other,
// and so are numbers that are a round of all pods apart.
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

// history is the endless series of changes that one watch receives. It changes all pods again and
// again. It has the state of each pod and belongs to that watch.
type history struct {
	*events
	next     int64 // the number of the next event
	rollouts int   // that were written
	states   []state
}

// newHistory returns a history that starts with event number from.
func newHistory(e *events, from int64) *history {
	h := &history{events: e, next: from, states: make([]state, e.pods.n)}
	for i := range h.states {
		h.states[i] = firstState(i)
	}
	return h
}

// change adds the next event, a change of a kind.
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
