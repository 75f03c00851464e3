package weir

import (
	"context"

	"github.com/weirproject/weir/internal/delivery"
)

// EventType says what happened to an object, as one handler sees it.
type EventType = delivery.Type

// The types of events.
const (
	Added    = delivery.Added    // not seen before by this handler
	Updated  = delivery.Updated  // changed since this handler last saw it
	Deleted  = delivery.Deleted  // gone, or refused by the handler's filter from now on
	Resynced = delivery.Resynced // nothing changed; the resync sweep came by
)

// Event is one change, as one handler sees it. Nothing in it is decoded until Object or Old is called. It may be kept
// and is safe for concurrent use; it then pins two versions of one object.
type Event[T Object] struct {
	Type EventType
	// Initial is set on what the informer's first list brought (client-go's isInInitialList).
	Initial bool
	// Coalesced is set when the event stands for more than one change, because the handler fell behind.
	Coalesced bool

	old, new Item[T]
}

// Handler handles events. It is called by one goroutine, one event at a time; the context ends when the handler is
// removed or the informer stops. A handler may block and may panic without hurting anybody else.
type Handler[T Object] func(ctx context.Context, e Event[T])

func eventOf[T Object](e delivery.Event, from *reader) Event[T] {
	return Event[T]{Type: e.Type, Initial: e.Initial, Coalesced: e.Coalesced, old: Item[T]{e.Old, from, true}, new: Item[T]{e.New, from, true}}
}

// Item is the newest version, or for a Deleted event the version that this handler saw last.
func (e Event[T]) Item() Item[T] {
	if e.new.IsZero() {
		return e.old
	}
	return e.new
}

// OldItem is the version that this handler saw last; the zero Item when Added.
func (e Event[T]) OldItem() Item[T] { return e.old }

// Key is "namespace/name", or "name" where there is no namespace.
func (e Event[T]) Key() string { return e.Item().Key() }

// ResourceVersion is that of the newest version.
func (e Event[T]) ResourceVersion() string { return e.Item().ResourceVersion() }

// Labels are those of the newest version, read from its bytes.
func (e Event[T]) Labels() map[string]string { return e.Item().Labels() }

// Object decodes the newest version, or for a Deleted event the one that was seen last. It is shared and read-only unless
// Options.PrivateCopies is set; Item().Copy() decodes it for the caller alone.
func (e Event[T]) Object() (T, error) { return e.Item().Object() }

// Old decodes the version that this handler saw last, as Object does the newest. ErrNotFound when Added.
func (e Event[T]) Old() (T, error) { return e.old.Object() }
