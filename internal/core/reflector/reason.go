package reflector

import "iter"

// Reason says why the whole state of the server was got again.
type Reason uint8

const (
	// NoReason is the reason of the first state, and of all that is no list. It is the zero value.
	NoReason Reason = iota
	// Expired: the server no longer had the changes (ErrExpired).
	Expired
	// Unreachable: watches got no answer, or broke off (ErrUnreachable).
	Unreachable
	// Silent: a watch brought nothing for too long, or ended at once (ErrSilent, ErrEnded).
	Silent
	// Failed: the server failed, or asked to try later (ErrServer, ErrTooManyRequests).
	Failed
	// Refused: the request was refused (ErrUnauthorized, ErrForbidden, ErrMethodNotAllowed,
	// ErrRejected).
	Refused
	// Missing: the resource was not served for a while (ErrUnknownResource).
	Missing
	// Behind: the server had not reached the store's version, and then had (ErrServerBehind).
	Behind
	// WentBack: the server was restored from a backup, or is another one (ErrWentBack).
	WentBack
	// Unreadable: an object, or the whole answer, could not be read (ErrMalformed, ErrEncoding).
	Unreadable
	// Unversioned: the server has no resourceVersions, so no watch can go on where another ended.
	Unversioned

	reasons // how many there are
)

var reasonNames = [...]string{
	NoReason: "", Expired: "expired", Unreachable: "unreachable", Silent: "silent", Failed: "failed", Refused: "refused",
	Missing: "missing", Behind: "behind", WentBack: "went_back", Unreadable: "unreadable", Unversioned: "unversioned",
}

// String returns the reason in lower case, such as "went_back", and "" for NoReason.
func (r Reason) String() string { return name(reasonNames[:], int(r)) }

// Relists counts the complete states after the first, by Reason.
type Relists [reasons]int

// All yields every reason with its count, in a fixed order. NoReason is not among them.
func (n Relists) All() iter.Seq2[Reason, int] {
	return func(yield func(Reason, int) bool) {
		for r := NoReason + 1; r < reasons; r++ {
			if !yield(r, n[r]) {
				return
			}
		}
	}
}

// lists reports whether the whole state is being got, or comes next.
func (s *state) lists() bool {
	return s.request == reqList || s.request == reqVersion || s.askingListFloor || s.initial
}

// noteReason notes the reason when a step has made a list necessary, and forgets it when there is
// none any more. What fails on the way to the list does not change it.
func (m *machine) noteReason(before *state) {
	switch {
	case !m.lists():
		m.reason = NoReason
	case !before.lists():
		m.reason = m.why()
	}
}

// why returns the reason for a list that the step at hand has made necessary.
func (m *machine) why() Reason {
	switch {
	case !m.synced:
		return NoReason
	case m.rv == "":
		return Unversioned
	case m.restored || m.rebase:
		return WentBack
	case m.in.damaged > 0:
		return Unreadable
	}
	return reasonOf(m.sentinel())
}

// reasonOf returns the reason for a list after a failure. Without a failure it follows watches that
// brought nothing.
func reasonOf(sentinel error) Reason {
	switch sentinel {
	case ErrExpired:
		return Expired
	case ErrUnreachable:
		return Unreachable
	case ErrServer, ErrTooManyRequests:
		return Failed
	case ErrUnauthorized, ErrForbidden, ErrMethodNotAllowed, ErrRejected:
		return Refused
	case ErrUnknownResource:
		return Missing
	case ErrServerBehind:
		return Behind
	case ErrWentBack:
		return WentBack
	case ErrMalformed, ErrEncoding:
		return Unreadable
	}
	return Silent
}
