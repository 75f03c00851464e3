package clientgo

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/admissionregistration"
	"k8s.io/client-go/informers/apiserverinternal"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/autoscaling"
	"k8s.io/client-go/informers/batch"
	"k8s.io/client-go/informers/certificates"
	"k8s.io/client-go/informers/coordination"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/discovery"
	"k8s.io/client-go/informers/events"
	"k8s.io/client-go/informers/extensions"
	"k8s.io/client-go/informers/flowcontrol"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/networking"
	"k8s.io/client-go/informers/node"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/rbac"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	"k8s.io/client-go/informers/storage"
	"k8s.io/client-go/informers/storagemigration"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/core/source"
)

// NewSharedInformerFactory returns a factory like informers.NewSharedInformerFactory's for the
// server that cfg names. It copies cfg and sends no request before Start. It returns an error if
// cfg is invalid.
func NewSharedInformerFactory(cfg *rest.Config, resync time.Duration, opts ...Option) (informers.SharedInformerFactory, error) {
	cfg, err := wrappedConfig(cfg)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("clientgo: %w", err)
	}
	return NewSharedInformerFactoryWithOptions(client, resync, opts...), nil
}

// NewSharedInformerFactoryWithOptions replaces informers.NewSharedInformerFactoryWithOptions and
// informers.NewSharedInformerFactory. Build the client from a config that Wrap was called on; with
// any other client, such as a fake one, informers use the client's results. If client-go's
// informers cannot be adopted, it logs that and returns client-go's factory.
func NewSharedInformerFactoryWithOptions(client kubernetes.Interface, resync time.Duration, opts ...Option) informers.SharedInformerFactory {
	s := settingsOf(opts)
	theirs := informers.NewSharedInformerFactoryWithOptions(client, resync, informers.WithNamespace(s.namespace), informers.WithTweakListOptions(s.tweak),
		informers.WithTransform(s.transform), informers.WithCustomResyncConfig(s.customResync), informers.WithInformerName(s.name))
	if !s.canAdopt {
		return theirs
	}
	return &factory{newGenerated[kubernetes.Interface, internalinterfaces.NewInformerFunc](client, resync, s), upstreamFactory{theirs}}
}

// NewFilteredSharedInformerFactory replaces informers.NewFilteredSharedInformerFactory. See
// NewSharedInformerFactoryWithOptions.
func NewFilteredSharedInformerFactory(client kubernetes.Interface, resync time.Duration, namespace string, tweak internalinterfaces.TweakListOptionsFunc) informers.SharedInformerFactory {
	return NewSharedInformerFactoryWithOptions(client, resync, WithNamespace(namespace), WithTweakListOptions(tweak))
}

// wrappedConfig returns a wrapped copy of cfg. It drops client-go's default rate limit, which would
// only delay the start of a factory with many informers: they send few requests and back off. It
// keeps a limit that is set. It returns an error if cfg is nil.
func wrappedConfig(cfg *rest.Config) (*rest.Config, error) {
	if cfg == nil {
		return nil, errNoConfig
	}
	cfg = source.CopyConfig(cfg)
	if cfg.QPS == 0 && cfg.RateLimiter == nil {
		cfg.QPS = -1
	}
	Wrap(cfg)
	return cfg, nil
}

// factory is an informers.SharedInformerFactory.
type factory struct {
	*Generated[kubernetes.Interface, internalinterfaces.NewInformerFunc]
	upstreamFactory
}

// upstreamFactory is client-go's own factory. It serves the groups that were added after v0.36, the
// oldest client-go that this package supports: their accessors are promoted from it, and their
// informers are client-go's.
type upstreamFactory struct {
	informers.SharedInformerFactory
}

var _ informers.SharedInformerFactory = (*factory)(nil)

// Start runs the requested informers until the channel is closed. It does not block.
func (f *factory) Start(stop <-chan struct{}) { f.StartWithContext(wait.ContextForChannel(stop)) }

// StartWithContext runs the requested informers until the context ends. It does not block.
func (f *factory) StartWithContext(ctx context.Context) {
	f.Generated.StartWithContext(ctx)
	f.upstreamFactory.Start(ctx.Done())
}

// Shutdown blocks until the informers have ended. The caller must end their context or channel. No
// informer can be started afterwards.
func (f *factory) Shutdown() {
	f.informers.shutdown()
	f.upstreamFactory.Shutdown() // also releases the informer name
}

// WaitForCacheSync blocks until all started informers have synced or the channel is closed, and
// reports which have.
func (f *factory) WaitForCacheSync(stop <-chan struct{}) map[reflect.Type]bool {
	return f.WaitForCacheSyncWithContext(wait.ContextForChannel(stop)).Synced
}

