package clientgo

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	"k8s.io/client-go/tools/cache"
)

// These are types of package informers. A file that uses package informers only for factories can
// import this package under that name, and keep all its other lines.
type (
	SharedInformerFactory = informers.SharedInformerFactory
	SharedInformerOption  = Option
)

// NewSharedInformerFactory replaces informers.NewSharedInformerFactory. It accepts the same
// arguments, and options, and returns client-go's interface. It sends no request before Start.
//
// The informers capture responses: they read the bodies of the client's LISTs and WATCHes
// themselves. For this the factory uses a copy of the client, with another transport; the client
// itself remains as it is. This works for a clientset of kubernetes.NewForConfig. With any other
// client, such as a fake clientset, the informers use the client's results, unless the client was
// built from a config that was passed to Wrap. Set Options.NoCapture if a codec of the client, or a
// ListerWatcher that InformerFor receives, changes the server's objects.
//
// If this package cannot read the fields of client-go's informers (ErrLayout), it logs the reason,
// and the factory returns client-go's informers.
func NewSharedInformerFactory(client kubernetes.Interface, resync time.Duration, opts ...Option) informers.SharedInformerFactory {
	s := settingsOf(opts)
	client = withTransport(&s, client)
	theirs := s.upstreamFactory(client, resync)
	if isOff(&s.informer) && s.informer.Shard.All() {
		return theirs
	}
	f := &factory{theirs, upstreamFactory{theirs}, client, s}
	if s.withName != nil {
		f.SharedInformerFactory = s.withName(theirs)
	}
	return f
}

// NewSharedInformerFactoryWithOptions is NewSharedInformerFactory. It replaces
// informers.NewSharedInformerFactoryWithOptions.
func NewSharedInformerFactoryWithOptions(client kubernetes.Interface, resync time.Duration, opts ...Option) informers.SharedInformerFactory {
	return NewSharedInformerFactory(client, resync, opts...)
}

// NewFilteredSharedInformerFactory replaces informers.NewFilteredSharedInformerFactory. See
// NewSharedInformerFactory.
func NewFilteredSharedInformerFactory(client kubernetes.Interface, resync time.Duration, namespace string, tweak internalinterfaces.TweakListOptionsFunc) informers.SharedInformerFactory {
	return NewSharedInformerFactory(client, resync, WithNamespace(namespace), WithTweakListOptions(tweak))
}

// upstreamFactory returns client-go's factory with the settings, except the name. It stores, starts
// and stops the informers of a factory of this package.
func (s *settings) upstreamFactory(client kubernetes.Interface, resync time.Duration) informers.SharedInformerFactory {
	return informers.NewSharedInformerFactoryWithOptions(client, resync, informers.WithNamespace(s.namespace), informers.WithTweakListOptions(s.tweak),
		informers.WithTransform(s.transform), informers.WithCustomResyncConfig(s.customResync))
}

// factory implements informers.SharedInformerFactory. client-go's factory stores, starts and stops
// the informers. Its methods are promoted; the methods below replace those of client-go.
type factory struct {
	internalinterfaces.SharedInformerFactory // provides InformerName
	upstreamFactory
	client   kubernetes.Interface
	settings settings
}

// upstreamFactory is client-go's own factory. It also provides the methods for API groups that
// client-go added after v0.34, the oldest version that this package supports. The informers of
// these groups are client-go's.
type upstreamFactory struct {
	informers.SharedInformerFactory
}

var _ informers.SharedInformerFactory = (*factory)(nil)

// InformerFor returns the informer of obj's type. The first call for a type calls newFunc to build
// it.
func (f *factory) InformerFor(obj runtime.Object, newFunc internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	return f.informerFor(obj, func(resync time.Duration) cache.SharedIndexInformer {
		return f.settings.adopt(newFunc(f.client, resync), "")
	})
}

// informerFor is InformerFor; build returns an informer of this package.
func (f *factory) informerFor(obj runtime.Object, build func(resync time.Duration) cache.SharedIndexInformer) cache.SharedIndexInformer {
	return f.upstreamFactory.InformerFor(obj, func(_ kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return build(resync)
	})
}

