package clientgo

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/weirproject/weir"
)

// New replaces client-go's function of the same name. The returned Controller writes what the
// server sends to c.Queue, like a Reflector, and passes the Queue's Deltas to c.Process. All fields
// of c have client-go's meaning.
//
// With a Queue of client-go or of the program, client-go's own Controller calls Pop and Process (or
// ProcessBatch), so errors and panics of Process have the same effects as with client-go. Such a
// Queue grows, as with client-go, while Process is slower than the server, and the first list is in
// memory until Process has received it.
//
// With a Queue of this package, see DeltaFIFO, the Controller stores nothing: Process receives each
// object when it arrives. If c.Queue is nil, New uses such a Queue without KnownObjects.
func New(c *cache.Config) cache.Controller {
	cfg := *c
	if cfg.Queue == nil {
		cfg.Queue = NewDeltaFIFOWithOptions(cache.DeltaFIFOOptions{EmitDeltaTypeReplaced: true})
	}
	if isOff(&Options{}) {
		cfg.ListerWatcher, _ = capturable(cfg.ListerWatcher)
		return cache.New(&cfg)
	}
	out := &queueController{}
	var store cache.ReflectorStore = cfg.Queue
	if fifo, ok := cfg.Queue.(*DeltaFIFO); ok {
		out.processor = &processor{fifo: fifo, process: cfg.Process, keys: map[string]struct{}{}}
		store = out.processor
	}
	r := NewReflectorWithOptions(cfg.ListerWatcher, cfg.ObjectType, store, cache.ReflectorOptions{
		ResyncPeriod: cfg.FullResyncPeriod, MinWatchTimeout: cfg.MinWatchTimeout, TypeDescription: cfg.ObjectDescription,
	})
	r.ShouldResync, r.WatchListPageSize = cfg.ShouldResync, cfg.WatchListPageSize
	if handler := cfg.WatchErrorHandler; handler != nil {
		r.onError = func(_ context.Context, r *cache.Reflector, err error) { handler(r, err) }
	} else if cfg.WatchErrorHandlerWithContext != nil {
		r.onError = cfg.WatchErrorHandlerWithContext
	}
	// client-go's Controller always runs a client-go Reflector. The List of that Reflector fails, and
	// its watch error handler then runs Weir's Reflector until the context ends.
	cfg.ListerWatcher, cfg.WatchErrorHandler = &cache.ListWatch{
		ListWithContextFunc:  func(context.Context, metav1.ListOptions) (runtime.Object, error) { return nil, errReplaced },
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return nil, errReplaced },
	}, nil
	cfg.WatchErrorHandlerWithContext = func(ctx context.Context, _ *cache.Reflector, _ error) { r.RunWithContext(ctx) }
	out.Controller, out.reflector = cache.New(&cfg), r
	return out
}

var errReplaced = errors.New("clientgo: another Reflector lists and watches")

// queueController is the Controller that New returns. It embeds client-go's Controller, whose
// HasSynced and HasSyncedChecker read the Queue.
type queueController struct {
	cache.Controller
	reflector *Reflector
	processor *processor // nil if the Queue is not of this package
	started   atomic.Bool
}

// Run is RunWithContext with a context that ends when the channel is closed.
func (c *queueController) Run(stop <-chan struct{}) { c.RunWithContext(wait.ContextForChannel(stop)) }

// RunWithContext blocks until ctx ends and the active call of Process has returned. A second call
// logs a warning and returns immediately.
func (c *queueController) RunWithContext(ctx context.Context) {
	switch {
	case c.started.Swap(true):
		klog.FromContext(ctx).Info("Warning: the controller was already started; it runs once", "type", c.reflector.TypeDescription())
	case c.processor == nil:
		c.Controller.RunWithContext(ctx)
	default:
		c.processor.context = ctx
		var popping sync.WaitGroup
		defer popping.Wait()
		defer c.processor.fifo.Close()
		popping.Go(c.processor.popAll)
		c.reflector.RunWithContext(ctx)
	}
}

// LastSyncResourceVersion returns the resourceVersion up to which the Queue has received
// everything, or "" before the first list.
func (c *queueController) LastSyncResourceVersion() string {
	return c.reflector.LastSyncResourceVersion()
}

