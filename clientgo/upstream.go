package clientgo

import (
	"reflect"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/tools/cache"
)

// client-go's interfaces grow in almost every release, and use types that earlier releases lack.
// Therefore the types of this package embed values of client-go, which provide the methods that
// this package does not implement. TestUpstreamMethods lists these methods, and what each does.

// upstreamInformer is a client-go informer that never runs. It provides the methods of
// cache.SharedIndexInformer that informer lacks.
type upstreamInformer struct{ cache.SharedIndexInformer }

// upstreamController is the controller of an upstreamInformer.
type upstreamController struct{ cache.Controller }

// upstreamIndexer is the empty store of an upstreamInformer.
type upstreamIndexer struct{ cache.Indexer }

// syncChecker provides the method HasSyncedChecker, whose result type client-go has since v0.36.
// Its value is a DeltaFIFO: client-go has no other checker that another package can complete.
type syncChecker = cache.ResourceEventHandlerRegistration

// newSyncChecker returns a checker with the given name.
func newSyncChecker(name string) syncChecker {
	opts := cache.DeltaFIFOOptions{}
	if f := reflect.ValueOf(&opts).Elem().FieldByName("Name"); f.IsValid() { // since v0.36
		f.SetString(name)
	}
	return cache.NewDeltaFIFOWithOptions(opts)
}

// completeSync makes a checker done.
func completeSync(s syncChecker) { _ = s.(cache.Queue).Replace(nil, "") } // no object, so no error

// InformerName is the interface of *cache.InformerName, which client-go has since v0.36.
type InformerName interface {
	Name() string
	Release()
}

// namedFactory replaces the method InformerName of a factory. If N is *cache.InformerName, the type
// implements the interface of client-go since v0.36.
type namedFactory[N InformerName] struct {
	internalinterfaces.SharedInformerFactory
	name N
}

func (f namedFactory[N]) InformerName() N { return f.name }

type nameFactory func(internalinterfaces.SharedInformerFactory) internalinterfaces.SharedInformerFactory

func withName[N InformerName](name N) nameFactory {
	return func(f internalinterfaces.SharedInformerFactory) internalinterfaces.SharedInformerFactory {
		if named, ok := any(namedFactory[N]{f, name}).(internalinterfaces.SharedInformerFactory); ok {
			return named
		}
		return f // N is another type: generated code has no use for the name
	}
}

// publishedStore returns a store of client-go that publishes the resourceVersion that its method
// Bookmark receives as a metric of the named informers of a resource. It returns nil if name is
// nil.
func publishedStore(name InformerName, resource schema.GroupVersionResource) bookmarker {
	var opts cache.SharedIndexInformerOptions
	identifier := reflect.ValueOf(&opts).Elem().FieldByName("Identifier")
	if name == nil || !identifier.IsValid() {
		return nil
	}
	identifier.Set(reflect.ValueOf(name).MethodByName("WithResource").Call([]reflect.Value{reflect.ValueOf(resource)})[0])
	store, _ := cache.NewSharedIndexInformerWithOptions(&cache.ListWatch{}, nil, opts).GetIndexer().(bookmarker)
	return store
}

// bookmarker has the method of a client-go store that publishes a resourceVersion; see
// sink.published.
type bookmarker interface{ Bookmark(resourceVersion string) }
