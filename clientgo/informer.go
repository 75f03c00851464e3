package clientgo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/weirproject/weir/internal/core/checks"
	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/engine"
	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/store"
)

// NewSharedIndexInformer replaces client-go's function of the same name. If lw's client was built
// from a config that was passed to Wrap, the informer captures the responses and reads the bodies
// itself. Otherwise it uses the objects that lw returns. example is a pointer to a struct, or nil.
// If example is nil, the informer captures nothing and stores the objects that lw returns without
// encoding them. Index functions may be called on any goroutine. Calls of one index function do not
// overlap, except the calls by Indexer.Index.
func NewSharedIndexInformer(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	return NewSharedIndexInformerWithOptions(lw, example, resync, indexers, Options{})
}

// NewSharedInformer replaces client-go's function of the same name. It is NewSharedIndexInformer
// without indexes.
func NewSharedInformer(lw cache.ListerWatcher, example runtime.Object, resync time.Duration) cache.SharedInformer {
	return NewSharedIndexInformer(lw, example, resync, nil)
}

// NewSharedIndexInformerWithOptions is NewSharedIndexInformer with options. It panics if opts.Shard
// is invalid.
func NewSharedIndexInformerWithOptions(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers, opts Options) cache.SharedIndexInformer {
	p := informerFields{lw: lw, example: example, resync: resync, indexers: indexers}
	switch {
	case isOff(&opts):
		return p.original(&opts)
	case opts.Shadow != NoShadow:
		theirs := p
		if opts.Shadow == ShadowClientGo {
			theirs.indexers = nil
		}
		return newShadowed(theirs.original(&opts), p, "", opts)
	}
	return p.replacement(nil, "", opts)
}

// decodedIdle is the default of Options.DecodedIdle. It is long enough for a controller that reads
// an object several times while it handles one key. It is short enough that an object which is read
// once a minute does not stay decoded.
const decodedIdle = 15 * time.Second

// informer implements cache.SharedIndexInformer.
type informer struct {
	syncChecker      // provides HasSyncedChecker; the first HasSynced that is true completes it
	upstreamInformer // has the arguments of this informer; see upstream.go
	variants

	name                 string // the description or the Go type, for messages
	example              runtime.Object
	engine               *engine.Engine
	store                *store.Store
	sink                 *sink
	indexer              *indexer
	listWatch            *listWatch
	stats                source.Stats
	synced               atomic.Bool // syncChecker is complete
	syncing              sync.Once
	placeholderReflector *cache.Reflector // argument of watch error handlers; it never runs

	defaultResync time.Duration

	mu             sync.Mutex
	started        bool
	resyncCheck    time.Duration // the shortest resync period of a handler; 0 disables resyncs
	onError        cache.WatchErrorHandlerWithContext
	runContext     context.Context // nil before the start
	handlers       map[*registration]struct{}
	failures       failures // as of the last onStatus
	skipped        error    // Status.SkippedErr in the last onStatus
	relists        int      // Status.Relists in the last onStatus
	resyncOnRelist bool     // Options.ResyncOnRelist

	shadowed *shadowed // if Options.Shadow is set: what contains this informer
}

var _ cache.SharedIndexInformer = (*informer)(nil)

// newInformer returns an informer. Its name in errors, in metrics and on the debug page is
// description, or the example's type if description is "".
func newInformer(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers, description string, opts Options) *informer {
	example = nonNil(example)
	values := codec.Of(example)
	lw, captures := capturable(lw)
	if t := values.Type(); !captures || t == nil || !hasWireForm(t) {
		opts.NoCapture = true
	}
	opts.DetectMutation = opts.DetectMutation || checks.DetectMutations()
	i := &informer{
		name:           cmp.Or(description, fmt.Sprintf("%T", example)),
		example:        example,
		sink:           &sink{codec: values, pin: opts.PinDecoded},
		defaultResync:  resync,
		resyncCheck:    resync,
		onError:        cache.DefaultWatchErrorHandler,
		handlers:       map[*registration]struct{}{},
		resyncOnRelist: opts.ResyncOnRelist,
	}
	if opts.DetectMutation || opts.PrivateCopies {
		opts.ShareDecoded = false // so that a caller's change appears only in the changed object
	}
	if err := opts.Shard.Validate(); err != nil {
		panic(fmt.Errorf("clientgo: %w", err))
	}
	var comparison *engine.Comparison
	if opts.Shadow != NoShadow {
		comparison = &engine.Comparison{}
	}
	tuning := opts.reflectorConfig()
	tuning.OnItemType = values.SetItemType
	i.engine = engine.New(engine.Config{
		Name:       i.name,
		Store:      opts.storeConfig(values),
		Reflector:  tuning,
		Requests:   &i.stats,
		Comparison: comparison,
		Sink: func(w *store.Writer) reflector.Sink {
			i.sink.Writer, i.sink.name = w, i.name
			return i.sink
		},
		OnStatus:   i.onStatus,
		Background: func(ctx context.Context) { i.indexer.reader.runMutationDetector(ctx) },
	})
	i.variants.of = i
	i.store = i.engine.Store()
	i.sink.store = i.store
	i.syncChecker = newSyncChecker("SharedIndexInformer " + i.name)
	i.upstreamInformer.SharedIndexInformer = cache.NewSharedIndexInformer(lw, example, resync, cache.Indexers{})
	i.indexer = &indexer{store: i.store, reader: newReader(opts, i.store, values), indexers: cache.Indexers{}}
	i.indexer.Indexer = i.upstreamInformer.GetIndexer()
	i.sink.sharesTransformed = !opts.PrivateCopies && !opts.DetectMutation && !opts.ShareDecoded
	i.listWatch = newListWatch(lw, newResponseMatcher(example, opts.Scheme), &i.stats, opts.NoCapture)
	i.listWatch.clientCopied = opts.clientCopied
	i.listWatch.name, i.listWatch.expected = i.name, source.ExpectedOf(example)
	i.engine.Reflect(i.listWatch, store.Scope{}, "", "")
	i.placeholderReflector = cache.NewReflectorWithOptions(lw, example, i.indexer, cache.ReflectorOptions{Name: "weir/clientgo", TypeDescription: description})
	if err := i.indexer.AddIndexers(indexers); err != nil {
		panic(err) // cannot happen: a map has no duplicate names
	}
	return i
}

