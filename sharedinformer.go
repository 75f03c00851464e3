package weir

import (
	"fmt"
	"slices"
	"sync"
)

// SharedInformer is one user's share of an informer that a factory runs. It has the methods of
// Informer, except Run. The informer stops when its last user releases it or its factory shuts
// down. Stats includes the handlers of all users. Its methods are safe for concurrent use. It keeps
// its handlers and up to the same number of removed ones; Release frees them.
type SharedInformer[T Object] struct {
	informer[T]
	factory *Factory
	key     shareKey
	shared  *shared

	mu       sync.Mutex
	handlers []*Registration
	released bool
}

// Release removes the shared informer's handlers, and stops the informer if this was its last user.
// It does not block; Done is closed when the informer has ended. Reads still return the cached
// objects. A second Release does nothing.
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

// Done returns a channel that is closed when the informer has ended.
func (i *SharedInformer[T]) Done() <-chan struct{} { return i.shared.done }

// Handle registers a handler like Informer.Handle. Release removes it. Handle returns ErrReleased
// after Release.
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
	if len(i.handlers) == cap(i.handlers) { // before it grows
		i.handlers = slices.DeleteFunc(i.handlers, (*Registration).ended)
	}
	i.handlers = append(i.handlers, r)
	return r, nil
}

// AddIndex adds an index like Informer.AddIndex, unless another user has added the same one. The
// index remains after Release. AddIndex returns ErrReleased after Release.
func (i *SharedInformer[T]) AddIndex(name string, ix Index) error {
	i.mu.Lock()
	released := i.released
	i.mu.Unlock()
	if released {
		return fmt.Errorf("%s: %w", i.Name(), ErrReleased)
	}
	return addIndexes(&i.informer, i.shared, map[string]Index{name: ix})
}
