package weir

import (
	"context"
	"fmt"

	"github.com/weirproject/weir/internal/core/delivery"
	"github.com/weirproject/weir/internal/core/engine"
)

// Registration is a registered handler. Informer.Handle returns a Registration. The methods are
// safe for concurrent use.
type Registration struct {
	handler *delivery.Registration
	engine  *engine.Engine
}

// Name returns HandlerOptions.Name, or the default name.
func (r *Registration) Name() string { return r.handler.Name() }

// Remove removes the handler and cancels its context. An active call continues; no further call
// starts. Remove does not wait for the active call: Done is closed when it has returned. A second
// Remove does nothing.
func (r *Registration) Remove() { r.engine.Remove(r.handler) }

func (r *Registration) ended() bool {
	select {
	case <-r.Done():
		return true
	default:
		return false
	}
}

// Done returns a channel that is closed when the handler will not be called again: the handler was
// removed or its informer has stopped, and no call is active.
func (r *Registration) Done() <-chan struct{} { return r.handler.Done() }

// HasSynced reports whether the handler has handled every object of the informer's first lists, and
// every object that the informer stored when the handler was added. A handler that lags may have
// handled a later version of an object instead.
func (r *Registration) HasSynced() bool { return r.handler.HasSynced() }

// Synced returns a channel that is closed when HasSynced becomes true.
func (r *Registration) Synced() <-chan struct{} { return r.handler.Synced() }

// WaitForSync blocks until HasSynced is true. If ctx ends first, the error wraps ErrNotSynced, the
// context's error, and the informer's Err if that prevented the sync. If the handler is removed or
// the informer stops first, the error wraps ErrNotSynced and ErrStopped.
func (r *Registration) WaitForSync(ctx context.Context) error {
	select {
	case <-r.Synced():
		return nil
	case <-ctx.Done():
	case <-r.Done():
	}
	switch {
	case r.HasSynced(): // select may have chosen another channel although Synced was closed too
		return nil
	case ctx.Err() == nil:
		return fmt.Errorf("handler %q: %w: %w", r.Name(), ErrNotSynced, ErrStopped)
	}
	if err := r.engine.WaitForSync(ctx); err != nil { // the informer has not synced: err says why
		return err
	}
	return fmt.Errorf("handler %q: %w: %w", r.Name(), ErrNotSynced, engine.WithContextError(ctx, context.Cause(ctx)))
}

// ResyncNow starts a resync: the handler receives every object again as a Resynced event. It works
// without HandlerOptions.Resync, does not block and sends no request. A second call before the
// resync has started does nothing.
func (r *Registration) ResyncNow() { r.handler.ResyncNow() }

// Stats returns the handler's counts. It can be called at any time.
func (r *Registration) Stats() HandlerStats { return handlerStats(r.handler) }
