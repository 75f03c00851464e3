package delivery

import "github.com/weirproject/weir/internal/core/store"

// Type is the kind of change of an object, from one handler's point of view.
type Type uint8

const (
	// Added: the handler has not seen the object before, or its filter rejected it until now.
	Added Type = iota + 1
	// Updated: the object changed since the handler last saw it.
	Updated
	// Deleted: the object was deleted, or the handler's filter now rejects it.
	Deleted
	// Resynced: the resync reached the object. Nothing changed.
	Resynced
)

// String returns the type as a WATCH spells it.
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

// Event is one change from one handler's point of view. Its objects are shared with all readers of
// the store; do not modify them.
type Event struct {
	Type Type
	// Old is the version that this handler saw last. It is nil in an Added event, and equal to New
	// in a Resynced one.
	Old *store.Object
	// New is the newest version when the event was created. It is nil in a Deleted event.
	New *store.Object
	// Initial is set on Added events for the objects of the informer's first list, and for the objects
	// that were stored when the handler was added (client-go's isInInitialList).
	Initial bool
	// Coalesced is set when the event represents more than one change, because the handler lagged
	// behind the change log.
	Coalesced bool
	// Missed is set on a Deleted event without a DELETED event from the server: a relist lacked the
	// object, or an object with another uid has its name.
	Missed bool
	// Refused is set on a Deleted event of an object that still exists, but whose newest version the
	// filter rejects.
	Refused bool
	// ResourceVersion is the version of the change: New's, or in a Deleted event that of the deletion.
	// It is 0 if it is unknown or not a number.
	ResourceVersion uint64
}

// FinalStateUnknown reports whether the object was deleted and Old is not its final state, because
// the informer did not see the deletion or a change before it: client-go's
// DeletedFinalStateUnknown.
func (e Event) FinalStateUnknown() bool {
	return e.Type == Deleted && !e.Refused && (e.Missed || e.Coalesced)
}

// Object returns New, or in a Deleted event the version that the handler saw last.
func (e Event) Object() *store.Object {
	if e.New != nil {
		return e.New
	}
	return e.Old
}

// Key returns the object's "namespace/name", or "name" if it has no namespace. It decodes nothing.
func (e Event) Key() string { return e.Object().Key() }
