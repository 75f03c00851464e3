package clientgo

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/store"
	"github.com/weirproject/weir/internal/wire"
)

// hand writes what somebody puts into an informer's store by hand: tests mostly, and controllers that remember what they have
// just written. It is held as it is, like in client-go, until the server has news of the object or a relist does not have
// it. Unlike in client-go, handlers are told.
type manualWrites struct {
	mu              sync.Mutex
	writer          *store.Writer // nil until the first write
	resourceVersion string        // of Replace or Bookmark
}

// Add puts an object into the store.
func (x *indexer) Add(obj any) error { return x.Update(obj) }

// Update puts an object into the store.
func (x *indexer) Update(obj any) error {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return cache.KeyError{Obj: obj, Err: err}
	}
	return x.write(func(w *store.Writer) error { return x.putManually(w, key, obj) })
}

// Delete takes an object out of the store, by its key.
func (x *indexer) Delete(obj any) error {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return cache.KeyError{Obj: obj, Err: err}
	}
	return x.write(func(w *store.Writer) error { return x.deleteManually(w, key) })
}

// Replace makes the store hold these objects and no others.
func (x *indexer) Replace(objects []any, resourceVersion string) error {
	keep := make(map[string]any, len(objects))
	for _, obj := range objects {
		key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
		if err != nil {
			return cache.KeyError{Obj: obj, Err: err}
		}
		keep[key] = obj
	}
	return x.write(func(w *store.Writer) error {
		for _, key := range x.ListKeys() {
			if _, ok := keep[key]; !ok {
				if err := x.deleteManually(w, key); err != nil {
					return err
				}
			}
		}
		for key, obj := range keep {
			if err := x.putManually(w, key, obj); err != nil {
				return err
			}
		}
		x.writes.resourceVersion = resourceVersion
		return nil
	})
}

// LastStoreSyncResourceVersion is the resourceVersion up to which everything is held.
func (x *indexer) LastStoreSyncResourceVersion() string {
	if rv := x.store.ResourceVersion(); rv != "" {
		return rv
	}
	x.writes.mu.Lock()
	defer x.writes.mu.Unlock()
	return x.writes.resourceVersion
}

// Bookmark notes a resourceVersion, which LastStoreSyncResourceVersion gives until the informer knows better.
func (x *indexer) Bookmark(rv string) {
	x.writes.mu.Lock()
	defer x.writes.mu.Unlock()
	x.writes.resourceVersion = rv
}

func (x *indexer) write(do func(*store.Writer) error) error {
	x.writes.mu.Lock()
	defer x.writes.mu.Unlock()
	if x.writes.writer == nil {
		x.writes.writer = x.store.ByHand(store.Scope{})
	}
	err := do(x.writes.writer)
	x.writes.writer.Flush()
	return err
}

func (x *indexer) putManually(w *store.Writer, key string, obj any) error {
	o, err := meta.Accessor(obj)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	m := &wire.Meta{
		Namespace: []byte(o.GetNamespace()), Name: []byte(o.GetName()),
		UID: []byte(o.GetUID()), ResourceVersion: []byte(o.GetResourceVersion()),
	}
	return w.PutValue(m, nil, obj)
}

func (x *indexer) deleteManually(w *store.Writer, key string) error {
	held, ok := x.store.Get(key)
	if !ok {
		return nil
	}
	return w.Delete(&wire.Meta{
		Namespace: []byte(held.Namespace()), Name: []byte(held.Name()),
		UID: []byte(held.UID()), ResourceVersion: []byte(held.ResourceVersion()),
	}, nil)
}
