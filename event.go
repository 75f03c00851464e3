package weir

import (
	"context"

	"k8s.io/klog/v2"

	"github.com/weirproject/weir/internal/delivery"
	"github.com/weirproject/weir/internal/resourceversion"
)

// EventType says what happened to an object, as one handler sees it. The zero value is no event.
type EventType uint8

// The types of events.
const (
	Added    EventType = iota + 1 // the handler has not seen the object before
	Updated                       // the object, of the same uid, changed since the handler last saw it
	Deleted                       // the object is gone, or the handler's filter refuses it from now on
	Resynced                      // nothing changed; the resync reached the object
)

// String returns the type in upper case, as a WATCH writes it: "ADDED", "MODIFIED", "DELETED"; and
// "RESYNC".
func (t EventType) String() string { return delivery.Type(t).String() }

// Event is one change, as one handler sees it. Nothing in it is decoded until Object or Old is
// called. It may be kept and is safe for concurrent use; it then pins two versions of one object.
//
// Handlers follow objects by uid. Each object is Added and Deleted, also one that another object
// has replaced under its name, and one that came and went while the handler was behind; of those
// that one handler has not seen, the newest 16,384 are kept for it.
type Event[T Object] struct {
	Type EventType
	// Initial is set on Added events of what the informer's first list brought, and of what was
	// held when the handler was added, however it came (client-go's isInInitialList).
	Initial bool
	// Coalesced is set when the event stands for more than one change, because the handler fell
	// behind.
	Coalesced bool
	// FinalStateUnknown is set on the Deleted event of an object whose end, or a change before it,
	// the handler did not see: the object was missing in a relist, another one has its name, or the
	// handler fell behind. What Object returns need not be the final state (client-go's
	// DeletedFinalStateUnknown).
	FinalStateUnknown bool

	old, new Item[T]
	deletion uint64 // resourceVersion of a Deleted event, 0 if it is not known
}

// Handler handles events. It is called with one event at a time, not always on the same goroutine;
// the context ends when the handler is removed or the informer stops. A handler may block and may
// panic without hurting anybody else. What it does to its goroutine, such as runtime.LockOSThread,
// it must undo.
type Handler[T Object] func(ctx context.Context, e Event[T])

func eventOf[T Object](e delivery.Event, reader *reader) Event[T] {
	event := Event[T]{
		Type: EventType(e.Type), Initial: e.Initial, Coalesced: e.Coalesced, FinalStateUnknown: e.FinalStateUnknown(),
		old: Item[T]{e.Old, reader, true}, new: Item[T]{e.New, reader, true},
	}
	if e.Type == delivery.Deleted {
		event.deletion = e.ResourceVersion
	}
	return event
}

// Item returns the newest version, or for a Deleted event the version that this handler saw last.
func (e Event[T]) Item() Item[T] {
	if e.new.IsZero() {
		return e.old
	}
	return e.new
}

// OldItem returns the version that this handler saw last; the zero Item when Added.
func (e Event[T]) OldItem() Item[T] { return e.old }

// Key returns "namespace/name", or "name" where there is no namespace.
func (e Event[T]) Key() string { return e.Item().Key() }

// ResourceVersion returns that of the change: Item's, or for a Deleted event that of the deletion,
// or of the version that the filter refuses. It returns "" for a Deleted event where that is not
// known, or not an integer. A relist that no longer had the object gives that of the list.
func (e Event[T]) ResourceVersion() string {
	switch {
	case e.Type != Deleted:
		return e.Item().ResourceVersion()
	case e.deletion == 0:
		return ""
	}
	return resourceversion.Format(e.deletion)
}

// Labels returns a copy of the labels of Item, read from its bytes.
func (e Event[T]) Labels() map[string]string { return e.Item().Labels() }

// Object decodes and returns the newest version, or for a Deleted event the one that this handler
// saw last. The object is shared: do not modify it unless Options.PrivateCopies is set.
// Item().Copy() decodes one for the caller alone.
func (e Event[T]) Object() (T, error) { return e.Item().Object() }

// Old decodes and returns the version that this handler saw last, shared as Object's. It returns
// ErrNotFound when Added.
func (e Event[T]) Old() (T, error) { return e.old.Object() }

// PanicError is a panic that a handler raised. Options.OnPanic is told of it.
type PanicError struct {
	Handler string // HandlerOptions.Name, or the name that the handler got
	Key     string // of the object whose event was being handled
	Value   any    // what was passed to panic
	Stack   []byte
}

// Error names the handler, the key and the value.
func (e *PanicError) Error() string { return (*delivery.PanicError)(e).Error() }

// Unwrap returns the value passed to panic if that is an error, else nil.
func (e *PanicError) Unwrap() error { return (*delivery.PanicError)(e).Unwrap() }

func logPanic(e *PanicError) {
	klog.Background().Error(e, "weir: a handler panicked", "handler", e.Handler, "key", e.Key, "stack", string(e.Stack))
}
