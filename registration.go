package weir

import (
	"context"
	"fmt"

	"github.com/weirproject/weir/internal/delivery"
	"github.com/weirproject/weir/internal/engine"
)

// Registration is a handler on an informer, as Handle returns it. Its methods are safe for
// concurrent use.
type Registration struct {
	handler *delivery.Registration
	engine  *engine.Engine
}

// Name returns HandlerOptions.Name, or the name that the handler got.
func (r *Registration) Name() string { return r.handler.Name() }

// Remove ends the handler. Its context ends. If it is in a call, that goes on, and no other
// follows. Remove does not wait for the call; Done tells when it has returned. Removing again does
// nothing.
func (r *Registration) Remove() { r.engine.Remove(r.handler) }

func (r *Registration) ended() bool {
	select {
	case <-r.Done():
		return true
	default:
		return false
	}
}

// Done returns a channel that is closed when the handler will never be called again.
func (r *Registration) Done() <-chan struct{} { return r.handler.Done() }

// HasSynced reports whether the handler has handled every object of the informer's first lists, and
// of what was held when the handler was added, in that version or a later one.
func (r *Registration) HasSynced() bool { return r.handler.HasSynced() }

// Synced returns a channel that is closed when HasSynced becomes true.
func (r *Registration) Synced() <-chan struct{} { return r.handler.Synced() }

// WaitForSync blocks until HasSynced is true. If ctx ends first, the error wraps the context's
// error and says what kept the informer from syncing; if the handler ends first, it wraps
// ErrStopped. It wraps ErrNotSynced in both cases.
func (r *Registration) WaitForSync(ctx context.Context) error {
	select {
	case <-r.Synced():
		return nil
	case <-ctx.Done():
	case <-r.Done():
	}
	switch {
	case r.HasSynced(): // when both have come
		return nil
	case ctx.Err() == nil:
		return fmt.Errorf("handler %q: %w: %w", r.Name(), ErrNotSynced, ErrStopped)
	}
	if err := r.engine.WaitForSync(ctx); err != nil { // the informer has not: it says why
		return err
	}
	return fmt.Errorf("handler %q: %w: %w", r.Name(), ErrNotSynced, engine.WithContextError(ctx, context.Cause(ctx)))
}

// ResyncNow starts a resync: the handler gets every object once more, as Resynced, whatever its
// resync period. It does not block and makes no request. If it is called again before the resync
// has begun, there is one resync.
func (r *Registration) ResyncNow() { r.handler.ResyncNow() }

// Stats returns how the handler is doing. It can be called at any time.
func (r *Registration) Stats() HandlerStats { return handlerStats(r.handler) }
