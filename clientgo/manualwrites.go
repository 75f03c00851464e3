package clientgo

import (
	"fmt"
	"sync"

	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// manualWrites writes objects that a program adds to an informer's store itself. Some tests do
// this, and so do controllers that cache their own writes. As in client-go, such an object stays
// stored until the server sends a change of the object or a relist lacks it. Unlike in client-go,
// handlers receive such an object.
type manualWrites struct {
	mu              sync.Mutex
	writer          *store.Writer // nil before the first write
	resourceVersion string        // set by Replace and Bookmark
}

// Add stores obj. It returns an error if obj has no metadata or no name, or the informer has
// stopped.
func (x *indexer) Add(obj any) error { return x.Update(obj) }

// Update stores obj, like Add.
func (x *indexer) Update(obj any) error {
	_, m, err := manualMeta(obj)
	if err != nil {
		return err
	}
	return x.write(func(w *store.Writer) error { return w.PutValue(m, nil, obj) })
}

// Delete removes the object with obj's key. It does nothing if there is none.
func (x *indexer) Delete(obj any) error {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return cache.KeyError{Obj: obj, Err: err}
	}
	return x.write(func(w *store.Writer) error { return x.deleteManually(w, key) })
}

// Replace replaces all stored objects by the given objects. It changes nothing and returns an error
// if one of the given objects has no metadata or no name.
func (x *indexer) Replace(objects []any, resourceVersion string) error {
	type listed struct {
		meta   *wire.Meta
		object any
	}
	keep := make(map[string]listed, len(objects))
	for _, obj := range objects {
		key, m, err := manualMeta(obj)
		if err != nil {
			return err
		}
		keep[key] = listed{m, obj}
	}
	return x.write(func(w *store.Writer) error {
		for _, key := range x.ListKeys() {
			if _, ok := keep[key]; !ok {
				if err := x.deleteManually(w, key); err != nil {
					return err
				}
			}
		}
		for _, is := range keep {
			if err := w.PutValue(is.meta, nil, is.object); err != nil {
				return err
			}
		}
		x.writes.resourceVersion = resourceVersion
		return nil
	})
}

// LastStoreSyncResourceVersion returns the resourceVersion up to which the store is complete.
// Before the informer's first list, it is the version that Replace or Bookmark set.
func (x *indexer) LastStoreSyncResourceVersion() string {
	if rv := x.store.ResourceVersion(); rv != "" {
		return rv
	}
	x.writes.mu.Lock()
	defer x.writes.mu.Unlock()
	return x.writes.resourceVersion
}

// Bookmark sets the result of LastStoreSyncResourceVersion until the informer has received a
// resourceVersion from the server.
func (x *indexer) Bookmark(rv string) {
	x.writes.mu.Lock()
	defer x.writes.mu.Unlock()
	x.writes.resourceVersion = rv
}

func (x *indexer) write(do func(*store.Writer) error) error {
	x.writes.mu.Lock()
	defer x.writes.mu.Unlock()
	if x.writes.writer == nil {
		x.writes.writer = x.store.ManualWriter(store.Scope{})
	}
	err := do(x.writes.writer)
	x.writes.writer.Flush()
	return err
}

// manualMeta returns the key and the metadata of an object that a program writes. It returns an
// error if the object has no name or no metadata. A DeletedFinalStateUnknown has no metadata.
func manualMeta(obj any) (key string, m *wire.Meta, err error) {
	if key, err = cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err != nil {
		return "", nil, cache.KeyError{Obj: obj, Err: err}
	}
	m = new(wire.Meta)
	if err = wire.ReadMetaOf(obj, m); err == nil && len(m.Name) == 0 {
		err = store.ErrNoName
	}
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", key, err)
	}
	return key, m, nil
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