// Shutdown blocks until the informers have stopped. It does not stop them: the caller must close
// the channel or cancel the context that it passed to Start or StartWithContext. After Shutdown,
// Start does nothing. Shutdown releases the name that WithInformerName sets.
func (f *factory) Shutdown() {
	f.upstreamFactory.Shutdown()
	if f.settings.name != nil {
		f.settings.name.Release()
	}
}

// ForResource returns the informer of a resource. It returns an error if client-go has no type for
// the resource. client-go's own factory builds the informer that the Weir informer replaces,
// because only generated code maps resources to types.
func (f *factory) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	s := &f.settings
	build := func(resync time.Duration) (informers.GenericInformer, error) {
		return s.upstreamFactory(f.client, resync).ForResource(resource)
	}
	theirs, err := build(0)
	if err != nil {
		return nil, err
	}
	fields, ok := fieldsOf(theirs.Informer())
	if !ok || !layoutKnown() {
		generic, err := f.upstreamFactory.ForResource(resource)
		if err == nil {
			reportShard(generic.Informer(), &s.informer)
		}
		return generic, err
	}
	inf := f.informerFor(fields.example, func(resync time.Duration) cache.SharedIndexInformer {
		theirs, _ := build(resync) // no error: the first call has succeeded
		ours := s.adopt(theirs.Informer(), "")
		if i, err := informerOf(ours); err == nil && i.shadowed == nil {
			i.sink.published = publishedStore(s.name, resource)
		}
		return ours
	})
	return genericInformer{inf, cache.NewGenericLister(inf.GetIndexer(), resource.GroupResource())}, nil
}

type genericInformer struct {
	informer cache.SharedIndexInformer
	lister   cache.GenericLister
}

func (g genericInformer) Informer() cache.SharedIndexInformer { return g.informer }
func (g genericInformer) Lister() cache.GenericLister         { return g.lister }

// group returns the interface of an API group. accessors is the function New that informer-gen has
// generated for the group. The accessors of the interface call the factory's InformerFor.
func group[I any](f *factory, accessors func(internalinterfaces.SharedInformerFactory, string, internalinterfaces.TweakListOptionsFunc) I) I {
	return accessors(f, f.settings.namespace, f.settings.tweak)
}

// These methods return the API groups of client-go v0.34.

func (f *factory) Admissionregistration() admissionregistration.Interface {
	return group(f, admissionregistration.New)
}
func (f *factory) Internal() apiserverinternal.Interface { return group(f, apiserverinternal.New) }
func (f *factory) Apps() apps.Interface                  { return group(f, apps.New) }
func (f *factory) Autoscaling() autoscaling.Interface    { return group(f, autoscaling.New) }
func (f *factory) Batch() batch.Interface                { return group(f, batch.New) }
func (f *factory) Certificates() certificates.Interface  { return group(f, certificates.New) }
func (f *factory) Coordination() coordination.Interface  { return group(f, coordination.New) }
func (f *factory) Core() core.Interface                  { return group(f, core.New) }
func (f *factory) Discovery() discovery.Interface        { return group(f, discovery.New) }
func (f *factory) Events() events.Interface              { return group(f, events.New) }
func (f *factory) Extensions() extensions.Interface      { return group(f, extensions.New) }
func (f *factory) Flowcontrol() flowcontrol.Interface    { return group(f, flowcontrol.New) }
func (f *factory) Networking() networking.Interface      { return group(f, networking.New) }
func (f *factory) Node() node.Interface                  { return group(f, node.New) }
func (f *factory) Policy() policy.Interface              { return group(f, policy.New) }
func (f *factory) Rbac() rbac.Interface                  { return group(f, rbac.New) }
func (f *factory) Resource() resource.Interface          { return group(f, resource.New) }
func (f *factory) Scheduling() scheduling.Interface      { return group(f, scheduling.New) }
func (f *factory) Storage() storage.Interface            { return group(f, storage.New) }
func (f *factory) Storagemigration() storagemigration.Interface {
	return group(f, storagemigration.New)
}
