package weir

import (
	"context"

	"github.com/weirproject/weir/internal/delivery"
	"github.com/weirproject/weir/internal/engine"
)

// Registration is a handler on an informer. Its methods are safe for concurrent use.
type Registration struct {
	*delivery.Registration
	engine *engine.Engine
}

// HandlerStats tell how a handler is doing.
type HandlerStats struct {
	Name string
	delivery.Stats
}

// Remove ends the handler: its context ends, and after the call that it may be in it is called no more. Remove does not
// wait for that call; Done does.
func (r *Registration) Remove() { r.engine.Remove(r.Registration) }

// WaitForSync blocks until the handler has handled everything of the informer's first sync. When ctx ends first the
// error says what kept it.
func (r *Registration) WaitForSync(ctx context.Context) error {
	if err := r.engine.WaitForSync(ctx); err != nil {
		return err
	}
	select {
	case <-r.Synced():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-r.Done():
		return ErrStopped
	}
}
