package reflector

import "iter"

// Reason says why a reflector requests the server's whole state again.
type Reason uint8

const (
	// NoReason is the reason of the first list, and of every request that is not a list. It is the
	// zero value.
	NoReason Reason = iota
	// Expired means that the server no longer had the changes (ErrExpired).
	Expired
	// Unreachable means that watches got no response, or that their streams ended with errors
	// (ErrUnreachable).
	Unreachable
	// Silent means that a watch sent nothing for too long, or ended too soon (ErrSilent, ErrEnded).
	Silent
	// Failed means that the server failed, or asked the client to try later (ErrServer,
	// ErrTooManyRequests).
	Failed
	// Refused means that the server refused the request (ErrUnauthorized, ErrForbidden,
	// ErrMethodNotAllowed, ErrRejected).
	Refused
	// Missing means that the server did not have the resource for a while (ErrUnknownResource).
	Missing
	// Behind means that the server reported a version older than the store's, and later reached the
	// store's version (ErrServerBehind).
	Behind
	// WentBack means that the server was restored from a backup, or is a different server
	// (ErrWentBack).
	WentBack
	// Unreadable means that an object, or the whole response, could not be decoded (ErrMalformed,
	// ErrEncoding).
	Unreadable
	// Unversioned means that the server has no resourceVersions, so no watch can resume where the last
	// one ended.
	Unversioned

	reasons // the number of reasons
)

var reasonNames = [...]string{
	NoReason: "", Expired: "expired", Unreachable: "unreachable", Silent: "silent", Failed: "failed", Refused: "refused",
	Missing: "missing", Behind: "behind", WentBack: "went_back", Unreadable: "unreadable", Unversioned: "unversioned",
}

// String returns the name of the reason, such as "went_back". It returns "" for NoReason.
func (r Reason) String() string { return name(reasonNames[:], int(r)) }

// Relists counts the complete states that a reflector received after its first one, by Reason.
type Relists [reasons]int

// All yields the count of every reason except NoReason, in a fixed order.
func (n Relists) All() iter.Seq2[Reason, int] {
	return func(yield func(Reason, int) bool) {
		for r := NoReason + 1; r < reasons; r++ {
			if !yield(r, n[r]) {
				return
			}
		}
	}
}

// lists reports whether the current request, or the next one, is for the whole state or prepares
// such a request.
func (s *state) lists() bool {
	return s.request == reqList || s.request == reqVersion || s.askingListFloor || s.initial
}

// noteReason sets the reason when a step has made a list necessary, and clears it when no list
// follows. If the list fails, the first reason remains.
func (m *machine) noteReason(before *state) {
	switch {
	case !m.lists():
		m.reason = NoReason
	case !before.lists():
		m.reason = m.why()
	}
}

// why returns the reason of a list that the current step made necessary.
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

// reasonOf returns the reason of a list that follows a failure. Without a failure, the reason is
// Silent: watches sent nothing.
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