// WaitForCacheSyncWithContext blocks until all started informers have synced or the context ends,
// and reports which have. If one has not synced, the result's error is the context's cause.
func (f *factory) WaitForCacheSyncWithContext(ctx context.Context) cache.SyncResult {
	result := f.Generated.WaitForCacheSyncWithContext(ctx)
	for of, synced := range f.upstreamFactory.WaitForCacheSync(ctx.Done()) {
		if result.Synced[of] = synced; !synced && result.Err == nil {
			result.Err = context.Cause(ctx)
		}
	}
	return result
}

// ForResource returns the informer of a resource that client-go has a type for, and an error for
// any other resource.
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

// builtinResource returns the type of a resource and a function that builds its informer as
// client-go does. It asks client-go's own factory, because only generated code knows the resources.
func builtinResource(f *factory, resource schema.GroupVersionResource) (runtime.Object, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer, error) {
	s := f.settings
	build := func(client kubernetes.Interface, resync time.Duration, name *cache.InformerName) (cache.SharedIndexInformer, error) {
		generated := informers.NewSharedInformerFactoryWithOptions(client, resync,
			informers.WithNamespace(s.namespace), informers.WithTweakListOptions(s.tweak), informers.WithInformerName(name))
		generic, err := generated.ForResource(resource)
		if err != nil {
			return nil, err
		}
		return generic.Informer(), nil
	}
	probe, err := build(f.client, 0, nil) // without the name, which each resource may use once
	if err != nil {
		return nil, nil, err
	}
	p, ok := fieldsOf(probe)
	if !ok {
		return nil, nil, fmt.Errorf("%s: %w", resource, ErrLayout)
	}
	example := reflect.New(reflect.TypeOf(p.example).Elem()).Interface().(runtime.Object)
	return example, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		inf, err := build(client, resync, s.name)
		if err != nil {
			return probe // cannot happen: building it has just succeeded
		}
		return inf
	}, nil
}

// The accessors of the groups in the v0.36 factory. The generated code of each calls the factory's
// InformerFor.

func (f *factory) Admissionregistration() admissionregistration.Interface {
	return admissionregistration.New(f, f.settings.namespace, f.settings.tweak)
}

func (f *factory) Internal() apiserverinternal.Interface {
	return apiserverinternal.New(f, f.settings.namespace, f.settings.tweak)
}

func (f *factory) Apps() apps.Interface {
	return apps.New(f, f.settings.namespace, f.settings.tweak)
}

func (f *factory) Autoscaling() autoscaling.Interface {
	return autoscaling.New(f, f.settings.namespace, f.settings.tweak)
}

func (f *factory) Batch() batch.Interface {
	return batch.New(f, f.settings.namespace, f.settings.tweak)
}

func (f *factory) Certificates() certificates.Interface {
	return certificates.New(f, f.settings.namespace, f.settings.tweak)
}

func (f *factory) Coordination() coordination.Interface {
	return coordination.New(f, f.settings.namespace, f.settings.tweak)
}

func (f *factory) Core() core.Interface {
	return core.New(f, f.settings.namespace, f.settings.tweak)
}

func (f *factory) Discovery() discovery.Interface {
	return discovery.New(f, f.settings.namespace, f.settings.tweak)
}

func (f *factory) Events() events.Interface {
	return events.New(f, f.settings.namespace, f.settings.tweak)
}

func (f *factory) Extensions() extensions.Interface {
	return extensions.New(f, f.settings.namespace, f.settings.tweak)
}

func (f *factory) Flowcontrol() flowcontrol.Interface {
	return flowcontrol.New(f, f.settings.namespace, f.settings.tweak)
}

func (f *factory) Networking() networking.Interface {
	return networking.New(f, f.settings.namespace, f.settings.tweak)
}

func (f *factory) Node() node.Interface {
	return node.New(f, f.settings.namespace, f.settings.tweak)
}

func (f *factory) Policy() policy.Interface {
	return policy.New(f, f.settings.namespace, f.settings.tweak)
}

func (f *factory) Rbac() rbac.Interface {
	return rbac.New(f, f.settings.namespace, f.settings.tweak)
}

func (f *factory) Resource() resource.Interface {
	return resource.New(f, f.settings.namespace, f.settings.tweak)
}

func (f *factory) Scheduling() scheduling.Interface {
	return scheduling.New(f, f.settings.namespace, f.settings.tweak)
}

func (f *factory) Storage() storage.Interface {
	return storage.New(f, f.settings.namespace, f.settings.tweak)
}

func (f *factory) Storagemigration() storagemigration.Interface {
	return storagemigration.New(f, f.settings.namespace, f.settings.tweak)
}
