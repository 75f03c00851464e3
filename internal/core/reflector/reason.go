package reflector

import "iter"

// Reason says why a reflector lists the whole state of the server again.
type Reason uint8

const (
	// NoReason is the reason of the first list, and of every request that is no list. It is the
	// zero value.
	NoReason Reason = iota
	// Expired: the server no longer had the changes (ErrExpired).
	Expired
	// Unreachable: watches got no answer, or their streams broke off (ErrUnreachable).
	Unreachable
	// Silent: a watch sent nothing for too long, or ended at once (ErrSilent, ErrEnded).
	Silent
	// Failed: the server failed, or asked the client to try later (ErrServer, ErrTooManyRequests).
	Failed
	// Refused: the request was refused (ErrUnauthorized, ErrForbidden, ErrMethodNotAllowed,
	// ErrRejected).
	Refused
	// Missing: the resource was not served for a while (ErrUnknownResource).
	Missing
	// Behind: the server had not reached the store's version at first, and then had
	// (ErrServerBehind).
	Behind
	// WentBack: the server was restored from a backup, or is a different server (ErrWentBack).
	WentBack
	// Unreadable: an object, or the whole answer, could not be read (ErrMalformed, ErrEncoding).
	Unreadable
	// Unversioned: the server has no resourceVersions, so no watch can resume where another ended.
	Unversioned

	reasons // the number of reasons
)

var reasonNames = [...]string{
	NoReason: "", Expired: "expired", Unreachable: "unreachable", Silent: "silent", Failed: "failed", Refused: "refused",
	Missing: "missing", Behind: "behind", WentBack: "went_back", Unreadable: "unreadable", Unversioned: "unversioned",
}

// String returns the reason in lower case, such as "went_back", and "" for NoReason.
func (r Reason) String() string { return name(reasonNames[:], int(r)) }

// Relists counts the complete states after the first, by Reason.
type Relists [reasons]int

// All yields every reason except NoReason with its count, in a fixed order.
func (n Relists) All() iter.Seq2[Reason, int] {
	return func(yield func(Reason, int) bool) {
		for r := NoReason + 1; r < reasons; r++ {
			if !yield(r, n[r]) {
				return
			}
		}
	}
}

// lists reports whether the reflector is requesting the whole state, or will do so next.
func (s *state) lists() bool {
	return s.request == reqList || s.request == reqVersion || s.askingListFloor || s.initial
}

// noteReason sets the reason when a step has made a list necessary, and clears it when no list is
// due. A failure on the way to the list does not change the reason.
func (m *machine) noteReason(before *state) {
	switch {
	case !m.lists():
		m.reason = NoReason
	case !before.lists():
		m.reason = m.why()
	}
}

// why returns the reason for a list that the current step made necessary.
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

// reasonOf returns the reason for a list after a failure, by its sentinel. Silent is the reason of
// a list without a failure: watches sent nothing.
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
