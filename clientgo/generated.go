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
// SharedInformerFactory of the generated package internalinterfaces. C is the type Interface of the
// generated clientset, and F is the type NewInformerFunc of internalinterfaces. The program calls
// the generated functions to get an informer:
//
//	clientgo.Wrap(cfg)
//	client := versioned.NewForConfigOrDie(cfg)
//	type newInformerFunc = internalinterfaces.NewInformerFunc
//	f := clientgo.NewGenerated[versioned.Interface, newInformerFunc](client, resync)
//	widgets := shop.New(f, metav1.NamespaceAll, nil).V1().Widgets()
//
// Generated code builds client-go's informers; InformerFor replaces them by informers of this
// package, see Adopt. Generated has no methods for API groups, unlike the SharedInformerFactory of
// the generated package externalversions. A program that needs the interface of externalversions
// calls Adopt in the generated InformerFor instead. All methods are safe for concurrent use.
type Generated[C any, F ~func(C, time.Duration) cache.SharedIndexInformer] struct {
	informerSet[reflect.Type]
	client   C
	resync   time.Duration
	settings settings
}

// NewGenerated returns a factory. The options WithNamespace and WithTweakListOptions have no
// effect: pass these values to a group's New instead. If this package cannot read the fields of
// client-go's informers (ErrLayout), it logs the reason, and the factory returns client-go's
// informers.
func NewGenerated[C any, F ~func(C, time.Duration) cache.SharedIndexInformer](client C, resync time.Duration, opts ...Option) *Generated[C, F] {
	return newGenerated[C, F](client, resync, settingsOf(opts))
}

func newGenerated[C any, F ~func(C, time.Duration) cache.SharedIndexInformer](client C, resync time.Duration, s settings) *Generated[C, F] {
	return &Generated[C, F]{newInformerSet[reflect.Type](), client, resync, s}
}

// InformerFor returns the informer of obj's type. The first call for a type calls newFunc to build
// it.
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

// InformerName returns the name that WithInformerName sets, or nil.
func (f *Generated[C, F]) InformerName() *cache.InformerName { return f.settings.name }

// Shutdown blocks until the informers have stopped. It does not stop them: the caller must close
// the channel or cancel the context that it passed to Start or StartWithContext. After Shutdown,
// Start does nothing.
func (f *Generated[C, F]) Shutdown() {
	f.informerSet.Shutdown()
	f.settings.name.Release()
}

// WaitForCacheSyncWithContext blocks until all started informers have synced or the context ends.
// It returns whether each started informer has synced. If an informer has not synced, the result's
// Err is the context's cause.
func (f *Generated[C, F]) WaitForCacheSyncWithContext(ctx context.Context) cache.SyncResult {
	synced, err := f.waitForSync(ctx)
	return cache.SyncResult{Synced: synced, Err: err}
}

// informerSet contains a factory's informers by key, and records which informers were started. All
// methods are safe for concurrent use.
type informerSet[K comparable] struct {
	mu        sync.Mutex
	informers map[K]cache.SharedIndexInformer
	started   map[K]bool
	closing   bool
	runs      sync.WaitGroup // one per started informer, until its context ends
}

func newInformerSet[K comparable]() informerSet[K] {
	return informerSet[K]{informers: map[K]cache.SharedIndexInformer{}, started: map[K]bool{}}
}

// get returns the informer of a key. The first call for a key calls build; later calls return the
// same informer.
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

// Start starts the informers that the program has requested and that do not run yet. They run until
// the channel is closed. Start does not block.
func (s *informerSet[K]) Start(stop <-chan struct{}) {
	s.StartWithContext(wait.ContextForChannel(stop))
}

// StartWithContext starts the informers that the program has requested and that do not run yet.
// They run until the context ends. StartWithContext does not block.
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

// Shutdown blocks until the informers have stopped. It does not stop them: the caller must close
// the channel or cancel the context that it passed to Start or StartWithContext. After Shutdown,
// Start does nothing.
func (s *informerSet[K]) Shutdown() {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.runs.Wait()
}

// WaitForCacheSync blocks until all started informers have synced or the channel is closed. It
// returns whether each started informer has synced.
func (s *informerSet[K]) WaitForCacheSync(stop <-chan struct{}) map[K]bool {
	synced, _ := s.waitForSync(wait.ContextForChannel(stop)) // the error repeats what the map contains
	return synced
}

// waitForSync blocks until all started informers have synced or the context ends. It returns
// whether each started informer has synced. If an informer has not synced, the error is the
// context's cause.
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
