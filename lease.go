package weir

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
)

// Lease is one user's share of an informer that a factory runs. It has the informer's methods,
// except Run. Its methods are safe for concurrent use. It keeps its handlers and up to the same
// number of removed ones; Release frees them.
type Lease[T Object] struct {
	informer *Informer[T]
	factory  *Factory
	key      shareKey
	shared   *shared

	mu       sync.Mutex
	handlers []*Registration
	released bool
}

// Release removes the lease's handlers, and stops the informer if this was its last user. It does
// not block; Done is closed when the informer has ended. Reads still return the cached objects. A
// second Release does nothing.
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

// Handle registers a handler like Informer.Handle. Release removes it. Handle returns ErrReleased
// after Release.
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

// AddIndex adds an index like Informer.AddIndex, unless another user has added the same one. The
// index remains after Release. AddIndex returns ErrReleased after Release.
func (l *Lease[T]) AddIndex(name string, ix Index) error {
	l.mu.Lock()
	released := l.released
	l.mu.Unlock()
	if released {
		return fmt.Errorf("%s: lease: %w", l.Name(), ErrReleased)
	}
	return addIndexes(l.informer, l.shared, map[string]Index{name: ix})
}

// Name returns the informer's name, see Informer.Name.
func (l *Lease[T]) Name() string { return l.informer.Name() }

// Encoding returns the encoding of the objects' bytes, see Informer.Encoding.
func (l *Lease[T]) Encoding() Encoding { return l.informer.Encoding() }

// WaitForSync blocks until the informer has synced, see Informer.WaitForSync.
func (l *Lease[T]) WaitForSync(ctx context.Context) error { return l.informer.WaitForSync(ctx) }

// HasSynced reports whether the informer has synced, see Informer.HasSynced.
func (l *Lease[T]) HasSynced() bool { return l.informer.HasSynced() }

// WaitForResourceVersion blocks until the informer has reached a resourceVersion, see
// Informer.WaitForResourceVersion.
func (l *Lease[T]) WaitForResourceVersion(ctx context.Context, resourceVersion string) error {
	return l.informer.WaitForResourceVersion(ctx, resourceVersion)
}

// Err returns why the informer is not current, see Informer.Err.
func (l *Lease[T]) Err() error { return l.informer.Err() }

// WaitForErr blocks until Err is not nil and returns it, see Informer.WaitForErr. If the informer
// is stopped first, because its last lease was released or its factory shut down, the error wraps
// ErrStopped.
func (l *Lease[T]) WaitForErr(ctx context.Context) error { return l.informer.WaitForErr(ctx) }

// Status returns the state of each of the informer's reflectors, see Informer.Status.
func (l *Lease[T]) Status() []Status { return l.informer.Status() }

// Stats returns the informer's counts and sizes, see Informer.Stats. It includes the handlers of
// all users.
func (l *Lease[T]) Stats() Stats { return l.informer.Stats() }

// Snapshot returns the objects that the informer stores now.
func (l *Lease[T]) Snapshot() Snapshot[T] { return l.informer.Snapshot() }

// Get decodes and returns one object, see Informer.Get.
func (l *Lease[T]) Get(key string) (T, error) { return l.informer.Get(key) }

// Item returns one object and whether the informer stores it, see Informer.Item.
func (l *Lease[T]) Item(key string) (Item[T], bool) { return l.informer.Item(key) }

// Len returns the number of stored objects.
func (l *Lease[T]) Len() int { return l.informer.Len() }

// ResourceVersion returns a version up to which the informer has received everything, see
// Informer.ResourceVersion.
func (l *Lease[T]) ResourceVersion() string { return l.informer.ResourceVersion() }

// All reads every object of one snapshot, see Snapshot.All.
func (l *Lease[T]) All() iter.Seq2[T, error] { return l.informer.All() }

// In reads the objects of one namespace in one snapshot, see Snapshot.In.
func (l *Lease[T]) In(namespace string) iter.Seq2[T, error] { return l.informer.In(namespace) }

// By reads the objects under a value of an index in one snapshot, see Snapshot.By.
func (l *Lease[T]) By(index, value string) iter.Seq2[T, error] { return l.informer.By(index, value) }

// Items reads every object of one snapshot without decoding it, see Snapshot.Items.
func (l *Lease[T]) Items() iter.Seq[Item[T]] { return l.informer.Items() }

// ItemsIn reads the objects of one namespace in one snapshot without decoding them, see
// Snapshot.ItemsIn.
func (l *Lease[T]) ItemsIn(namespace string) iter.Seq[Item[T]] { return l.informer.ItemsIn(namespace) }

// ItemsBy reads the objects under a value of an index in one snapshot without decoding them, see
// Snapshot.ItemsBy.
func (l *Lease[T]) ItemsBy(index, value string) iter.Seq2[Item[T], error] {
	return l.informer.ItemsBy(index, value)
}
