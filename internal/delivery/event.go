package delivery

import "github.com/weirproject/weir/internal/store"

// Type says what happened to an object, as this handler sees it.
type Type uint8

const (
	// Added: the handler has not seen the object, or its filter refused it until now.
	Added Type = iota + 1
	// Updated: the object changed since the handler last saw it.
	Updated
	// Deleted: the object is gone, or the handler's filter refuses it from now on.
	Deleted
	// Resynced: nothing changed; the resync sweep reached the object.
	Resynced
)

// String gives the type in upper case, as a WATCH writes it.
func (t Type) String() string {
	switch t {
	case Added:
		return "ADDED"
	case Updated:
		return "MODIFIED"
	case Deleted:
		return "DELETED"
	case Resynced:
		return "RESYNC"
	}
	return "UNKNOWN"
}

// Event is one change as one handler sees it. Its objects are shared with every other reader of the
// store and are read-only.
type Event struct {
	Type Type
	// Old is the version that this handler saw last: nil when Added, the same as New when Resynced.
	Old *store.Object
	// New is the newest version when the event was made: nil when Deleted.
	New *store.Object
	// Initial is set on what the informer's first list brought (client-go's isInInitialList).
	Initial bool
	// Coalesced is set when the event stands for more than one change, because the handler fell
	// behind the change log.
	Coalesced bool
	// Missed is set on a Deleted event that no DELETED event of the server's told of: a relist did
	// not have the object any more, or another one has its name (client-go's
	// DeletedFinalStateUnknown).
	Missed bool
	// ResourceVersion is that of the change: New's, or for a Deleted event that of the deletion. 0
	// where it is not a number, or not known.
	ResourceVersion uint64
}

// Object is New, or for a Deleted event the version that was seen last.
func (e Event) Object() *store.Object {
	if e.New != nil {
		return e.New
	}
	return e.Old
}

// Key is the object's "namespace/name", or "name" where it has no namespace. It decodes nothing.
func (e Event) Key() string { return e.Object().Key() }
