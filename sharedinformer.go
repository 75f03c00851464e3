package weir

import (
	"fmt"
	"slices"
	"sync"
)

// SharedInformer is one user's share of an informer that a factory runs. It has the methods of
// Informer, except Run. The informer stops when its last user releases it or its factory shuts
// down. Stats includes the handlers of all users. The methods are safe for concurrent use. Until
// Release, a SharedInformer may also keep removed handlers in memory: about as many as it has
// active handlers.
type SharedInformer[T Object] struct {
	informer[T]
	factory *Factory
	key     shareKey
	shared  *shared

	mu       sync.Mutex
	handlers []*Registration
	released bool
}

// Release removes the handlers of this shared informer, and stops the informer if it has no other
// user. It does not block; Done is closed when the informer has stopped. After Release, reads still
// return the stored objects. A second Release does nothing.
func (i *SharedInformer[T]) Release() {
	i.mu.Lock()
	handlers, released := i.handlers, i.released
	i.handlers, i.released = nil, true
	i.mu.Unlock()
	if released {
		return
	}
	for _, r := range handlers {
		r.Remove()
	}
	i.factory.release(i.key, i.shared, i)
}

// Done returns a channel that is closed when the informer has stopped.
func (i *SharedInformer[T]) Done() <-chan struct{} { return i.shared.done }

// Handle registers a handler like Informer.Handle. Release removes the handler. After Release,
// Handle returns ErrReleased.
func (i *SharedInformer[T]) Handle(h Handler[T], opts HandlerOptions[T]) (*Registration, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.released {
		return nil, fmt.Errorf("%s: %w", i.Name(), ErrReleased)
	}
	r, err := i.informer.Handle(h, opts)
	if err != nil {
		return nil, err
	}
	if len(i.handlers) == cap(i.handlers) { // before the slice grows
		i.handlers = slices.DeleteFunc(i.handlers, (*Registration).ended)
	}
	i.handlers = append(i.handlers, r)
	return r, nil
}

// AddIndex adds an index like Informer.AddIndex. If another user has added the same index, it does
// nothing and returns nil. The index remains after Release. After Release, AddIndex returns
// ErrReleased.
func (i *SharedInformer[T]) AddIndex(name string, ix Index) error {
	i.mu.Lock()
	released := i.released
	i.mu.Unlock()
	if released {
		return fmt.Errorf("%s: %w", i.Name(), ErrReleased)
	}
	return addIndexes(&i.informer, i.shared, map[string]Index{name: ix})
}
