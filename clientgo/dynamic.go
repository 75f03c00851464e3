package clientgo

import (
	"context"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/dynamic/dynamiclister"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/metadata/metadatalister"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/core/private"
)

// NewDynamicSharedInformerFactory replaces dynamicinformer.NewDynamicSharedInformerFactory. It
// captures responses like NewSharedInformerFactory, for a client of dynamic.NewForConfig. If this
// package cannot read the fields of client-go's informers (ErrLayout), it logs the reason, and the
// factory returns client-go's informers.
func NewDynamicSharedInformerFactory(client dynamic.Interface, resync time.Duration, opts ...Option) dynamicinformer.DynamicSharedInformerFactory {
	s := settingsOf(opts)
	client = withTransport(&s, client)
	theirs := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, resync, s.namespace, s.tweak)
	return newResourceFactory(theirs, s, func(gvr schema.GroupVersionResource) informers.GenericInformer {
		return dynamicinformer.NewFilteredDynamicInformer(client, gvr, s.namespace, resync, namespaceIndexers(), s.tweak)
	}, func(indexer cache.Indexer, gvr schema.GroupVersionResource) cache.GenericLister {
		return dynamiclister.NewRuntimeObjectShim(dynamiclister.New(indexer, gvr))
	})
}

// NewFilteredDynamicSharedInformerFactory replaces
// dynamicinformer.NewFilteredDynamicSharedInformerFactory. See NewDynamicSharedInformerFactory.
func NewFilteredDynamicSharedInformerFactory(client dynamic.Interface, resync time.Duration, namespace string, tweak dynamicinformer.TweakListOptionsFunc) dynamicinformer.DynamicSharedInformerFactory {
	return NewDynamicSharedInformerFactory(client, resync, WithNamespace(namespace), WithTweakListOptions(tweak))
}

// NewMetadataSharedInformerFactory replaces metadatainformer.NewSharedInformerFactory and
// metadatainformer.NewSharedInformerFactoryWithOptions. See NewDynamicSharedInformerFactory.
func NewMetadataSharedInformerFactory(client metadata.Interface, resync time.Duration, opts ...Option) metadatainformer.SharedInformerFactory {
	s := settingsOf(opts)
	client = withTransport(&s, client)
	theirs := metadatainformer.NewFilteredSharedInformerFactory(client, resync, s.namespace, s.tweak)
	return newResourceFactory(theirs, s, func(gvr schema.GroupVersionResource) informers.GenericInformer {
		return metadatainformer.NewFilteredMetadataInformer(client, gvr, s.namespace, resync, namespaceIndexers(), s.tweak)
	}, func(indexer cache.Indexer, gvr schema.GroupVersionResource) cache.GenericLister {
		return metadatalister.NewRuntimeObjectShim(metadatalister.New(indexer, gvr))
	})
}

// NewFilteredMetadataSharedInformerFactory replaces
// metadatainformer.NewFilteredSharedInformerFactory. See NewDynamicSharedInformerFactory.
func NewFilteredMetadataSharedInformerFactory(client metadata.Interface, resync time.Duration, namespace string, tweak metadatainformer.TweakListOptionsFunc) metadatainformer.SharedInformerFactory {
	return NewMetadataSharedInformerFactory(client, resync, WithNamespace(namespace), WithTweakListOptions(tweak))
}

func namespaceIndexers() cache.Indexers {
	return cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
}

// resourceFactory is a dynamic or a metadata factory. client-go's factory, which is embedded,
// stores, starts and stops the informers, because its methods have result types that earlier
// releases lack. ForResource puts Weir's informer into client-go's map in advance.
type resourceFactory struct {
	dynamicinformer.DynamicSharedInformerFactory
	settings settings
	build    func(schema.GroupVersionResource) informers.GenericInformer // builds client-go's informer
	lister   func(cache.Indexer, schema.GroupVersionResource) cache.GenericLister
	// informers is client-go's map, which lock guards. It is nil if the map cannot be read.
	informers map[schema.GroupVersionResource]informers.GenericInformer
	lock      *sync.Mutex
}

var _ metadatainformer.SharedInformerFactory = (*resourceFactory)(nil)

func newResourceFactory(theirs dynamicinformer.DynamicSharedInformerFactory, s settings, build func(schema.GroupVersionResource) informers.GenericInformer, lister func(cache.Indexer, schema.GroupVersionResource) cache.GenericLister) *resourceFactory {
	f := &resourceFactory{DynamicSharedInformerFactory: theirs, settings: s, build: build, lister: lister}
	if v := reflect.ValueOf(theirs).Elem(); layoutKnown() {
		if lock, ok := private.Field(v, "lock"); ok && readField(v, "informers", &f.informers) {
			f.lock = lock.Addr().Interface().(*sync.Mutex)
		}
	}
	return f
}

// StartWithContext is Start with a context.
func (f *resourceFactory) StartWithContext(ctx context.Context) {
	startWithContext(ctx, f.DynamicSharedInformerFactory)
}

// ForResource returns the informer of a resource. If the server does not serve the resource, Err
// returns an error for the informer when it runs.
func (f *resourceFactory) ForResource(gvr schema.GroupVersionResource) informers.GenericInformer {
	if f.informers == nil {
		theirs := f.DynamicSharedInformerFactory.ForResource(gvr)
		f.settings.setTransform(theirs.Informer())
		return theirs
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	if inf, ok := f.informers[gvr]; ok {
		return inf
	}
	// client-go uses the resource as the description of dynamic informers.
	inf := f.settings.adopt(f.build(gvr).Informer(), gvr.String())
	if i, err := informerOf(inf); err == nil {
		i.listWatch.matcher.resource = gvr // the example object does not contain the resource
	}
	generic := genericInformer{inf, f.lister(inf.GetIndexer(), gvr)}
	f.informers[gvr] = generic
	return generic
}
