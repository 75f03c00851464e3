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

// NewDynamicSharedInformerFactory returns a factory like
// dynamicinformer.NewDynamicSharedInformerFactory's for the server that cfg names. It copies cfg.
// It returns an error if cfg is invalid.
func NewDynamicSharedInformerFactory(cfg *rest.Config, resync time.Duration, opts ...Option) (dynamicinformer.DynamicSharedInformerFactory, error) {
	cfg, err := wrappedConfig(cfg)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("clientgo: %w", err)
	}
	return NewDynamicSharedInformerFactoryWithOptions(client, resync, opts...), nil
}

// NewDynamicSharedInformerFactoryWithOptions replaces
// dynamicinformer.NewDynamicSharedInformerFactory. Build the client from a config that Wrap was
// called on; see NewSharedInformerFactoryWithOptions. If client-go's informers cannot be adopted,
// it logs that, and the factory returns client-go's.
func NewDynamicSharedInformerFactoryWithOptions(client dynamic.Interface, resync time.Duration, opts ...Option) dynamicinformer.DynamicSharedInformerFactory {
	s := settingsOf(opts)
	return newResourceFactory(s, func(gvr schema.GroupVersionResource) informers.GenericInformer {
		return dynamicinformer.NewFilteredDynamicInformer(client, gvr, s.namespace, resync, namespaceIndexers(), s.tweak)
	}, func(indexer cache.Indexer, gvr schema.GroupVersionResource) cache.GenericLister {
		return dynamiclister.NewRuntimeObjectShim(dynamiclister.New(indexer, gvr))
	})
}

// NewFilteredDynamicSharedInformerFactory replaces
// dynamicinformer.NewFilteredDynamicSharedInformerFactory. See
// NewDynamicSharedInformerFactoryWithOptions.
func NewFilteredDynamicSharedInformerFactory(client dynamic.Interface, resync time.Duration, namespace string, tweak dynamicinformer.TweakListOptionsFunc) dynamicinformer.DynamicSharedInformerFactory {
	return NewDynamicSharedInformerFactoryWithOptions(client, resync, WithNamespace(namespace), WithTweakListOptions(tweak))
}

// NewMetadataSharedInformerFactory returns a factory like
// metadatainformer.NewSharedInformerFactory's for the server that cfg names. It copies cfg. It
// returns an error if cfg is invalid.
func NewMetadataSharedInformerFactory(cfg *rest.Config, resync time.Duration, opts ...Option) (metadatainformer.SharedInformerFactory, error) {
	cfg, err := wrappedConfig(cfg)
	if err != nil {
		return nil, err
	}
	client, err := metadata.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("clientgo: %w", err)
	}
	return NewMetadataSharedInformerFactoryWithOptions(client, resync, opts...), nil
}

// NewMetadataSharedInformerFactoryWithOptions replaces
// metadatainformer.NewSharedInformerFactoryWithOptions and
// metadatainformer.NewSharedInformerFactory. See NewDynamicSharedInformerFactoryWithOptions.
func NewMetadataSharedInformerFactoryWithOptions(client metadata.Interface, resync time.Duration, opts ...Option) metadatainformer.SharedInformerFactory {
	s := settingsOf(opts)
	return newResourceFactory(s, func(gvr schema.GroupVersionResource) informers.GenericInformer {
		return metadatainformer.NewFilteredMetadataInformer(client, gvr, s.namespace, resync, namespaceIndexers(), s.tweak)
	}, func(indexer cache.Indexer, gvr schema.GroupVersionResource) cache.GenericLister {
		return metadatalister.NewRuntimeObjectShim(metadatalister.New(indexer, gvr))
	})
}

// NewFilteredMetadataSharedInformerFactory replaces
// metadatainformer.NewFilteredSharedInformerFactory. See
// NewDynamicSharedInformerFactoryWithOptions.
func NewFilteredMetadataSharedInformerFactory(client metadata.Interface, resync time.Duration, namespace string, tweak metadatainformer.TweakListOptionsFunc) metadatainformer.SharedInformerFactory {
	return NewMetadataSharedInformerFactoryWithOptions(client, resync, WithNamespace(namespace), WithTweakListOptions(tweak))
}

func namespaceIndexers() cache.Indexers {
	return cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
}

// resourceFactory has one informer per resource. It implements the dynamic and the metadata
// factory.
type resourceFactory struct {
	settings settings
	// build builds client-go's informer.
	build     func(schema.GroupVersionResource) informers.GenericInformer
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

// ForResource returns the informer of a resource. If the server does not know the resource, the
// running informer's Err returns an error.
func (f *resourceFactory) ForResource(gvr schema.GroupVersionResource) informers.GenericInformer {
	inf := f.informers.get(gvr, func() cache.SharedIndexInformer {
		// client-go describes dynamic informers by their resource.
		inf := f.settings.adopt(f.build(gvr).Informer(), gvr.String())
		if i, err := informerOf(inf); err == nil {
			i.listWatch.matcher.resource = gvr // the example does not state it
		}
		if f.settings.transform != nil {
			_ = inf.SetTransform(f.settings.transform) // fails only if the informer has started
		}
		return inf
	})
	return genericInformer{inf, f.lister(inf.GetIndexer(), gvr)}
}

// Start runs the requested informers until the channel is closed. It does not block.
func (f *resourceFactory) Start(stop <-chan struct{}) {
	f.informers.start(wait.ContextForChannel(stop))
}

// WaitForCacheSync blocks until all started informers have synced or the channel is closed, and
// reports which have.
func (f *resourceFactory) WaitForCacheSync(stop <-chan struct{}) map[schema.GroupVersionResource]bool {
	// The map shows which informers have not synced.
	synced, _ := f.informers.waitForSync(wait.ContextForChannel(stop))
	return synced
}

// Shutdown blocks until the informers have ended. The caller must close the channel that they were
// started with. No informer can be started afterwards.
func (f *resourceFactory) Shutdown() { f.informers.shutdown() }
