package clientgo

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	return &factory{f}, nil
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
}

var _ informers.SharedInformerFactory = (*factory)(nil)

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
