package store

// Change is one change of one key, as the log stores it, a cursor returns it, and a handler
// receives it. Old has the uid and resourceVersion of the version that the reader saw last. All
// readers of the store share the objects; do not modify them.
type Change struct {
	// Revision is the store's revision of the change, or of the last change if it represents several.
	// For an object of the initial state, it is the revision at which the store applied the object's
	// version.
	Revision uint64
	// Old and New are the versions before and after. Old is nil if the key did not exist before,
	// and New is nil if it does not exist after. They are never both nil. They are the same version
	// only in a resync.
	Old, New *Object
	// Final is the state in which Writer.DeleteAs deleted the object. nil: the state is unknown.
	Final *Object
	// ResourceVersion is the resourceVersion of New. If New is nil, ResourceVersion is the one passed
	// to Writer.Delete, or that of the list that lacked the object. It is 0 if that resourceVersion is
	// not an integer, or is unknown.
	ResourceVersion uint64
	// Initial reports that Old is nil and that the change is part of the cursor's initial state, or of
	// a writer's first replace, which is its first list (client-go's isInInitialList).
	Initial bool
	// Awaited reports that Cursor.SyncedThrough waited until Next returned this change: it is Initial,
	// or represents a change by a writer's first replace. In the log, Awaited reports only that a
	// writer's first replace made the change.
	Awaited bool
	// Coalesced reports that the change represents several changes, because its reader fell behind
	// the log.
	Coalesced bool
	// Missed reports that New is nil and the server sent no DELETED event: a relist lacked the
	// object, another object has its name, or its writer was removed.
	Missed bool
	// Refused reports that New is nil because a handler's filter rejects the newest version.
	Refused bool
}

// ChangeType is the kind of a change, from one reader's point of view.
type ChangeType uint8

const (
	// Added: the reader has not seen the object before, or its filter rejected it until now.
	Added ChangeType = iota + 1
	// Updated: the object changed since the reader last saw it.
	Updated
	// Deleted: the object was deleted, or the reader's filter now rejects it.
	Deleted
	// Resynced: the resync reached the object. Nothing changed.
	Resynced
)

// String returns the type as a WATCH spells it. For Resynced, which is not in a WATCH, it returns
// RESYNC.
func (t ChangeType) String() string {
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

// Type returns the kind of the change.
func (ch *Change) Type() ChangeType {
	switch {
	case ch.Old == nil:
		return Added
	case ch.New == nil:
		return Deleted
	case ch.Old == ch.New:
		return Resynced
	}
	return Updated
}

// FinalStateUnknown reports whether the object was deleted and Old may not be its final state: the
// server sent no DELETED event, or the change represents several changes. client-go calls this
// DeletedFinalStateUnknown.
func (ch *Change) FinalStateUnknown() bool {
	return ch.New == nil && !ch.Refused && (ch.Missed || ch.Coalesced)
}

// Object returns New, or Old if New is nil.
func (ch *Change) Object() *Object {
	if ch.New != nil {
		return ch.New
	}
	return ch.Old
}

// Key returns the key of the object that changed.
func (ch *Change) Key() string { return ch.Object().key }

// changeBytes is the size of a Change in the log.
const changeBytes = 48

// cost returns how many bytes the change uses in the log, including its versions that are no longer
// in the table: Old and Final.
func (ch *Change) cost() int64 {
	n := int64(changeBytes)
	if ch.Old != nil {
		n += ch.Old.Footprint()
		if ch.New == nil {
			n += int64(len(ch.Old.key))
		}
	}
	if ch.Final != nil {
		n += ch.Final.Footprint()
	}
	return n
}
