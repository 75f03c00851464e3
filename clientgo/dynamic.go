package clientgo

import (
	"context"
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"

	"github.com/weirproject/weir/internal/core/private"
)

// NewDynamicSharedInformerFactory replaces dynamicinformer.NewDynamicSharedInformerFactory. It
// captures responses like NewSharedInformerFactory, for a client of dynamic.NewForConfig. If this
// package cannot read the fields of client-go's informers (ErrLayout), it logs the reason, and the
// factory returns client-go's informers.
func NewDynamicSharedInformerFactory(client dynamic.Interface, resync time.Duration, opts ...Option) dynamicinformer.DynamicSharedInformerFactory {
	return newResourceFactory(dynamicinformer.NewFilteredDynamicSharedInformerFactory, client, resync, opts)
}

// NewFilteredDynamicSharedInformerFactory replaces
// dynamicinformer.NewFilteredDynamicSharedInformerFactory. See NewDynamicSharedInformerFactory.
func NewFilteredDynamicSharedInformerFactory(client dynamic.Interface, resync time.Duration, namespace string, tweak dynamicinformer.TweakListOptionsFunc) dynamicinformer.DynamicSharedInformerFactory {
	return NewDynamicSharedInformerFactory(client, resync, WithNamespace(namespace), WithTweakListOptions(tweak))
}

// NewMetadataSharedInformerFactory replaces metadatainformer.NewSharedInformerFactory and
// metadatainformer.NewSharedInformerFactoryWithOptions. See NewDynamicSharedInformerFactory.
func NewMetadataSharedInformerFactory(client metadata.Interface, resync time.Duration, opts ...Option) metadatainformer.SharedInformerFactory {
	return newResourceFactory(metadatainformer.NewFilteredSharedInformerFactory, client, resync, opts)
}

// NewFilteredMetadataSharedInformerFactory replaces
// metadatainformer.NewFilteredSharedInformerFactory. See NewDynamicSharedInformerFactory.
func NewFilteredMetadataSharedInformerFactory(client metadata.Interface, resync time.Duration, namespace string, tweak metadatainformer.TweakListOptionsFunc) metadatainformer.SharedInformerFactory {
	return NewMetadataSharedInformerFactory(client, resync, WithNamespace(namespace), WithTweakListOptions(tweak))
}

// resourceFactory is a dynamic or a metadata factory. client-go's factory, which is embedded,
// builds, stores, starts and stops the informers, because its methods have result types that
// earlier releases lack. ForResource replaces the informer in client-go's generic informer.
type resourceFactory struct {
	dynamicinformer.DynamicSharedInformerFactory
	settings settings

	mu      sync.Mutex // so that the factory starts no informer that ForResource replaces
	adopted map[schema.GroupVersionResource]bool
}

func newResourceFactory[C any, T ~func(*metav1.ListOptions), F dynamicinformer.DynamicSharedInformerFactory](
	theirs func(C, time.Duration, string, T) F, client C, resync time.Duration, opts []Option,
) *resourceFactory {
	s := settingsOf(opts)
	client = withTransport(&s, client)
	return &resourceFactory{DynamicSharedInformerFactory: theirs(client, resync, s.namespace, s.tweak), settings: s, adopted: map[schema.GroupVersionResource]bool{}}
}

// Start starts the informers that the program has requested and that do not run yet. They run until
// the channel is closed. Start does not block.
func (f *resourceFactory) Start(stop <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.DynamicSharedInformerFactory.Start(stop)
}

// StartWithContext is Start with a context.
func (f *resourceFactory) StartWithContext(ctx context.Context) {
	if later, ok := f.DynamicSharedInformerFactory.(interface{ StartWithContext(context.Context) }); ok {
		f.mu.Lock()
		defer f.mu.Unlock()
		later.StartWithContext(ctx)
		return
	}
	f.Start(ctx.Done()) // an older client-go
}

// ForResource returns the informer of a resource. If the server does not serve the resource, Err
// returns an error for the informer when it runs.
func (f *resourceFactory) ForResource(gvr schema.GroupVersionResource) informers.GenericInformer {
	f.mu.Lock()
	defer f.mu.Unlock()
	generic := f.DynamicSharedInformerFactory.ForResource(gvr)
	if f.adopted[gvr] {
		return generic
	}
	f.adopted[gvr] = true
	inf, ok := private.Field(reflect.ValueOf(generic).Elem(), "informer")
	if !ok {
		f.settings.setTransform(generic.Informer())
		reportShard(generic.Informer(), &f.settings.informer)
		return generic
	}
	// client-go uses the resource as the description of dynamic informers.
	ours := f.settings.adopt(generic.Informer(), gvr.String())
	if i, err := informerOf(ours); err == nil {
		i.listWatch.matcher.resource = gvr // the example object does not contain the resource
	}
	inf.Set(reflect.ValueOf(ours))
	return generic
}
