package weir

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
)

// SharedInformer is one user's share of an informer that a factory runs. It has the informer's
// methods, except Run. Its methods are safe for concurrent use. It keeps its handlers and up to the
// same number of removed ones; Release frees them.
type SharedInformer[T Object] struct {
	informer *Informer[T]
	factory  *Factory
	key      shareKey
	shared   *shared

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
	return addIndexes(i.informer, i.shared, map[string]Index{name: ix})
}

// Name returns the informer's name, see Informer.Name.
func (i *SharedInformer[T]) Name() string { return i.informer.Name() }

// Encoding returns the encoding of the objects' bytes, see Informer.Encoding.
func (i *SharedInformer[T]) Encoding() Encoding { return i.informer.Encoding() }

// WaitForSync blocks until the informer has synced, see Informer.WaitForSync.
func (i *SharedInformer[T]) WaitForSync(ctx context.Context) error {
	return i.informer.WaitForSync(ctx)
}

// HasSynced reports whether the informer has synced, see Informer.HasSynced.
func (i *SharedInformer[T]) HasSynced() bool { return i.informer.HasSynced() }

// WaitForResourceVersion blocks until the informer has reached a resourceVersion, see
// Informer.WaitForResourceVersion.
func (i *SharedInformer[T]) WaitForResourceVersion(ctx context.Context, resourceVersion string) error {
	return i.informer.WaitForResourceVersion(ctx, resourceVersion)
}

// Err returns why the informer is not current, see Informer.Err.
func (i *SharedInformer[T]) Err() error { return i.informer.Err() }

// WaitForErr blocks until Err is not nil and returns it, see Informer.WaitForErr. If the informer
// is stopped first, because its last user released it or its factory shut down, the error wraps
// ErrStopped.
func (i *SharedInformer[T]) WaitForErr(ctx context.Context) error { return i.informer.WaitForErr(ctx) }

// Status returns the state of each of the informer's reflectors, see Informer.Status.
func (i *SharedInformer[T]) Status() []Status { return i.informer.Status() }

// Stats returns the informer's counts and sizes, see Informer.Stats. It includes the handlers of
// all users.
func (i *SharedInformer[T]) Stats() Stats { return i.informer.Stats() }

// Snapshot returns the objects that the informer stores now.
func (i *SharedInformer[T]) Snapshot() Snapshot[T] { return i.informer.Snapshot() }

// Get decodes and returns one object, see Informer.Get.
func (i *SharedInformer[T]) Get(key string) (T, error) { return i.informer.Get(key) }

// Item returns one object and whether the informer stores it, see Informer.Item.
func (i *SharedInformer[T]) Item(key string) (Item[T], bool) { return i.informer.Item(key) }

// Len returns the number of stored objects.
func (i *SharedInformer[T]) Len() int { return i.informer.Len() }

// ResourceVersion returns a version up to which the informer has received everything, see
// Informer.ResourceVersion.
func (i *SharedInformer[T]) ResourceVersion() string { return i.informer.ResourceVersion() }

// All reads every object of one snapshot, see Snapshot.All.
func (i *SharedInformer[T]) All() iter.Seq2[T, error] { return i.informer.All() }

// In reads the objects of one namespace in one snapshot, see Snapshot.In.
func (i *SharedInformer[T]) In(namespace string) iter.Seq2[T, error] { return i.informer.In(namespace) }

// By reads the objects under a value of an index in one snapshot, see Snapshot.By.
func (i *SharedInformer[T]) By(index, value string) iter.Seq2[T, error] {
	return i.informer.By(index, value)
}

// Items reads every object of one snapshot without decoding it, see Snapshot.Items.
func (i *SharedInformer[T]) Items() iter.Seq[Item[T]] { return i.informer.Items() }

// ItemsIn reads the objects of one namespace in one snapshot without decoding them, see
// Snapshot.ItemsIn.
func (i *SharedInformer[T]) ItemsIn(namespace string) iter.Seq[Item[T]] {
	return i.informer.ItemsIn(namespace)
}

// ItemsBy reads the objects under a value of an index in one snapshot without decoding them, see
// Snapshot.ItemsBy.
func (i *SharedInformer[T]) ItemsBy(index, value string) iter.Seq2[Item[T], error] {
	return i.informer.ItemsBy(index, value)
}
