package clientgo

import (
	"context"
	"fmt"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// runtimeMeta is any object at all.
type runtimeMeta = metav1.Object

// NewSharedInformerFactory is informers.NewSharedInformerFactory for the server that cfg names. cfg is copied. No request
// is made before Start. The error says what is wrong with cfg, or is ErrLayout.
func NewSharedInformerFactory(cfg *rest.Config, resync time.Duration, opts ...Option) (informers.SharedInformerFactory, error) {
	if err := checkLayout(); err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(wrapped(cfg))
	if err != nil {
		return nil, fmt.Errorf("clientgo: %w", err)
	}
	return &factory{
		client: client, resync: resync, settings: settingsOf(opts), running: newRunning[reflect.Type](),
	}, nil
}

// wrapped is a copy of cfg that captures. Informers make few requests, and pace them elsewhere: a limit on the client's
// would only delay the start of a factory with many of them.
func wrapped(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.RateLimiter = -1, nil
	Wrap(cfg)
	return cfg
}

// factory is an informers.SharedInformerFactory. What generated code it gets informers from builds client-go's; InformerFor
// puts ours in their place.
type factory struct {
	client   kubernetes.Interface
	resync   time.Duration
	settings settings
	running  running[reflect.Type]
}

var _ informers.SharedInformerFactory = (*factory)(nil)

// InformerFor gives the informer of an object's type; newFunc is asked for what it should be, the first time.
func (f *factory) InformerFor(obj runtime.Object, newFunc internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	key := reflect.TypeOf(obj)
	return f.running.get(key, func() cache.SharedIndexInformer {
		resync, ok := f.settings.customResync[key]
		if !ok {
			resync = f.resync
		}
		inf := adopt(newFunc(f.client, resync), f.settings.informer)
		if f.settings.transform != nil {
			_ = inf.SetTransform(f.settings.transform) // it fails only once an informer has started
		}
		return inf
	})
}

// InformerName is the one of WithInformerName.
func (f *factory) InformerName() *cache.InformerName { return f.settings.name }

// Start starts what was asked for until the channel is closed. It does not block.
func (f *factory) Start(stop <-chan struct{}) { f.StartWithContext(wait.ContextForChannel(stop)) }

// StartWithContext starts what was asked for until the context ends. It does not block.
func (f *factory) StartWithContext(ctx context.Context) { f.running.start(ctx) }

// Shutdown blocks until the informers have ended, which what they were started with must tell them to. Nothing can be
// started any more.
func (f *factory) Shutdown() {
	f.running.shutdown()
	f.settings.name.Release()
}

// WaitForCacheSync blocks until all started informers have synced or the channel is closed, and tells which have.
func (f *factory) WaitForCacheSync(stop <-chan struct{}) map[reflect.Type]bool {
	return f.WaitForCacheSyncWithContext(wait.ContextForChannel(stop)).Synced
}

// WaitForCacheSyncWithContext is WaitForCacheSync with a context, whose cause is the error when one has not synced.
func (f *factory) WaitForCacheSyncWithContext(ctx context.Context) cache.SyncResult {
	synced, err := f.running.wait(ctx)
	return cache.SyncResult{Synced: synced, Err: err}
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
