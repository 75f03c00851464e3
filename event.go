package weir

import (
	"context"

	"k8s.io/klog/v2"

	"github.com/weirproject/weir/internal/delivery"
)

// EventType says what happened to an object, as one handler sees it. The zero value is no event.
type EventType uint8

// The types of events.
const (
	Added    EventType = iota + 1 // the handler has not seen the object before
	Updated                       // the object changed since the handler last saw it
	Deleted                       // the object is gone, or the handler's filter refuses it from now on
	Resynced                      // nothing changed; the resync reached the object
)

// String returns the type in upper case, as a WATCH writes it: "ADDED", "MODIFIED", "DELETED"; and
// "RESYNC".
func (t EventType) String() string { return delivery.Type(t).String() }

// Event is one change, as one handler sees it. Nothing in it is decoded until Object or Old is
// called. It may be kept and is safe for concurrent use; it then pins two versions of one object.
type Event[T Object] struct {
	Type EventType
	// Initial is set on Added events of what the informer's first list brought, and of what was held
	// when the handler was added, however it came (client-go's isInInitialList).
	Initial bool
	// Coalesced is set when the event stands for more than one change, because the handler fell
	// behind.
	Coalesced bool

	old, new Item[T]
}

// Handler handles events. It is called with one event at a time, not always on the same goroutine;
// the context ends when the handler is removed or the informer stops. A handler may block and may
// panic without hurting anybody else. What it does to its goroutine, such as runtime.LockOSThread,
// it must undo.
type Handler[T Object] func(ctx context.Context, e Event[T])

func eventOf[T Object](e delivery.Event, reader *reader) Event[T] {
	return Event[T]{Type: EventType(e.Type), Initial: e.Initial, Coalesced: e.Coalesced, old: Item[T]{e.Old, reader, true}, new: Item[T]{e.New, reader, true}}
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

// ResourceVersion returns that of Item.
func (e Event[T]) ResourceVersion() string { return e.Item().ResourceVersion() }

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
