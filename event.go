package weir

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/klog/v2"

	"github.com/weirproject/weir/internal/core/delivery"
	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/store"
)

// EventType is the type of a change, from one handler's point of view. The zero value is not an
// event type.
type EventType uint8

// The types of events.
const (
	Added    EventType = iota + 1 // new to the handler, or its filter now accepts the object
	Updated                       // the object (same uid) changed since the handler last received it
	Deleted                       // the object was deleted, or the handler's filter now rejects it
	Resynced                      // nothing changed; the handler receives the object again in a resync
)

// String returns the type as a WATCH spells it, "ADDED", "MODIFIED" or "DELETED", or "RESYNC" for
// Resynced.
func (t EventType) String() string { return store.ChangeType(t).String() }

// Event is one change of one object, from one handler's point of view. Object and Old decode the
// object; other methods do not. An event is safe for concurrent use, and a handler may store it:
// the event then keeps up to two versions of the object in memory.
//
// An event's object is identified by its uid, not by its name. A handler receives Added and Deleted
// for each object, even if a new object took the name of a deleted object. The same is true for
// objects that were created and deleted while the handler lagged, with one limit: of these objects,
// the handler receives only the newest 16,384.
type Event[T Object] struct {
	Type EventType
	// Initial is true for an Added event if the object was in the informer's first list, or if the
	// informer stored the object when the handler was added. It is client-go's isInInitialList.
	Initial bool
	// Coalesced is true if the event combines several changes of the object, because the handler
	// lagged.
	Coalesced bool
	// FinalStateUnknown is true for a Deleted event if Object may return an older state than the
	// object's last one. The reason is that a relist lacked the object, that a new object took its
	// name, or that the handler lagged. It corresponds to client-go's DeletedFinalStateUnknown.
	FinalStateUnknown bool

	old, new *store.Object // as in store.Change
	reader   *reader
	deletion uint64 // resourceVersion of a Deleted event, 0 if unknown
}

// Handler handles events. The informer calls it with one event at a time, not always on the same
// goroutine. ctx ends when the handler is removed or the informer stops. A handler may block and
// may panic: neither affects other handlers. Before it returns, it must undo changes to its
// goroutine, such as runtime.LockOSThread, because the informer reuses the goroutine for other
// handlers.
type Handler[T Object] func(ctx context.Context, e Event[T])

// Handle registers a handler, before or during Run. The handler first receives the stored objects
// as Added events. Handle does not block. It returns ErrStopped after Run has ended, and
// ErrInvalidOptions for a nil Handler.
func (i *informer[T]) Handle(h Handler[T], opts HandlerOptions[T]) (*Registration, error) {
	if h == nil {
		return nil, fmt.Errorf("%s: %w: no Handler", i.name, ErrInvalidOptions)
	}
	o := delivery.Options{Name: opts.Name, Resync: opts.Resync, OnPanic: func(e *delivery.PanicError) { i.panics((*PanicError)(e)) }}
	if filter := opts.Filter; filter != nil {
		o.Filter = func(s *store.Object) bool { return filter(Item[T]{s, i.reader, true}) }
	}
	r, err := i.engine.Handle(func(ctx context.Context, e store.Change) { h(ctx, eventOf[T](e, i.reader)) }, o)
	if err != nil {
		return nil, err
	}
	return &Registration{handler: r, engine: i.engine}, nil
}

func eventOf[T Object](e store.Change, reader *reader) Event[T] {
	event := Event[T]{
		Type: EventType(e.Type()), Initial: e.Initial, Coalesced: e.Coalesced, FinalStateUnknown: e.FinalStateUnknown(),
		old: e.Old, new: e.New, reader: reader,
	}
	if event.Type == Deleted {
		event.deletion = e.ResourceVersion
	}
	return event
}

// Item returns the newest version. For a Deleted event it returns the version that this handler
// received last.
func (e Event[T]) Item() Item[T] { return Item[T]{e.newest(), e.reader, true} }

func (e Event[T]) newest() *store.Object { return cmp.Or(e.new, e.old) }

// OldItem returns the version that this handler received before. It is the zero Item for an Added
// event.
func (e Event[T]) OldItem() Item[T] { return Item[T]{e.old, e.reader, true} }

// Key returns "namespace/name", or "name" if the object has no namespace.
func (e Event[T]) Key() string { return e.newest().Key() }

// ResourceVersion returns the version of the change. For a Deleted event this is the version of the
// deletion, of the list that lacked the object, or of the object's version that the filter
// rejected. It is "" for a Deleted event whose version is unknown or not an integer.
func (e Event[T]) ResourceVersion() string {
	switch {
	case e.Type != Deleted:
		return e.newest().ResourceVersion()
	case e.deletion == 0:
		return ""
	}
	return resourceversion.Format(e.deletion)
}

// Labels returns a copy of Item's labels. It does not decode the object.
func (e Event[T]) Labels() map[string]string { return e.newest().Labels() }

// Object decodes and returns the newest version, or for a Deleted event the version that this
// handler received last. The object is shared: do not modify it unless Options.PrivateCopies is
// set. Item().Copy() returns a private copy.
func (e Event[T]) Object() (T, error) { return decoded[T](e.newest(), e.reader.handlerValue) }

// Old decodes and returns the version that this handler received before. The object is shared like
// Object's. Old returns ErrNotFound for an Added event.
func (e Event[T]) Old() (T, error) { return decoded[T](e.old, e.reader.handlerValue) }

// PanicError describes a panic of a handler. Options.OnPanic receives a *PanicError.
type PanicError struct {
	Handler string // HandlerOptions.Name, or the generated name
	Key     string // key of the object that the handler was handling
	Value   any    // the argument of panic
	Stack   []byte
}

// Error returns a text that contains the handler's name, the key and the value.
func (e *PanicError) Error() string { return (*delivery.PanicError)(e).Error() }

// Unwrap returns Value if it is an error, otherwise nil.
func (e *PanicError) Unwrap() error { return (*delivery.PanicError)(e).Unwrap() }

func logPanic(e *PanicError) {
	klog.Background().Error(e, "weir: a handler panicked", "handler", e.Handler, "key", e.Key, "stack", string(e.Stack))
}
