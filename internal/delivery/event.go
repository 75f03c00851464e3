package delivery

import "github.com/weirproject/weir/internal/store"

// Type says what happened to an object, as this handler sees it.
type Type uint8

const (
	// Added says that the handler has not seen the object before, or that its filter refused it
	// until now.
	Added Type = iota + 1
	// Updated says that the object changed since the handler last saw it.
	Updated
	// Deleted says that the object is gone, or that the handler's filter refuses it from now on.
	Deleted
	// Resynced says that the resync reached the object. Nothing changed.
	Resynced
)

// String returns the type in upper case, as a WATCH writes it.
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

// Event is one change as one handler sees it. Its objects are shared with all readers of the store;
// do not modify them.
type Event struct {
	Type Type
	// Old is the version that this handler saw last. It is nil in an Added event, and equal to New
	// in a Resynced one.
	Old *store.Object
	// New is the newest version at the time the event was made. It is nil in a Deleted event.
	New *store.Object
	// Initial is set on Added events of what the informer's first list brought, and of what was held
	// when the handler was added (client-go's isInInitialList).
	Initial bool
	// Coalesced is set when the event stands for more than one change, because the handler fell
	// behind the change log.
	Coalesced bool
	// Missed is set on a Deleted event without a DELETED event from the server: a relist no longer
	// had the object, or an object with another uid has its name.
	Missed bool
	// Refused is set on a Deleted event of an object that still exists, and whose newest version
	// the filter refuses.
	Refused bool
	// ResourceVersion is the version of the change: New's, or in a Deleted event that of the
	// deletion. It is 0 where it is unknown or not a number.
	ResourceVersion uint64
}

// FinalStateUnknown reports whether the object was deleted and Old is not its final state, because
// the end or a change before it was not seen: client-go's DeletedFinalStateUnknown.
func (e Event) FinalStateUnknown() bool {
	return e.Type == Deleted && !e.Refused && (e.Missed || e.Coalesced)
}

// Object returns New, or in a Deleted event the version that was seen last.
func (e Event) Object() *store.Object {
	if e.New != nil {
		return e.New
	}
	return e.Old
}

// Key returns the object's "namespace/name", or "name" if it has no namespace. It decodes nothing.
func (e Event) Key() string { return e.Object().Key() }
