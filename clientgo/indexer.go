package clientgo

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/core/store"
)

// indexer is an informer's cache.Indexer. The objects that it returns are shared and read-only
// unless Options.PrivateCopies is set. Each returned list is a consistent snapshot; lists of an
// index are in key order. All methods are safe for concurrent use.
type indexer struct {
	cache.Indexer // the empty store of the upstreamInformer

	store  *store.Store
	reader *reader
	writes manualWrites

	mu       sync.RWMutex
	indexers cache.Indexers
}

var _ cache.Indexer = (*indexer)(nil)

// Get returns the stored object with obj's key.
func (x *indexer) Get(obj any) (item any, exists bool, err error) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return nil, false, cache.KeyError{Obj: obj, Err: err}
	}
	return x.GetByKey(key)
}

// GetByKey returns the object with a key. It returns an error if the object cannot be decoded.
func (x *indexer) GetByKey(key string) (item any, exists bool, err error) {
	o, ok := x.store.Get(key)
	if !ok {
		return nil, false, nil
	}
	item, err = x.reader.value(o)
	return item, err == nil, err
}

// List returns all objects, in no order. It logs and omits objects that cannot be decoded.
func (x *indexer) List() []any {
	if !x.reader.private && x.reader.mutationDetector == nil {
		return x.store.List(utilruntime.HandleError)
	}
	snap := x.store.Snapshot()
	return x.decodeAll(snap.All(), snap.Len())
}

// ListKeys returns all keys in ascending order. It decodes nothing.
func (x *indexer) ListKeys() []string {
	snap := x.store.Snapshot()
	return keysOf(snap.All(), snap.Len())
}

// decodeAll returns the decoded objects. It logs and omits objects that cannot be decoded.
func (x *indexer) decodeAll(objects iter.Seq[*store.Object], n int) []any {
	values := make([]any, 0, n)
	for o := range objects {
		value, err := x.reader.value(o)
		if err != nil {
			utilruntime.HandleError(err)
			continue
		}
		values = append(values, value)
	}
	return values
}

func keysOf(objects iter.Seq[*store.Object], n int) []string {
	keys := make([]string, 0, n)
	for o := range objects {
		keys = append(keys, o.Key())
	}
	return keys
}

// GetIndexers returns a copy of the map of index functions.
func (x *indexer) GetIndexers() cache.Indexers {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return maps.Clone(x.indexers)
}

// AddIndexers adds newIndexers. If one of the names is in use, it adds none and returns an error.
// Objects that are already stored are indexed when a caller first reads the index.
func (x *indexer) AddIndexers(newIndexers cache.Indexers) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(newIndexers)) {
		if _, ok := x.indexers[name]; ok {
			return fmt.Errorf("indexer conflict: %q exists", name)
		}
	}
	for name, fn := range newIndexers {
		if !isNamespaceIndex(fn) {
			if err := x.store.AddIndex(name, store.FuncIndex(fn)); err != nil {
				return fmt.Errorf("indexer %q: %w", name, err)
			}
		}
		x.indexers[name] = fn
	}
	return nil
}

// Index returns the objects that have an index value in common with obj, in key order.
func (x *indexer) Index(indexName string, obj any) ([]any, error) {
	fn, err := x.indexFunc(indexName)
	if err != nil {
		return nil, err
	}
	values, err := fn(obj)
	if err != nil {
		return nil, err
	}
	objects, err := x.lookup(indexName, values...)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(objects, func(a, b *store.Object) int { return strings.Compare(a.Key(), b.Key()) })
	objects = slices.Compact(objects) // one snapshot has one version per key
	return x.decodeAll(slices.Values(objects), len(objects)), nil
}

// ByIndex returns the objects with an index value, in key order.
func (x *indexer) ByIndex(indexName, indexedValue string) ([]any, error) {
	objects, err := x.lookup(indexName, indexedValue)
	if err != nil {
		return nil, err
	}
	return x.decodeAll(slices.Values(objects), len(objects)), nil
}

// IndexKeys returns the keys of the objects with an index value, in ascending order. It decodes
// only objects that are not indexed yet.
func (x *indexer) IndexKeys(indexName, indexedValue string) ([]string, error) {
	objects, err := x.lookup(indexName, indexedValue)
	if err != nil {
		return nil, err
	}
	return keysOf(slices.Values(objects), len(objects)), nil
}

// ListIndexFuncValues returns the values of an index in ascending order. For an unknown index it
// returns an empty list.
func (x *indexer) ListIndexFuncValues(indexName string) []string {
	fn, err := x.indexFunc(indexName)
	if err != nil {
		return []string{}
	}
	snap := x.store.Snapshot()
	if !isNamespaceIndex(fn) {
		return slices.AppendSeq([]string{}, snap.Values(indexName))
	}
	namespaces := map[string]bool{}
	for o := range snap.All() {
		namespaces[o.Namespace()] = true
	}
	return slices.Sorted(maps.Keys(namespaces))
}

func (x *indexer) indexFunc(name string) (cache.IndexFunc, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	fn, ok := x.indexers[name]
	if !ok {
		// This is client-go's text; callers may compare it.
		return nil, fmt.Errorf("Index with name %s does not exist", name)
	}
	return fn, nil
}

// lookup returns the objects of one snapshot that have at least one of the index values. An
// object that has several of the values occurs several times.
func (x *indexer) lookup(name string, values ...string) (objects []*store.Object, err error) {
	fn, err := x.indexFunc(name)
	if err != nil {
		return nil, err
	}
	if !isNamespaceIndex(fn) {
		return x.store.AppendBy(nil, name, values...)
	}
	snap := x.store.Snapshot()
	for _, value := range values {
		objects = slices.AppendSeq(objects, inNamespace(snap, value))
	}
	return objects, nil
}

// Resync does nothing, as in client-go.
func (x *indexer) Resync() error { return nil }

// metaNamespaceIndex identifies the namespace index, which every generated informer has. This
// package does not store that index: the store is ordered by key, and keys start with the
// namespace.
var metaNamespaceIndex = reflect.ValueOf(cache.MetaNamespaceIndexFunc).Pointer()

// isNamespaceIndex reports whether an index function is cache.MetaNamespaceIndexFunc.
func isNamespaceIndex(fn cache.IndexFunc) bool {
	return fn != nil && reflect.ValueOf(fn).Pointer() == metaNamespaceIndex
}

// inNamespace returns the objects of a namespace. For "" it returns the objects without a
// namespace.
func inNamespace(snap *store.Snapshot, namespace string) iter.Seq[*store.Object] {
	if namespace != "" {
		return snap.Namespace(namespace)
	}
	return func(yield func(*store.Object) bool) {
		for o := range snap.All() {
			if o.Namespace() == "" && !yield(o) {
				return
			}
		}
	}
}
