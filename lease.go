package weir

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
)

// Lease is one user's hold on an informer that a factory shares and runs. It has the informer's
// methods, but for Run. Its methods are safe for concurrent use. It keeps its handlers, and at most
// as many again that have been removed; Release frees them.
type Lease[T Object] struct {
	informer *Informer[T]
	factory  *Factory
	key      shareKey
	shared   *shared

	mu       sync.Mutex
	handlers []*Registration
	released bool
}

// Release ends this use: the lease's handlers are removed, and the informer stops if this was its
// last user. It does not block; Done tells when the informer has ended. Reads go on to work on what
// is held. Releasing again does nothing.
func (l *Lease[T]) Release() {
	l.mu.Lock()
	handlers, released := l.handlers, l.released
	l.handlers, l.released = nil, true
	l.mu.Unlock()
	if released {
		return
	}
	for _, r := range handlers {
		r.Remove()
	}
	l.factory.release(l.key, l.shared, l)
}

// Done returns a channel that is closed when the informer has ended.
func (l *Lease[T]) Done() <-chan struct{} { return l.shared.done }

// Handle registers a handler, as Informer.Handle; it is removed with the lease. It returns
// ErrReleased after Release.
func (l *Lease[T]) Handle(h Handler[T], opts HandlerOptions[T]) (*Registration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return nil, fmt.Errorf("%s: lease: %w", l.Name(), ErrReleased)
	}
	r, err := l.informer.Handle(h, opts)
	if err != nil {
		return nil, err
	}
	if len(l.handlers) == cap(l.handlers) { // before it grows
		l.handlers = slices.DeleteFunc(l.handlers, (*Registration).ended)
	}
	l.handlers = append(l.handlers, r)
	return r, nil
}

// AddIndex adds an index, as Informer.AddIndex, unless another user has added the same one. It
// stays when the lease is released. It returns ErrReleased after Release.
func (l *Lease[T]) AddIndex(name string, ix Index) error {
	l.mu.Lock()
	released := l.released
	l.mu.Unlock()
	if released {
		return fmt.Errorf("%s: lease: %w", l.Name(), ErrReleased)
	}
	return addIndexes(l.informer, l.shared, map[string]Index{name: ix})
}

// Name returns the informer's name, as Informer.Name.
func (l *Lease[T]) Name() string { return l.informer.Name() }

// Encoding returns how the objects' bytes are encoded, as Informer.Encoding.
func (l *Lease[T]) Encoding() Encoding { return l.informer.Encoding() }

// WaitForSync blocks until the informer has synced, as Informer.WaitForSync.
func (l *Lease[T]) WaitForSync(ctx context.Context) error { return l.informer.WaitForSync(ctx) }

// HasSynced reports whether the informer has synced, as Informer.HasSynced.
func (l *Lease[T]) HasSynced() bool { return l.informer.HasSynced() }

// WaitForResourceVersion blocks until the informer is at a resourceVersion, as
// Informer.WaitForResourceVersion.
func (l *Lease[T]) WaitForResourceVersion(ctx context.Context, resourceVersion string) error {
	return l.informer.WaitForResourceVersion(ctx, resourceVersion)
}

// Err returns why the informer is not current, as Informer.Err.
func (l *Lease[T]) Err() error { return l.informer.Err() }

// WaitForErr blocks until Err is not nil and returns it, as Informer.WaitForErr. If the informer is
// stopped first, with its last lease or its factory, the error wraps ErrStopped.
func (l *Lease[T]) WaitForErr(ctx context.Context) error { return l.informer.WaitForErr(ctx) }

// Status returns the state of each of the informer's reflectors, as Informer.Status.
func (l *Lease[T]) Status() []Status { return l.informer.Status() }

// Stats returns the informer's counts and sizes, as Informer.Stats. Its handlers are those of all
// users.
func (l *Lease[T]) Stats() Stats { return l.informer.Stats() }

// Snapshot returns what the informer holds now.
func (l *Lease[T]) Snapshot() Snapshot[T] { return l.informer.Snapshot() }

// Get decodes and returns one object, as Informer.Get.
func (l *Lease[T]) Get(key string) (T, error) { return l.informer.Get(key) }

// Item returns one object and whether it is held, as Informer.Item.
func (l *Lease[T]) Item(key string) (Item[T], bool) { return l.informer.Item(key) }

// Len returns how many objects are held.
func (l *Lease[T]) Len() int { return l.informer.Len() }

// ResourceVersion returns one up to which everything is held, as Informer.ResourceVersion.
func (l *Lease[T]) ResourceVersion() string { return l.informer.ResourceVersion() }

// All reads every object of one snapshot, as Snapshot.All.
func (l *Lease[T]) All() iter.Seq2[T, error] { return l.informer.All() }

// In reads the objects of one namespace in one snapshot, as Snapshot.In.
func (l *Lease[T]) In(namespace string) iter.Seq2[T, error] { return l.informer.In(namespace) }

// By reads the objects that an index has under a value in one snapshot, as Snapshot.By.
func (l *Lease[T]) By(index, value string) iter.Seq2[T, error] { return l.informer.By(index, value) }

// Items reads every object of one snapshot and decodes none, as Snapshot.Items.
func (l *Lease[T]) Items() iter.Seq[Item[T]] { return l.informer.Items() }

// ItemsIn reads the objects of one namespace in one snapshot and decodes none, as Snapshot.ItemsIn.
func (l *Lease[T]) ItemsIn(namespace string) iter.Seq[Item[T]] { return l.informer.ItemsIn(namespace) }

// ItemsBy reads the objects that an index has under a value in one snapshot and decodes none, as
// Snapshot.ItemsBy.
func (l *Lease[T]) ItemsBy(index, value string) iter.Seq2[Item[T], error] {
	return l.informer.ItemsBy(index, value)
}
