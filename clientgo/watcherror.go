package clientgo

import (
	"context"

	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/engine"
)

// SetWatchErrorHandler sets who is told when listing or watching failed. It must be called before the start.
func (i *informer) SetWatchErrorHandler(handler cache.WatchErrorHandler) error {
	return i.SetWatchErrorHandlerWithContext(func(_ context.Context, r *cache.Reflector, err error) { handler(r, err) })
}

// SetWatchErrorHandlerWithContext is SetWatchErrorHandler with a context. The handler is called on the goroutine that
// lists and watches, and holds it up for as long as it takes. Its Reflector has a name and does nothing.
func (i *informer) SetWatchErrorHandlerWithContext(handler cache.WatchErrorHandlerWithContext) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.started {
		return errStarted
	}
	i.onError = handler
	return nil
}

// told is told of each change of the reflector's status.
func (i *informer) told(s engine.Status) {
	i.mu.Lock()
	ctx, handler := i.run, i.onError
	fresh := s.Err != nil && s.Err != i.lastErr
	i.lastErr = s.Err
	if s.Relists > i.relists {
		i.relists = s.Relists
		for r := range i.handlers {
			if i.onRelist {
				r.served.ResyncNow()
			}
		}
	}
	i.mu.Unlock()
	if fresh && handler != nil && ctx != nil && ctx.Err() == nil {
		handler(ctx, i.watched, s.Err)
	}
}
