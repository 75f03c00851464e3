package clientgo

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Generated is a factory for informers that informer-gen has generated. It implements the interface
// SharedInformerFactory of the generated package internalinterfaces. C is the type Interface of the
// generated clientset, and F is the type NewInformerFunc of internalinterfaces. The program calls
// the generated functions to get an informer:
//
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
	internalinterfaces.SharedInformerFactory // provides InformerName
	theirs                                   informers.SharedInformerFactory
	client                                   C
	settings                                 settings
}

// NewGenerated returns a factory. The options WithNamespace and WithTweakListOptions have no
// effect: pass these values to a group's New instead. If this package cannot read the fields of
// client-go's informers (ErrLayout), it logs the reason, and the factory returns client-go's
// informers.
func NewGenerated[C any, F ~func(C, time.Duration) cache.SharedIndexInformer](client C, resync time.Duration, opts ...Option) *Generated[C, F] {
	s := settingsOf(opts)
	theirs := s.upstreamFactory(nil, resync)
	return &Generated[C, F]{s.named(theirs), theirs, withTransport(&s, client), s}
}

// upstreamFactory returns client-go's factory with the settings, except the name. It stores, starts
// and stops the informers of a factory of this package.
func (s *settings) upstreamFactory(client kubernetes.Interface, resync time.Duration) informers.SharedInformerFactory {
	return informers.NewSharedInformerFactoryWithOptions(client, resync, informers.WithNamespace(s.namespace), informers.WithTweakListOptions(s.tweak),
		informers.WithTransform(s.transform), informers.WithCustomResyncConfig(s.customResync))
}

// named returns f with the name that WithInformerName sets.
func (s *settings) named(f internalinterfaces.SharedInformerFactory) internalinterfaces.SharedInformerFactory {
	if s.withName == nil {
		return f
	}
	return s.withName(f)
}

// shutdown shuts down client-go's factory, and releases the name.
func (s *settings) shutdown(theirs informers.SharedInformerFactory) {
	theirs.Shutdown()
	if s.name != nil {
		s.name.Release()
	}
}

// InformerFor returns the informer of obj's type. The first call for a type calls newFunc to build
// it.
func (f *Generated[C, F]) InformerFor(obj runtime.Object, newFunc F) cache.SharedIndexInformer {
	return f.theirs.InformerFor(obj, func(_ kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		return f.settings.adopt(newFunc(f.client, resync), "")
	})
}

// Start starts the informers that the program has requested and that do not run yet. They run until
// the channel is closed. Start does not block.
func (f *Generated[C, F]) Start(stop <-chan struct{}) { f.theirs.Start(stop) }

// StartWithContext starts the informers that the program has requested and that do not run yet.
// They run until the context ends. StartWithContext does not block.
func (f *Generated[C, F]) StartWithContext(ctx context.Context) { startWithContext(ctx, f.theirs) }

// startWithContext calls StartWithContext of a factory or, if the factory is of an older release
// and lacks it, Start.
func startWithContext(ctx context.Context, factory interface{ Start(<-chan struct{}) }) {
	if later, ok := factory.(interface{ StartWithContext(context.Context) }); ok {
		later.StartWithContext(ctx)
		return
	}
	factory.Start(ctx.Done())
}

// Shutdown blocks until the informers have stopped. It does not stop them: the caller must close
// the channel or cancel the context that it passed to Start or StartWithContext. After Shutdown,
// Start does nothing.
func (f *Generated[C, F]) Shutdown() { f.settings.shutdown(f.theirs) }

// WaitForCacheSync blocks until all started informers have synced or the channel is closed. It
// returns whether each started informer has synced.
func (f *Generated[C, F]) WaitForCacheSync(stop <-chan struct{}) map[reflect.Type]bool {
	return f.theirs.WaitForCacheSync(stop)
}

// SyncResult is the result of WaitForCacheSyncWithContext. It is like client-go's type of this
// name, which v0.34 lacks.
type SyncResult struct {
	// Err is nil if all started informers have synced, otherwise the context's cause.
	Err error
	// Synced reports whether each started informer has synced.
	Synced map[reflect.Type]bool
}

// AsError returns nil if all started informers have synced. Otherwise it returns an error that
// wraps Err and names the types of the other informers.
func (r SyncResult) AsError() error {
	if r.Err == nil {
		return nil
	}
	var missing []string
	for t, synced := range r.Synced {
		if !synced {
			missing = append(missing, t.String())
		}
	}
	slices.Sort(missing)
	return fmt.Errorf("clientgo: informers of %s have not synced: %w", strings.Join(missing, ", "), r.Err)
}

// WaitForCacheSyncWithContext blocks until all started informers have synced or the context ends.
func (f *Generated[C, F]) WaitForCacheSyncWithContext(ctx context.Context) SyncResult {
	result := SyncResult{Synced: f.theirs.WaitForCacheSync(ctx.Done())}
	for _, synced := range result.Synced {
		if !synced {
			result.Err = context.Cause(ctx)
		}
	}
	return result
}