// nonNil replaces an example that is a nil pointer to a struct by a pointer to a zero struct. It
// returns any other example unchanged.
func nonNil(example runtime.Object) runtime.Object {
	if v := reflect.ValueOf(example); v.Kind() == reflect.Pointer && v.IsNil() && v.Type().Elem().Kind() == reflect.Struct {
		return reflect.New(v.Type().Elem()).Interface().(runtime.Object)
	}
	return example
}

// RunWithContext lists, watches and calls handlers until ctx ends. It then waits until lists,
// watches and their transforms have ended, and until active handler calls have returned. After 10 s
// it logs the handlers for which it waits. A second call logs a warning and returns immediately.
func (i *informer) RunWithContext(ctx context.Context) {
	logger := klog.FromContext(ctx)
	i.mu.Lock()
	if i.started {
		i.mu.Unlock()
		logger.Info("Warning: the informer was already started; it runs once", "type", i.name)
		return
	}
	i.started, i.runContext = true, ctx
	i.mu.Unlock()
	i.applyShardSelector()

	if err := i.engine.Run(ctx); err != nil {
		logger.Error(err, "Informer stopped", "type", i.name)
	}
	i.mu.Lock()
	handlers := slices.Collect(maps.Keys(i.handlers))
	i.mu.Unlock()
	for _, r := range handlers {
		<-r.delivery.Done()
	}
}

// HasSynced reports whether the first list is stored. Handlers may not have handled all objects of
// the list yet. After a handler has handled all of them, HasSynced returns true on every goroutine.
func (i *informer) HasSynced() bool {
	if !i.synced.Load() && i.store.Synced() {
		i.syncing.Do(func() {
			completeSync(i.syncChecker)
			i.synced.Store(true)
		})
	}
	return i.synced.Load()
}

// LastSyncResourceVersion returns the resourceVersion up to which the informer has received
// everything.
func (i *informer) LastSyncResourceVersion() string { return i.store.ResourceVersion() }

// IsStopped reports whether the informer has stopped.
func (i *informer) IsStopped() bool { return i.engine.Stopped() }

// GetStore returns the informer's indexer.
func (i *informer) GetStore() cache.Store { return i.indexer }

// GetIndexer returns the informer's indexer.
func (i *informer) GetIndexer() cache.Indexer { return i.indexer }

// AddIndexers adds indexers. It may be called before or after the start. It returns an error if the
// informer has stopped, or if an indexer of one of the names exists.
func (i *informer) AddIndexers(indexers cache.Indexers) error {
	if i.IsStopped() {
		return errNotIndexed
	}
	return i.indexer.AddIndexers(indexers)
}

// SetTransform sets the function that transforms objects before the informer stores them. It
// returns an error after the start.
func (i *informer) SetTransform(transform cache.TransformFunc) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.started {
		return errStarted
	}
	i.sink.transform = transform
	return nil
}

// GetController returns a controller whose HasSynced and LastSyncResourceVersion are the
// informer's. The controller's Run does nothing.
func (i *informer) GetController() cache.Controller { return controllerOf(i, &i.upstreamInformer) }

// SetWatchErrorHandlerWithContext sets the handler that receives the errors of failed lists and
// refused watches. It returns an error after the start. The handler runs on the goroutine that
// lists and watches, and blocks it. Its arguments are the context of Run, a Reflector that has only
// a name, a description of the objects and the informer's resourceVersion, and the error. If
// handler is nil, the informer uses client-go's default handler, which logs the error.
func (i *informer) SetWatchErrorHandlerWithContext(handler cache.WatchErrorHandlerWithContext) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.started {
		return errStarted
	}
	if handler == nil {
		handler = cache.DefaultWatchErrorHandler
	}
	i.onError = handler
	return nil
}

// onStatus receives each new status of the reflector. After a relist it resyncs the handlers if
// Options.ResyncOnRelist is set. Until the context of Run ends, it calls the watch error handler
// for the errors for which client-go would call it.
func (i *informer) onStatus(s reflector.Status) {
	i.HasSynced() // HasSynced completes syncChecker
	i.mu.Lock()
	ctx, handler := i.runContext, i.onError
	passes := i.failures.next(s.Err)
	skips := s.SkippedErr != nil && s.SkippedErr != i.skipped
	i.skipped = s.SkippedErr
	if s.Relists > i.relists && i.resyncOnRelist {
		for r := range i.handlers {
			r.delivery.ResyncNow()
		}
	}
	i.relists = s.Relists
	i.mu.Unlock()
	if ctx == nil || ctx.Err() != nil {
		return
	}
	// The sink has already logged an object that it refused (reflector.Refusal).
	if _, reported := errors.AsType[reflector.Refusal](s.SkippedErr); skips && !reported {
		utilruntime.HandleErrorWithContext(ctx, s.SkippedErr, "Skipped an object", "type", i.name)
	}
	if passes {
		defer utilruntime.HandleCrashWithContext(ctx)
		setVersion(i.placeholderReflector, i.store.ResourceVersion())
		handler(ctx, i.placeholderReflector, s.Err)
	}
}
