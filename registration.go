package weir

import (
	"context"
	"fmt"

	"github.com/weirproject/weir/internal/core/delivery"
	"github.com/weirproject/weir/internal/core/engine"
)

// Registration is a handler on an informer, as Handle returns it. Its methods are safe for
// concurrent use.
type Registration struct {
	handler *delivery.Registration
	engine  *engine.Engine
}

// Name returns HandlerOptions.Name, or the generated name.
func (r *Registration) Name() string { return r.handler.Name() }

// Remove removes the handler and cancels its context. A call that is active continues, and no other
// follows. Remove does not wait for it; Done is closed when it has returned. A second Remove does
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

// Done returns a channel that is closed when the handler will not be called again.
func (r *Registration) Done() <-chan struct{} { return r.handler.Done() }

// HasSynced reports whether the handler has handled every object of the informer's first lists, and
// every object that was stored when the handler was added, in that version or a later one.
func (r *Registration) HasSynced() bool { return r.handler.HasSynced() }

// Synced returns a channel that is closed when HasSynced becomes true.
func (r *Registration) Synced() <-chan struct{} { return r.handler.Synced() }

// WaitForSync blocks until HasSynced is true. If ctx ends first, the error wraps the context's
// error and the error that prevented the sync. If the handler ends first, it wraps ErrStopped. In
// both cases it wraps ErrNotSynced.
func (r *Registration) WaitForSync(ctx context.Context) error {
	select {
	case <-r.Synced():
		return nil
	case <-ctx.Done():
	case <-r.Done():
	}
	switch {
	case r.HasSynced(): // if both channels are ready
		return nil
	case ctx.Err() == nil:
		return fmt.Errorf("handler %q: %w: %w", r.Name(), ErrNotSynced, ErrStopped)
	}
	if err := r.engine.WaitForSync(ctx); err != nil { // the informer has not synced: says why
		return err
	}
	return fmt.Errorf("handler %q: %w: %w", r.Name(), ErrNotSynced, engine.WithContextError(ctx, context.Cause(ctx)))
}

// ResyncNow starts a resync: the handler receives every object again as Resynced, also without a
// resync period. It does not block and sends no request. A second call before the resync has
// started adds none.
func (r *Registration) ResyncNow() { r.handler.ResyncNow() }

// Stats returns the handler's counts. It can be called at any time.
func (r *Registration) Stats() HandlerStats { return handlerStats(r.handler) }
