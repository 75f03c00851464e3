package clientgo

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// NewSharedInformerFactory returns a factory like that of informers.NewSharedInformerFactory, for the server that cfg names. It copies cfg
// and makes no request before Start. The error says what is wrong with cfg.
func NewSharedInformerFactory(cfg *rest.Config, resync time.Duration, opts ...Option) (informers.SharedInformerFactory, error) {
	client, err := kubernetes.NewForConfig(wrapped(cfg))
	if err != nil {
		return nil, fmt.Errorf("clientgo: %w", err)
	}
	return NewSharedInformerFactoryWithOptions(client, resync, opts...), nil
}

// NewSharedInformerFactoryWithOptions takes the place of informers.NewSharedInformerFactoryWithOptions and, without options, of
// informers.NewSharedInformerFactory. The client is one whose config Wrap was called on; of any other, such as a fake one, the informers
// take what it returns. Where this package cannot take client-go's informers over it logs that and returns client-go's factory.
func NewSharedInformerFactoryWithOptions(client kubernetes.Interface, resync time.Duration, opts ...Option) informers.SharedInformerFactory {
	s := settingsOf(opts)
	theirs := informers.NewSharedInformerFactoryWithOptions(client, resync, informers.WithNamespace(s.namespace), informers.WithTweakListOptions(s.tweak),
		informers.WithTransform(s.transform), informers.WithCustomResyncConfig(s.customResync), informers.WithInformerName(s.name))
	if !s.adopts {
		return theirs
	}
	return &factory{newGenerated[kubernetes.Interface, internalinterfaces.NewInformerFunc](client, resync, s), later{theirs}}
}

// NewFilteredSharedInformerFactory takes the place of informers.NewFilteredSharedInformerFactory, as NewSharedInformerFactoryWithOptions
// does of its own.
func NewFilteredSharedInformerFactory(client kubernetes.Interface, resync time.Duration, namespace string, tweak internalinterfaces.TweakListOptionsFunc) informers.SharedInformerFactory {
	return NewSharedInformerFactoryWithOptions(client, resync, WithNamespace(namespace), WithTweakListOptions(tweak))
}

// wrapped is a copy of cfg that captures. Informers make few requests, and pace them elsewhere: client-go's default limit would only
// delay the start of a factory with many of them. A limit that somebody has set is kept.
func wrapped(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	if cfg.QPS == 0 && cfg.RateLimiter == nil {
		cfg.QPS = -1
	}
	Wrap(cfg)
	return cfg
}

// factory is an informers.SharedInformerFactory.
type factory struct {
	*Generated[kubernetes.Interface, internalinterfaces.NewInformerFunc]
	later
}

// later is client-go's own factory. It serves the groups that were added after 0.36, the oldest client-go that this package builds with:
// their accessors are promoted from it, and their informers are client-go's.
type later struct {
	informers.SharedInformerFactory
}

var _ informers.SharedInformerFactory = (*factory)(nil)

// Start starts what was asked for until the channel is closed. It does not block.
func (f *factory) Start(stop <-chan struct{}) { f.StartWithContext(wait.ContextForChannel(stop)) }

// StartWithContext starts what was asked for until the context ends. It does not block.
func (f *factory) StartWithContext(ctx context.Context) {
	f.Generated.StartWithContext(ctx)
	f.later.Start(ctx.Done())
}

// Shutdown blocks until the informers have ended, which what they were started with must tell them to. Nothing can be
// started any more.
func (f *factory) Shutdown() {
	f.running.shutdown()
	f.later.Shutdown() // releases the name as well
}

// WaitForCacheSync blocks until all started informers have synced or the channel is closed, and tells which have.
func (f *factory) WaitForCacheSync(stop <-chan struct{}) map[reflect.Type]bool {
	return f.WaitForCacheSyncWithContext(wait.ContextForChannel(stop)).Synced
}

// WaitForCacheSyncWithContext is WaitForCacheSync with a context, whose cause is the error when one has not synced.
func (f *factory) WaitForCacheSyncWithContext(ctx context.Context) cache.SyncResult {
	result := f.Generated.WaitForCacheSyncWithContext(ctx)
	for of, synced := range f.later.WaitForCacheSync(ctx.Done()) {
		if result.Synced[of] = synced; !synced && result.Err == nil {
			result.Err = context.Cause(ctx)
		}
	}
	return result
}

// ForResource gives the informer of a resource that client-go has a type for.
func (f *factory) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	example, generic, err := builtinResource(f, resource)
	if err != nil {
		return nil, err
	}
	inf := f.InformerFor(example, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return generic(client, resync)
	})
	return genericInformer{inf, cache.NewGenericLister(inf.GetIndexer(), resource.GroupResource())}, nil
}

// genericInformer is an informers.GenericInformer.
type genericInformer struct {
	informer cache.SharedIndexInformer
	lister   cache.GenericLister
}

func (g genericInformer) Informer() cache.SharedIndexInformer { return g.informer }
func (g genericInformer) Lister() cache.GenericLister         { return g.lister }
