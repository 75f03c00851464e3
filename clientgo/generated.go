package clientgo

import (
	"context"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
)

// Generated is a factory for informers that informer-gen has generated. It implements the interface
// that the generated package internalinterfaces calls SharedInformerFactory. C is the Interface of
// the clientset, F that package's NewInformerFunc. The accessors of a group are the generated ones:
//
//	clientgo.Wrap(cfg)
//	client := versioned.NewForConfigOrDie(cfg)
//	type newInformerFunc = internalinterfaces.NewInformerFunc
//	f := clientgo.NewGenerated[versioned.Interface, newInformerFunc](client, resync)
//	widgets := shop.New(f, metav1.NamespaceAll, nil).V1().Widgets()
//
// Generated code builds client-go's informers; InformerFor adopts them. Generated has no accessors
// of groups. A program that passes its factory as the generated interface, which has them, calls
// Adopt in the generated InformerFor instead. All methods are safe for concurrent use.
type Generated[C any, F ~func(C, time.Duration) cache.SharedIndexInformer] struct {
	client       C
	resync       time.Duration
	settings     settings
	customResync map[reflect.Type]time.Duration
	informers    informerSet[reflect.Type]
}

// NewGenerated returns a factory. WithNamespace and WithTweakListOptions have no effect: they are
// arguments of a group's New. If client-go's informers cannot be adopted, it logs that, and the
// factory returns client-go's.
func NewGenerated[C any, F ~func(C, time.Duration) cache.SharedIndexInformer](client C, resync time.Duration, opts ...Option) *Generated[C, F] {
	return newGenerated[C, F](client, resync, settingsOf(opts))
}

func newGenerated[C any, F ~func(C, time.Duration) cache.SharedIndexInformer](client C, resync time.Duration, s settings) *Generated[C, F] {
	f := &Generated[C, F]{client: client, resync: resync, settings: s, customResync: map[reflect.Type]time.Duration{}, informers: newInformerSet[reflect.Type]()}
	for object, period := range s.customResync {
		f.customResync[reflect.TypeOf(object)] = period
	}
	return f
}

// InformerFor returns the informer of obj's type. The first call for a type builds it with newFunc.
func (f *Generated[C, F]) InformerFor(obj runtime.Object, newFunc F) cache.SharedIndexInformer {
	key := reflect.TypeOf(obj)
	return f.informers.get(key, func() cache.SharedIndexInformer {
		resync, ok := f.customResync[key]
		if !ok {
			resync = f.resync
		}
		inf := f.settings.adopt(newFunc(f.client, resync), "")
		if f.settings.transform != nil {
			_ = inf.SetTransform(f.settings.transform) // fails only if the informer has started
		}
		return inf
	})
}

// InformerName returns the name that WithInformerName has set, or nil.
func (f *Generated[C, F]) InformerName() *cache.InformerName { return f.settings.name }

// Start runs the requested informers until the channel is closed. It does not block.
func (f *Generated[C, F]) Start(stop <-chan struct{}) {
	f.StartWithContext(wait.ContextForChannel(stop))
}

// StartWithContext runs the requested informers until the context ends. It does not block.
func (f *Generated[C, F]) StartWithContext(ctx context.Context) { f.informers.start(ctx) }

// Shutdown blocks until the informers have ended. The caller must end their context or channel. No
// informer can be started afterwards.
func (f *Generated[C, F]) Shutdown() {
	f.informers.shutdown()
	f.settings.name.Release()
}

// WaitForCacheSync blocks until all started informers have synced or the channel is closed, and
// reports which have.
func (f *Generated[C, F]) WaitForCacheSync(stop <-chan struct{}) map[reflect.Type]bool {
	return f.WaitForCacheSyncWithContext(wait.ContextForChannel(stop)).Synced
}

// WaitForCacheSyncWithContext blocks until all started informers have synced or the context ends,
// and reports which have. If one has not synced, the result's error is the context's cause.
func (f *Generated[C, F]) WaitForCacheSyncWithContext(ctx context.Context) cache.SyncResult {
	synced, err := f.informers.waitForSync(ctx)
	return cache.SyncResult{Synced: synced, Err: err}
}
