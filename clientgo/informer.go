package clientgo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/weirproject/weir/internal/engine"
	"github.com/weirproject/weir/internal/mutation"
	"github.com/weirproject/weir/internal/reflector"
	"github.com/weirproject/weir/internal/source"
	"github.com/weirproject/weir/internal/store"
	"github.com/weirproject/weir/internal/wire"
)

// NewSharedIndexInformer is client-go's function of that name. Where lw's client was built from a config that Wrap was
// called on, lists and watches are read as they arrive; elsewhere through what lw returns. example must be a pointer to a
// struct, as all kinds are; with nil nothing is captured, and objects are held as they are.
func NewSharedIndexInformer(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	return NewSharedIndexInformerWithOptions(lw, example, resync, indexers, Options{})
}

// NewSharedInformer is client-go's function of that name: NewSharedIndexInformer without indexes.
func NewSharedInformer(lw cache.ListerWatcher, example runtime.Object, resync time.Duration) cache.SharedInformer {
	return NewSharedIndexInformer(lw, example, resync, nil)
}

// NewSharedIndexInformerWithOptions is NewSharedIndexInformer with the options of this package.
func NewSharedIndexInformerWithOptions(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers, opts Options) cache.SharedIndexInformer {
	return newInformer(lw, example, resync, indexers, opts)
}

// decodedIdle is the default of Options.DecodedIdle: long enough for a key that is worked on, and short enough for keys that
// come round once a minute not to add up to everything.
const decodedIdle = 15 * time.Second

// informer is a cache.SharedIndexInformer on an engine.
type informer struct {
	name                 string // of its type, in messages
	example              runtime.Object
	engine               *engine.Engine
	store                *store.Store
	sink                 *sink
	indexer              *indexer
	listWatch            *listWatch
	stats                source.Stats
	synced               chan struct{}
	ended                chan struct{}    // closed when it has run
	placeholderReflector *cache.Reflector // what a watch error handler is shown; it never runs

	defaultResync time.Duration
	handlerCount  atomic.Int32 // how many handlers there are

	mu             sync.Mutex
	started        bool
	resyncCheck    time.Duration // the shortest period; 0: no resyncs at all
	onError        cache.WatchErrorHandlerWithContext
	runContext     context.Context // from start on
	handlers       map[*registration]struct{}
	lastErr        error
	relists        int  // that handlers have been told of
	resyncOnRelist bool // tell them
}

var _ cache.SharedIndexInformer = (*informer)(nil)

func newInformer(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers, opts Options) *informer {
	codec := newCodec(example)
	if codec.goType == nil {
		opts.NoCapture = true
	}
	opts.DetectMutation = opts.DetectMutation || mutation.ByEnvironment()
	i := &informer{
		name:           fmt.Sprintf("%T", example),
		example:        example,
		sink:           &sink{codec: codec, objects: &objectStream{}, pin: opts.PinDecoded},
		synced:         make(chan struct{}),
		ended:          make(chan struct{}),
		defaultResync:  resync,
		resyncCheck:    resync,
		onError:        cache.DefaultWatchErrorHandler,
		handlers:       map[*registration]struct{}{},
		resyncOnRelist: opts.ResyncOnRelist,
	}
	if opts.DetectMutation || opts.PrivateCopies {
		opts.ShareDecoded = false // a change is found at the object that was changed
	}
	decode := codec.decode
	if opts.ShareDecoded {
		decode = codec.decodeShared
	}
	if opts.DecodedIdle == 0 {
		opts.DecodedIdle = decodedIdle
	}
	tuning := opts.Reflector
	if tuning.Mode == reflector.Auto {
		tuning.Mode = reflector.List
	}
	tuning.Take, tuning.OnItemType = i.take, codec.setItemType
	if err := opts.Shard.Validate(); err != nil {
		panic(fmt.Errorf("clientgo: %w", err))
	}
	sel := opts.Shard.Selector()
	tuning.Keep = i.sink.keepFunc(sel, tuning.Keep)
	i.engine = engine.New(engine.Config{
		Name: i.name,
		Store: store.Config{
			Decode:        decode,
			DecodedBudget: opts.DecodedBudget,
			DecodedIdle:   opts.DecodedIdle,
			LogBytes:      opts.LogBytes,
		},
		Reflector: tuning,
		OnStatus:  i.onStatus,
	})
	i.store = i.engine.Store()
	i.sink.store = i.store
	i.indexer = newIndexer(i.store, newReader(opts, codec, &i.sink.finals))
	i.indexer.informer = i
	i.sink.onTransformed = func(o *store.Object, value any) {
		if i.handlerCount.Load() > 0 {
			i.indexer.reader.cacheTransformed(o, value)
		}
	}
	i.listWatch = newListWatch(lw, i.sink.objects, newResponseMatcher(example, opts.Scheme), &i.stats, opts.NoCapture)
	i.listWatch.shard = sel.String()
	i.engine.Reflect(i.listWatch, store.Scope{}, "")
	i.placeholderReflector = cache.NewReflectorWithOptions(lw, example, i.indexer, cache.ReflectorOptions{Name: "weir/clientgo"})
	if err := i.indexer.AddIndexers(indexers); err != nil {
		panic(err) // a map has no name twice
	}
	return i
}

