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

// NewSharedInformerFactory is informers.NewSharedInformerFactory for the server that cfg names. cfg is copied. No request
// is made before Start. The error says what is wrong with cfg, or is ErrLayout.
func NewSharedInformerFactory(cfg *rest.Config, resync time.Duration, opts ...Option) (informers.SharedInformerFactory, error) {
	client, err := kubernetes.NewForConfig(wrapped(cfg))
	if err != nil {
		return nil, fmt.Errorf("clientgo: %w", err)
	}
	return NewSharedInformerFactoryFor(client, resync, opts...)
}

// NewSharedInformerFactoryFor is informers.NewSharedInformerFactory, for a client that is there already: a fake one, or one whose config
// Wrap was called on. Without that the informers take what the client returns. The error is ErrLayout.
func NewSharedInformerFactoryFor(client kubernetes.Interface, resync time.Duration, opts ...Option) (informers.SharedInformerFactory, error) {
	f, err := NewGenerated[kubernetes.Interface, internalinterfaces.NewInformerFunc](client, resync, opts...)
	if err != nil {
		return nil, err
	}
	s := f.settings
	return &factory{f, later{informers.NewSharedInformerFactoryWithOptions(client, resync, informers.WithNamespace(s.namespace),
		informers.WithTweakListOptions(s.tweak), informers.WithTransform(s.transform))}}, nil
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
	f.Generated.Shutdown()
	f.later.Shutdown()
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
