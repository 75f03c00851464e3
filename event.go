package weir

import (
	"context"

	"k8s.io/klog/v2"

	"github.com/weirproject/weir/internal/core/delivery"
	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/store"
)

// EventType says what happened to an object from one handler's point of view. The zero value is not
// an event.
type EventType uint8

// The types of events.
const (
	Added    EventType = iota + 1 // the handler has not seen the object before
	Updated                       // the object (same uid) changed since the handler last saw it
	Deleted                       // the object was deleted, or the handler's filter now rejects it
	Resynced                      // nothing changed; a resync reached the object
)

// String returns the type as a WATCH spells it: "ADDED", "MODIFIED", "DELETED"; or "RESYNC".
func (t EventType) String() string { return store.ChangeType(t).String() }

// Event is one change from one handler's point of view. It decodes nothing until Object or Old is
// called. It may be kept, and is safe for concurrent use; it then keeps two versions of one object
// in memory.
//
// Handlers follow objects by uid. A handler receives Added and Deleted for each object, even if
// another object replaced it under its name, or if it was created and deleted while the handler
// lagged. Of the objects that a handler has not seen, the newest 16,384 are kept for it.
type Event[T Object] struct {
	Type EventType
	// Initial is set on Added events for the objects of the informer's first list, and for the objects
	// that the informer stored when the handler was added (client-go's isInInitialList).
	Initial bool
	// Coalesced is set when the event represents more than one change, because the handler lagged.
	Coalesced bool
	// FinalStateUnknown is set on a Deleted event if the handler did not see the deletion or a change
	// before it: a relist lacked the object, another object took its name, or the handler lagged.
	// Object may then return an older state than the final one (client-go's DeletedFinalStateUnknown).
	FinalStateUnknown bool

	old, new Item[T]
	deletion uint64 // resourceVersion of a Deleted event, 0 if unknown
}

// Handler handles events. It is called with one event at a time, not always on the same goroutine.
// Its context ends when the handler is removed or the informer stops. A handler may block and may
// panic: neither affects other handlers. It must undo what it does to its goroutine, such as
// runtime.LockOSThread.
type Handler[T Object] func(ctx context.Context, e Event[T])

func eventOf[T Object](e store.Change, reader *reader) Event[T] {
	event := Event[T]{
		Type: EventType(e.Type()), Initial: e.Initial, Coalesced: e.Coalesced, FinalStateUnknown: e.FinalStateUnknown(),
		old: Item[T]{e.Old, reader, true}, new: Item[T]{e.New, reader, true},
	}
	if event.Type == Deleted {
		event.deletion = e.ResourceVersion
	}
	return event
}

// Item returns the newest version. For a Deleted event it returns the version that this handler saw
// last.
func (e Event[T]) Item() Item[T] {
	if e.new.IsZero() {
		return e.old
	}
	return e.new
}

// OldItem returns the version that this handler saw last. It is the zero Item for an Added event.
func (e Event[T]) OldItem() Item[T] { return e.old }

// Key returns "namespace/name", or "name" if the object has no namespace.
func (e Event[T]) Key() string { return e.Item().Key() }

// ResourceVersion returns the version of the change. For a Deleted event that is the version of the
// deletion, of the list that lacked the object, or of the object that the filter rejected. It is ""
// for a Deleted event if that version is unknown or not an integer.
func (e Event[T]) ResourceVersion() string {
	switch {
	case e.Type != Deleted:
		return e.Item().ResourceVersion()
	case e.deletion == 0:
		return ""
	}
	return resourceversion.Format(e.deletion)
}

// Labels returns a copy of Item's labels. It reads them from the bytes.
func (e Event[T]) Labels() map[string]string { return e.Item().Labels() }

// Object decodes and returns the newest version. For a Deleted event it returns the version that
// this handler saw last. The object is shared: do not modify it unless Options.PrivateCopies is
// set. Item().Copy() decodes a private copy.
func (e Event[T]) Object() (T, error) { return e.Item().Object() }

// Old decodes and returns the version that this handler saw last, shared like Object's. It returns
// ErrNotFound for an Added event.
func (e Event[T]) Old() (T, error) { return e.old.Object() }

// PanicError describes a panic of a handler. Options.OnPanic receives it.
type PanicError struct {
	Handler string // HandlerOptions.Name, or the generated name
	Key     string // of the object that the handler was handling
	Value   any    // the argument of panic
	Stack   []byte
}

// Error returns a text with the handler, the key and the value.
func (e *PanicError) Error() string { return (*delivery.PanicError)(e).Error() }

// Unwrap returns Value if it is an error, otherwise nil.
func (e *PanicError) Unwrap() error { return (*delivery.PanicError)(e).Unwrap() }

func logPanic(e *PanicError) {
	klog.Background().Error(e, "weir: a handler panicked", "handler", e.Handler, "key", e.Key, "stack", string(e.Stack))
}
