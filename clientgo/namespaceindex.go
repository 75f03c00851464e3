package clientgo

import (
	"iter"
	"reflect"

	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/core/store"
)

// The namespace index, which every generated informer has, is not stored: the store is ordered by
// key, and keys start with the namespace. So this index uses no memory and decodes nothing.

var metaNamespaceIndex = reflect.ValueOf(cache.MetaNamespaceIndexFunc).Pointer()

// isNamespaceIndex reports whether an index function is cache.MetaNamespaceIndexFunc.
func isNamespaceIndex(fn cache.IndexFunc) bool {
	return fn != nil && reflect.ValueOf(fn).Pointer() == metaNamespaceIndex
}

// inNamespace returns the objects of a namespace; for "" those without one.
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

// namespacesOf returns the namespaces with objects, in order. It seeks from one to the next.
func namespacesOf(snap *store.Snapshot) []string {
	namespaces, from := []string{}, ""
	cluster := false
	for more := true; more; {
		more = false
		for o := range snap.From(from) {
			if o.Namespace() != "" {
				namespaces = append(namespaces, o.Namespace())
				from, more = o.Namespace()+"0", true // '0' follows '/'
				break
			}
			if !cluster {
				cluster = true
				namespaces = append(namespaces, "")
			}
		}
	}
	return namespaces
}