// NewInformer replaces client-go's function of the same name; see NewInformerWithOptions.
func NewInformer(lw cache.ListerWatcher, objType runtime.Object, resync time.Duration, h cache.ResourceEventHandler) (cache.Store, cache.Controller) {
	return NewIndexerInformer(lw, objType, resync, h, nil)
}

// NewIndexerInformer replaces client-go's function of the same name; see NewInformerWithOptions.
func NewIndexerInformer(lw cache.ListerWatcher, objType runtime.Object, resync time.Duration, h cache.ResourceEventHandler, indexers cache.Indexers) (cache.Indexer, cache.Controller) {
	return NewTransformingIndexerInformer(lw, objType, resync, h, indexers, nil)
}

// NewTransformingInformer replaces client-go's function of the same name; see
// NewInformerWithOptions.
func NewTransformingInformer(lw cache.ListerWatcher, objType runtime.Object, resync time.Duration, h cache.ResourceEventHandler, transform cache.TransformFunc) (cache.Store, cache.Controller) {
	return NewTransformingIndexerInformer(lw, objType, resync, h, nil, transform)
}

// NewTransformingIndexerInformer replaces client-go's function of the same name; see
// NewInformerWithOptions.
func NewTransformingIndexerInformer(lw cache.ListerWatcher, objType runtime.Object, resync time.Duration, h cache.ResourceEventHandler, indexers cache.Indexers, transform cache.TransformFunc) (cache.Indexer, cache.Controller) {
	return newHandledInformer(cache.InformerOptions{
		ListerWatcher: lw, ObjectType: objType, ResyncPeriod: resync, Handler: h, Indexers: indexers, Transform: transform,
	})
}

// NewInformerWithOptions replaces client-go's function of the same name. The Store is the indexer,
// and the Controller runs the informer, of a NewSharedIndexInformer with one handler; the
// Controller's HasSynced reports whether the handler has handled every object of the first list.
// Unlike with client-go, the Store may already contain later changes when the handler receives a
// change. The options Identifier and InformerMetricsProvider of newer client-go versions have no
// effect, and the Logger is that of Run's context.
func NewInformerWithOptions(options cache.InformerOptions) (cache.Store, cache.Controller) {
	return newHandledInformer(options)
}

func newHandledInformer(o cache.InformerOptions) (cache.Indexer, cache.Controller) {
	if isOff(&Options{}) {
		o.ListerWatcher, _ = capturable(o.ListerWatcher)
		store, controller := cache.NewInformerWithOptions(o)
		return store.(cache.Indexer), controller // every store of client-go's informers is an indexer
	}
	i := newInformer(o.ListerWatcher, o.ObjectType, o.ResyncPeriod, o.Indexers, "", Options{
		ResyncOnRelist: true, ListWatch: weir.ListWatch{WatchTimeout: max(o.MinWatchTimeout, minWatchTimeout)},
	})
	_ = i.SetTransform(o.Transform) // returns an error only after the start
	added, err := i.AddEventHandler(o.Handler)
	if err != nil {
		panic(err) // cannot happen: the informer has not stopped
	}
	r := added.(*registration)
	return i.indexer, &handlerController{r.syncChecker, upstreamController{i.upstreamInformer.GetController()}, r}
}

// handlerController is the Controller of an informer with one handler.
type handlerController struct {
	syncChecker        // of the handler; provides HasSyncedChecker
	upstreamController // never runs
	handler            *registration
}

// Run is RunWithContext with a context that ends when the channel is closed.
func (c *handlerController) Run(stop <-chan struct{}) { c.RunWithContext(wait.ContextForChannel(stop)) }

// RunWithContext runs the informer until ctx ends; see NewSharedIndexInformer.
func (c *handlerController) RunWithContext(ctx context.Context) {
	c.handler.informer.RunWithContext(ctx)
}

// HasSynced reports whether the handler has handled every object of the first list.
func (c *handlerController) HasSynced() bool { return c.handler.HasSynced() }

// LastSyncResourceVersion returns the resourceVersion up to which the Store has received
// everything.
func (c *handlerController) LastSyncResourceVersion() string {
	return c.handler.informer.LastSyncResourceVersion()
}

// markSynced makes HasSynced of an empty queue true. The deletion of an unknown object adds nothing
// to the queue.
func markSynced(queue *cache.DeltaFIFO) { _ = queue.Delete(cache.DeletedFinalStateUnknown{}) }
