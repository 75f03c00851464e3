package clientgo

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/dynamic/dynamiclister"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/metadata/metadatalister"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// NewDynamicSharedInformerFactory returns a factory like that of dynamicinformer.NewDynamicSharedInformerFactory, for the server that cfg
// names. It copies cfg. The error says what is wrong with cfg.
func NewDynamicSharedInformerFactory(cfg *rest.Config, resync time.Duration, opts ...Option) (dynamicinformer.DynamicSharedInformerFactory, error) {
	client, err := dynamic.NewForConfig(wrappedConfig(cfg))
	if err != nil {
		return nil, fmt.Errorf("clientgo: %w", err)
	}
	return NewDynamicSharedInformerFactoryWithOptions(client, resync, opts...), nil
}

// NewDynamicSharedInformerFactoryWithOptions takes the place of dynamicinformer.NewDynamicSharedInformerFactory. The client is one as for
// NewSharedInformerFactoryWithOptions. Where this package cannot take client-go's informers over it logs that, and the factory has
// client-go's.
func NewDynamicSharedInformerFactoryWithOptions(client dynamic.Interface, resync time.Duration, opts ...Option) dynamicinformer.DynamicSharedInformerFactory {
	s := settingsOf(opts)
	return newResourceFactory(s, func(gvr schema.GroupVersionResource) informers.GenericInformer {
		return dynamicinformer.NewFilteredDynamicInformer(client, gvr, s.namespace, resync, namespaceIndexers(), s.tweak)
	}, func(indexer cache.Indexer, gvr schema.GroupVersionResource) cache.GenericLister {
		return dynamiclister.NewRuntimeObjectShim(dynamiclister.New(indexer, gvr))
	})
}

// NewFilteredDynamicSharedInformerFactory takes the place of dynamicinformer.NewFilteredDynamicSharedInformerFactory, as
// NewDynamicSharedInformerFactoryWithOptions does of its own.
func NewFilteredDynamicSharedInformerFactory(client dynamic.Interface, resync time.Duration, namespace string, tweak dynamicinformer.TweakListOptionsFunc) dynamicinformer.DynamicSharedInformerFactory {
	return NewDynamicSharedInformerFactoryWithOptions(client, resync, WithNamespace(namespace), WithTweakListOptions(tweak))
}

// NewMetadataSharedInformerFactory returns a factory like that of metadatainformer.NewSharedInformerFactory, for the server that cfg
// names. It copies cfg. The error says what is wrong with cfg.
func NewMetadataSharedInformerFactory(cfg *rest.Config, resync time.Duration, opts ...Option) (metadatainformer.SharedInformerFactory, error) {
	client, err := metadata.NewForConfig(wrappedConfig(cfg))
	if err != nil {
		return nil, fmt.Errorf("clientgo: %w", err)
	}
	return NewMetadataSharedInformerFactoryWithOptions(client, resync, opts...), nil
}

// NewMetadataSharedInformerFactoryWithOptions takes the place of metadatainformer.NewSharedInformerFactoryWithOptions and, without
// options, of metadatainformer.NewSharedInformerFactory, as NewDynamicSharedInformerFactoryWithOptions does of its own.
func NewMetadataSharedInformerFactoryWithOptions(client metadata.Interface, resync time.Duration, opts ...Option) metadatainformer.SharedInformerFactory {
	s := settingsOf(opts)
	return newResourceFactory(s, func(gvr schema.GroupVersionResource) informers.GenericInformer {
		return metadatainformer.NewFilteredMetadataInformer(client, gvr, s.namespace, resync, namespaceIndexers(), s.tweak)
	}, func(indexer cache.Indexer, gvr schema.GroupVersionResource) cache.GenericLister {
		return metadatalister.NewRuntimeObjectShim(metadatalister.New(indexer, gvr))
	})
}

// NewFilteredMetadataSharedInformerFactory takes the place of metadatainformer.NewFilteredSharedInformerFactory, as
// NewDynamicSharedInformerFactoryWithOptions does of its own.
func NewFilteredMetadataSharedInformerFactory(client metadata.Interface, resync time.Duration, namespace string, tweak metadatainformer.TweakListOptionsFunc) metadatainformer.SharedInformerFactory {
	return NewMetadataSharedInformerFactoryWithOptions(client, resync, WithNamespace(namespace), WithTweakListOptions(tweak))
}

func namespaceIndexers() cache.Indexers {
	return cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
}

// byResource is a factory of informers that are told apart by their resource.
type resourceFactory struct {
	settings  settings
	build     func(schema.GroupVersionResource) informers.GenericInformer // client-go's
	lister    func(cache.Indexer, schema.GroupVersionResource) cache.GenericLister
	informers informerSet[schema.GroupVersionResource]
}

var (
	_ dynamicinformer.DynamicSharedInformerFactory = (*resourceFactory)(nil)
	_ metadatainformer.SharedInformerFactory       = (*resourceFactory)(nil)
)

func newResourceFactory(
	s settings,
	build func(schema.GroupVersionResource) informers.GenericInformer,
	lister func(cache.Indexer, schema.GroupVersionResource) cache.GenericLister,
) *resourceFactory {
	return &resourceFactory{settings: s, build: build, lister: lister, informers: newInformerSet[schema.GroupVersionResource]()}
}

// ForResource gives the informer of a resource. Whether the server knows it shows once it runs.
func (f *resourceFactory) ForResource(gvr schema.GroupVersionResource) informers.GenericInformer {
	inf := f.informers.get(gvr, func() cache.SharedIndexInformer {
		inf := f.settings.adopt(f.build(gvr).Informer())
		if i, err := informerOf(inf); err == nil {
			i.listWatch.matcher.resource = gvr // the example does not tell
		}
		if f.settings.transform != nil {
			_ = inf.SetTransform(f.settings.transform) // it fails only once an informer has started
		}
		return inf
	})
	return genericInformer{inf, f.lister(inf.GetIndexer(), gvr)}
}

// Start starts what was asked for until the channel is closed. It does not block.
func (f *resourceFactory) Start(stop <-chan struct{}) {
	f.informers.start(wait.ContextForChannel(stop))
}

// WaitForCacheSync blocks until all started informers have synced or the channel is closed, and tells which have.
func (f *resourceFactory) WaitForCacheSync(stop <-chan struct{}) map[schema.GroupVersionResource]bool {
	synced, _ := f.informers.waitForSync(wait.ContextForChannel(stop)) // the map says it all
	return synced
}

// Shutdown blocks until the informers have ended, which what they were started with must tell them to. Nothing can be
// started any more.
func (f *resourceFactory) Shutdown() { f.informers.shutdown() }
