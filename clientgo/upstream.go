package clientgo

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/weirproject/weir/internal/core/private"
	"github.com/weirproject/weir/internal/core/shard"
)

// client-go's interfaces grow in almost every release, and use types that earlier releases lack.
// Therefore the types of this package embed values of client-go, which provide the methods that
// this package does not implement. TestUpstreamMethods lists these methods, and what each does.

// upstreamInformer is a client-go informer that never runs. It provides the methods of
// cache.SharedIndexInformer that informer lacks.
type upstreamInformer struct{ cache.SharedIndexInformer }

// upstreamController is the controller of an upstreamInformer.
type upstreamController struct{ cache.Controller }

// controller makes an informer of this package a cache.Controller.
type controller struct {
	cache.SharedIndexInformer
	upstreamController
}

func (controller) Run(<-chan struct{})            {}
func (controller) RunWithContext(context.Context) {}

// controllerOf returns the result of an informer's GetController.
func controllerOf(inf cache.SharedIndexInformer, theirs *upstreamInformer) cache.Controller {
	return controller{inf, upstreamController{theirs.GetController()}}
}

// ownerOf returns the informer of this package that inf is or wraps, or nil. It finds the informer
// by inf's controller, because wrappers such as client-go's typed informers return the controller
// of the informer that they wrap, and because GetController does not start an informer.
func ownerOf(inf cache.SharedIndexInformer) (owner cache.SharedIndexInformer) {
	defer func() { _ = recover() }() // GetController of a test's fake may panic
	if inf != nil {
		if c, ok := inf.GetController().(controller); ok {
			return c.SharedIndexInformer
		}
	}
	return nil
}

// variants has the methods of cache.SharedIndexInformer that only call another of its methods.
type variants struct{ of cache.SharedIndexInformer }

// Run is RunWithContext with a context that ends when the channel is closed.
func (v variants) Run(stop <-chan struct{}) { v.of.RunWithContext(wait.ContextForChannel(stop)) }

// AddEventHandler adds a handler with the informer's default resync period.
func (v variants) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return v.of.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod adds a handler with the given resync period; 0 means no resync.
func (v variants) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, resync time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return v.of.AddEventHandlerWithOptions(handler, cache.HandlerOptions{ResyncPeriod: &resync})
}

// SetWatchErrorHandler sets the handler that receives the errors of failed lists and refused
// watches. It returns an error after the start.
func (v variants) SetWatchErrorHandler(handler cache.WatchErrorHandler) error {
	return v.of.SetWatchErrorHandlerWithContext(func(_ context.Context, r *cache.Reflector, err error) { handler(r, err) })
}

// setVersion sets the resourceVersion of a client-go Reflector that does not run, for the watch
// error handler that receives it.
func setVersion(r *cache.Reflector, version string) {
	v := reflect.ValueOf(r).Elem()
	mu, to := field[sync.RWMutex](v, "lastSyncResourceVersionMutex"), field[string](v, "lastSyncResourceVersion")
	if mu != nil && to != nil {
		mu.Lock()
		defer mu.Unlock()
		*to = version
	}
}

// syncChecker provides the method HasSyncedChecker, whose result type client-go has since v0.36.
// Its value is a DeltaFIFO: client-go has no other checker that another package can complete.
type syncChecker = cache.ResourceEventHandlerRegistration

// newSyncChecker returns a checker with the given name.
func newSyncChecker(name string) syncChecker {
	opts := cache.DeltaFIFOOptions{}
	if f := reflect.ValueOf(&opts).Elem().FieldByName("Name"); f.IsValid() { // since v0.36
		f.SetString(name)
	}
	return cache.NewDeltaFIFOWithOptions(opts)
}

// completeSync makes a checker done.
func completeSync(s syncChecker) { _ = s.(cache.Queue).Replace(nil, "") } // no object, so no error

// applyShardSelector restricts the informer to the shard that SetShardSelector has set, which
// client-go has since v0.38. It takes precedence over Options.Shard. From then on, client-go's
// setters return an error, as after the start of its own informer, which also runs if there is a
// shadow.
func (i *informer) applyShardSelector() {
	theirs := informerStruct(i.upstreamInformer.SharedIndexInformer)
	mu := field[sync.Mutex](theirs, "startedLock")
	if mu == nil {
		if f := theirs.FieldByName("shardSelector"); f.IsValid() && !f.IsNil() {
			klog.Background().Error(ErrLayout, "Cannot read a shard selector; the informer stores all objects", "type", i.name)
		}
		return
	}
	var selector any
	mu.Lock()
	if started := field[bool](theirs, "started"); started != nil && i.shadowed == nil {
		*started = true
	}
	if f, ok := private.Field(theirs, "shardSelector"); ok {
		selector = f.Interface()
	}
	mu.Unlock()
	if s, ok := selector.(fmt.Stringer); ok && s.String() != "" {
		parsed, err := shard.Parse(s.String())
		if err != nil {
			klog.Background().Error(err, "Only the server can apply a shard selector", "type", i.name)
		}
		i.engine.SetShard(s.String(), parsed.Keep())
	}
}

// InformerName is the interface of *cache.InformerName, which client-go has since v0.36.
type InformerName interface {
	Name() string
	Release()
}

// namedFactory replaces the method InformerName of a factory. If N is *cache.InformerName, the type
// implements the interface of client-go since v0.36.
type namedFactory[N InformerName] struct {
	internalinterfaces.SharedInformerFactory
	name N
}

func (f namedFactory[N]) InformerName() N { return f.name }

type nameFactory func(internalinterfaces.SharedInformerFactory) internalinterfaces.SharedInformerFactory

func withName[N InformerName](name N) nameFactory {
	return func(f internalinterfaces.SharedInformerFactory) internalinterfaces.SharedInformerFactory {
		if named, ok := any(namedFactory[N]{f, name}).(internalinterfaces.SharedInformerFactory); ok {
			return named
		}
		return f // N is another type: generated code has no use for the name
	}
}

// publishedStore returns a store of client-go that publishes the resourceVersion that its method
// Bookmark receives as a metric of the named informers of a resource. It returns nil if name is
// nil.
func publishedStore(name InformerName, resource schema.GroupVersionResource) bookmarker {
	var opts cache.SharedIndexInformerOptions
	identifier := reflect.ValueOf(&opts).Elem().FieldByName("Identifier")
	if name == nil || !identifier.IsValid() {
		return nil
	}
	identifier.Set(reflect.ValueOf(name).MethodByName("WithResource").Call([]reflect.Value{reflect.ValueOf(resource)})[0])
	store, _ := cache.NewSharedIndexInformerWithOptions(&cache.ListWatch{}, nil, opts).GetIndexer().(bookmarker)
	return store
}

// bookmarker has the method of a client-go store that publishes a resourceVersion; see
// sink.published.
type bookmarker interface{ Bookmark(resourceVersion string) }