// take takes an object in. One that cannot be is left out, and reported: nobody else may learn why it is missing.
func (i *informer) take(w *store.Writer, t wire.EventType, m *wire.Meta, raw []byte) error {
	err := i.sink.take(w, t, m, raw)
	if err != nil && !errors.Is(err, store.ErrClosed) {
		utilruntime.HandleError(fmt.Errorf("%s: %s is left out: %w", i.name, wire.AppendKey(nil, m), err))
	}
	return err
}

// Run runs the informer until the channel is closed.
func (i *informer) Run(stop <-chan struct{}) { i.RunWithContext(wait.ContextForChannel(stop)) }

// RunWithContext lists, watches and serves handlers until the context ends and the handlers have returned, or have been
// waited for long enough. Calling it again does nothing.
func (i *informer) RunWithContext(ctx context.Context) {
	logger := klog.FromContext(ctx)
	i.mu.Lock()
	if i.started {
		i.mu.Unlock()
		logger.Info("Warning: the informer was started before; it runs once", "type", i.name)
		return
	}
	i.started, i.runContext = true, ctx
	i.mu.Unlock()

	var waiting sync.WaitGroup
	waiting.Go(func() {
		if i.store.WaitSynced(ctx) == nil {
			close(i.synced)
		}
	})
	waiting.Go(func() { i.indexer.reader.runMutationDetector(ctx) })
	if err := i.engine.Run(ctx); err != nil {
		logger.Error(err, "Informer stopped", "type", i.name)
	}
	waiting.Wait()
	i.indexer.reader.close()
	close(i.ended)
}

// HasSynced reports whether the first list is held.
func (i *informer) HasSynced() bool {
	select {
	case <-i.synced:
		return true
	default:
		return false
	}
}

// HasSyncedChecker is HasSynced to wait for.
func (i *informer) HasSyncedChecker() cache.DoneChecker {
	return checker{"SharedIndexInformer " + i.name, i.synced}
}

// checker is a cache.DoneChecker.
type checker struct {
	name string
	done <-chan struct{}
}

func (c checker) Name() string          { return c.name }
func (c checker) Done() <-chan struct{} { return c.done }

// LastSyncResourceVersion is the resourceVersion up to which everything is held.
func (i *informer) LastSyncResourceVersion() string { return i.store.ResourceVersion() }

// IsStopped reports whether the informer has run.
func (i *informer) IsStopped() bool { return i.engine.Stopped() }

// GetStore is GetIndexer.
func (i *informer) GetStore() cache.Store { return i.indexer }

// GetIndexer gives the informer's objects.
func (i *informer) GetIndexer() cache.Indexer { return i.indexer }

// AddIndexers adds indexes, before or after the start.
func (i *informer) AddIndexers(indexers cache.Indexers) error {
	if i.IsStopped() {
		return errNotIndexed
	}
	return i.indexer.AddIndexers(indexers)
}

// SetTransform sets what objects are put through before they are held. It must be called before the start.
func (i *informer) SetTransform(transform cache.TransformFunc) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.started {
		return errStarted
	}
	i.sink.transform = transform
	return nil
}

// GetController is for old callers: what it gives tells whether the informer has synced, and does nothing.
func (i *informer) GetController() cache.Controller { return controller{i} }

// controller is the informer seen as a cache.Controller, which somebody else runs.
type controller struct{ *informer }

func (controller) Run(<-chan struct{})            {}
func (controller) RunWithContext(context.Context) {}

// SetWatchErrorHandler sets who is told when listing or watching failed. It must be called before the start.
func (i *informer) SetWatchErrorHandler(handler cache.WatchErrorHandler) error {
	return i.SetWatchErrorHandlerWithContext(func(_ context.Context, r *cache.Reflector, err error) { handler(r, err) })
}

// SetWatchErrorHandlerWithContext is SetWatchErrorHandler with a context. The handler is called on the goroutine that
// lists and watches, and holds it up for as long as it takes. Its Reflector has a name and does nothing.
func (i *informer) SetWatchErrorHandlerWithContext(handler cache.WatchErrorHandlerWithContext) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.started {
		return errStarted
	}
	i.onError = handler
	return nil
}

// told is told of each change of the reflector's status.
func (i *informer) onStatus(s engine.Status) {
	i.mu.Lock()
	ctx, handler := i.runContext, i.onError
	fresh := s.Err != nil && s.Err != i.lastErr
	i.lastErr = s.Err
	if s.Relists > i.relists {
		i.relists = s.Relists
		for r := range i.handlers {
			if i.resyncOnRelist {
				r.delivery.ResyncNow()
			}
		}
	}
	i.mu.Unlock()
	if fresh && handler != nil && ctx != nil && ctx.Err() == nil {
		handler(ctx, i.placeholderReflector, s.Err)
	}
}
