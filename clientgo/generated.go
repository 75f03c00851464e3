package clientgo

import (
	"context"
	"reflect"
	"sync"
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
	informerSet[reflect.Type]
	client   C
	resync   time.Duration
	settings settings
}

// NewGenerated returns a factory. WithNamespace and WithTweakListOptions have no effect: they are
// arguments of a group's New. If client-go's informers cannot be adopted, it logs that, and the
// factory returns client-go's.
func NewGenerated[C any, F ~func(C, time.Duration) cache.SharedIndexInformer](client C, resync time.Duration, opts ...Option) *Generated[C, F] {
	return newGenerated[C, F](client, resync, settingsOf(opts))
}

func newGenerated[C any, F ~func(C, time.Duration) cache.SharedIndexInformer](client C, resync time.Duration, s settings) *Generated[C, F] {
	return &Generated[C, F]{newInformerSet[reflect.Type](), client, resync, s}
}

// InformerFor returns the informer of obj's type. The first call for a type builds it with newFunc.
func (f *Generated[C, F]) InformerFor(obj runtime.Object, newFunc F) cache.SharedIndexInformer {
	key := reflect.TypeOf(obj)
	return f.get(key, func() cache.SharedIndexInformer {
		resync := f.resync
		for object, period := range f.settings.customResync {
			if reflect.TypeOf(object) == key {
				resync = period
			}
		}
		return f.settings.adopt(newFunc(f.client, resync), "")
	})
}

// InformerName returns the name that WithInformerName has set, or nil.
func (f *Generated[C, F]) InformerName() *cache.InformerName { return f.settings.name }

// Shutdown blocks until the informers have ended. The caller must end their context or channel. No
// informer can be started afterwards.
func (f *Generated[C, F]) Shutdown() {
	f.informerSet.Shutdown()
	f.settings.name.Release()
}

// WaitForCacheSyncWithContext blocks until all started informers have synced or the context ends,
// and reports which have. If one has not synced, the result's error is the context's cause.
func (f *Generated[C, F]) WaitForCacheSyncWithContext(ctx context.Context) cache.SyncResult {
	synced, err := f.waitForSync(ctx)
	return cache.SyncResult{Synced: synced, Err: err}
}

// informerSet has a factory's informers, requested and started ones, by the factory's key. All
// methods are safe for concurrent use.
type informerSet[K comparable] struct {
	mu        sync.Mutex
	informers map[K]cache.SharedIndexInformer
	started   map[K]bool
	closing   bool
	runs      sync.WaitGroup // one per started informer; they end with the context of Start
}

func newInformerSet[K comparable]() informerSet[K] {
	return informerSet[K]{informers: map[K]cache.SharedIndexInformer{}, started: map[K]bool{}}
}

// get returns the informer of a key. It builds the informer if there is none.
func (s *informerSet[K]) get(key K, build func() cache.SharedIndexInformer) cache.SharedIndexInformer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if inf, ok := s.informers[key]; ok {
		return inf
	}
	inf := build()
	s.informers[key] = inf
	return inf
}

// Start runs the requested informers until the channel is closed. It does not block.
func (s *informerSet[K]) Start(stop <-chan struct{}) {
	s.StartWithContext(wait.ContextForChannel(stop))
}

// StartWithContext runs the requested informers until the context ends. It does not block.
func (s *informerSet[K]) StartWithContext(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return
	}
	for key, inf := range s.informers {
		if !s.started[key] {
			s.started[key] = true
			s.runs.Go(func() { inf.RunWithContext(ctx) })
		}
	}
}

// Shutdown blocks until the informers have ended. The caller must end their context or channel. No
// informer can be started afterwards.
func (s *informerSet[K]) Shutdown() {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.runs.Wait()
}

// WaitForCacheSync blocks until all started informers have synced or the channel is closed, and
// reports which have.
func (s *informerSet[K]) WaitForCacheSync(stop <-chan struct{}) map[K]bool {
	synced, _ := s.waitForSync(wait.ContextForChannel(stop)) // the map shows which have not
	return synced
}

// waitForSync blocks until the started informers have synced or the context ends, and reports which
// have. The error is the context's cause if one has not.
func (s *informerSet[K]) waitForSync(ctx context.Context) (map[K]bool, error) {
	s.mu.Lock()
	waiting := map[K]cache.DoneChecker{}
	for key, inf := range s.informers {
		if s.started[key] {
			waiting[key] = inf.HasSyncedChecker()
		}
	}
	s.mu.Unlock()
	synced, missing := make(map[K]bool, len(waiting)), false
	for key, checker := range waiting {
		select {
		case <-checker.Done():
		case <-ctx.Done():
		}
		synced[key] = cache.IsDone(checker)
		missing = missing || !synced[key]
	}
	if missing {
		return synced, context.Cause(ctx)
	}
	return synced, nil
}
