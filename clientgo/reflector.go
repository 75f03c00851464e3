package clientgo

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/naming"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/source"
)

// Reflector lists and watches with a ListerWatcher and writes the objects to a store of the
// program, as client-go's Reflector does. If the ListerWatcher's client was built from a config
// that was passed to Wrap, the Reflector reads the bodies of the responses itself and decodes one
// object at a time. It stores no objects: while it receives a list, it collects the list's decoded
// objects for the store's Replace, unless the store is a StreamingStore.
//
// The store receives the same calls as with client-go, on one goroutine; only Resync is called on
// another goroutine, as with client-go. A list becomes one call of Replace, and an event becomes a
// call of Add, Update or Delete. If the store has the method Bookmark(string) error, the method
// receives the resourceVersion of each bookmark that is newer than the last event. If the store is
// a cache.ResourceVersionUpdater, it receives the version after each group of events that arrive
// together. An event for which the store returns an error is logged and not repeated. After an
// error of Replace, the watch error handler receives the error, and the Reflector lists again after
// a wait. After an error of Resync it also lists again after a wait. If an item of a list cannot be
// decoded, the list fails, so that Replace does not remove the item's object.
//
// The store's methods may block: the events from the server then wait in the buffers of the
// connection, or in the channel of the ListerWatcher's watch, and the Reflector reads no further
// event. If the server closes the watch meanwhile, the Reflector resumes the watch, or lists again
// if the server no longer has the events.
//
// A Reflector resumes watches and waits between retries as weir.NewInformer's informers do. Its
// requests are those of weir.ModeList; a WatchListPageSize selects weir.ModePages. The fields
// ShouldResync and WatchListPageSize have client-go's meaning. MaxInternalErrorRetryDuration has no
// effect. The fields must not change after the start.
type Reflector struct {
	// Reflector is a client-go Reflector that runs only if WEIR_CLIENTGO is off. It contains the
	// fields that a program may set, and watch error handlers receive it.
	*cache.Reflector

	listWatch       *listWatch // nil if the client-go Reflector runs
	codec           *codec.Codec
	store           cache.ReflectorStore
	stats           source.Stats
	resyncPeriod    time.Duration
	minWatchTimeout time.Duration
	backoff         wait.Backoff
	onError         cache.WatchErrorHandlerWithContext
	version         atomic.Pointer[string] // the store's resourceVersion; nil before the first list
}

// NewReflector replaces client-go's function of the same name; see NewReflectorWithOptions.
func NewReflector(lw cache.ListerWatcher, expectedType any, store cache.ReflectorStore, resync time.Duration) *Reflector {
	return NewReflectorWithOptions(lw, expectedType, store, cache.ReflectorOptions{ResyncPeriod: resync})
}

// NewNamedReflector replaces client-go's function of the same name; see NewReflectorWithOptions.
func NewNamedReflector(name string, lw cache.ListerWatcher, expectedType any, store cache.ReflectorStore, resync time.Duration) *Reflector {
	return NewReflectorWithOptions(lw, expectedType, store, cache.ReflectorOptions{Name: name, ResyncPeriod: resync})
}

// NewNamespaceKeyedIndexerAndReflector replaces client-go's function of the same name. The indexer
// is client-go's.
func NewNamespaceKeyedIndexerAndReflector(lw cache.ListerWatcher, expectedType any, resync time.Duration) (cache.Indexer, *Reflector) {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	return indexer, NewReflector(lw, expectedType, indexer, resync)
}

// NewReflectorWithOptions replaces client-go's function of the same name. expectedType is an
// example object, or nil for objects of any type. If it is nil or not a pointer to a struct, the
// Reflector captures no responses and uses the objects that lw returns. Of options.Backoff, which
// client-go has since 0.36, the Reflector uses Duration and Cap. options.Clock has no effect, and
// options.Logger is used only by client-go: the Reflector logs with the logger of Run's context.
func NewReflectorWithOptions(lw cache.ListerWatcher, expectedType any, store cache.ReflectorStore, options cache.ReflectorOptions) *Reflector {
	if options.Name == "" {
		options.Name = naming.GetNameFromCallsite("/clientgo/")
	}
	r := &Reflector{
		store: store, resyncPeriod: options.ResyncPeriod, minWatchTimeout: options.MinWatchTimeout, onError: cache.DefaultWatchErrorHandler,
		backoff: wait.Backoff{Duration: 800 * time.Millisecond, Cap: 30 * time.Second, Factor: 2, Jitter: 1, Steps: 10},
	}
	var backoff *wait.Backoff
	if readField(reflect.ValueOf(&options).Elem(), "Backoff", &backoff) && backoff != nil {
		r.backoff = *backoff
	}
	lw, captures := capturable(lw)
	r.Reflector = cache.NewReflectorWithOptions(lw, expectedType, store, options)
	if isOff(&Options{}) {
		return r
	}
	example, _ := expectedType.(runtime.Object)
	example = nonNil(example)
	r.codec = codec.Of(example)
	if t := r.codec.Type(); t == nil || !hasWireForm(t) {
		captures = false
	}
	r.listWatch = newListWatch(lw, newResponseMatcher(example, nil), &r.stats, !captures)
	r.listWatch.name, r.listWatch.expected = r.TypeDescription(), source.ExpectedOf(example)
	if example == nil {
		r.listWatch.expected.GoType = reflect.TypeOf(expectedType)
	}
	return r
}

// WithoutCapture returns a ListerWatcher whose responses no informer or Reflector of this package
// captures, like Options.NoCapture: they use the objects that lw returns. Pass it to a constructor
// without Options if lw changes its client's response, for example if lw filters objects.
func WithoutCapture(lw cache.ListerWatcher) cache.ListerWatcher { return uncaptured{lw} }

type uncaptured struct{ cache.ListerWatcher }

// capturable returns the ListerWatcher that was passed to WithoutCapture and false, or lw and true.
func capturable(lw cache.ListerWatcher) (cache.ListerWatcher, bool) {
	if u, ok := lw.(uncaptured); ok {
		return u.ListerWatcher, false
	}
	return lw, true
}

// LastSyncResourceVersion returns the resourceVersion up to which the store has received
// everything, or "" before the first list. It is safe for concurrent use.
func (r *Reflector) LastSyncResourceVersion() string {
	if r.listWatch == nil {
		return r.Reflector.LastSyncResourceVersion()
	}
	if v := r.version.Load(); v != nil {
		return *v
	}
	return ""
}

// Run is RunWithContext with a context that ends when the channel is closed.
func (r *Reflector) Run(stop <-chan struct{}) { r.RunWithContext(wait.ContextForChannel(stop)) }

// RunWithContext lists and watches until ctx ends. It blocks, and then also waits until the store's
// methods have returned. A Reflector must not run twice at the same time. If it runs again later,
// it starts with a list.
func (r *Reflector) RunWithContext(ctx context.Context) {
	if r.listWatch == nil {
		r.Reflector.RunWithContext(ctx)
		return
	}
	for delay := r.backoff.DelayFunc(); ctx.Err() == nil; {
		began := time.Now()
		r.listAndWatch(ctx, func(err error) {
			setVersion(r.Reflector, r.LastSyncResourceVersion())
			r.onError(ctx, r.Reflector, err)
		})
		if time.Since(began) > backoffReset {
			delay = r.backoff.DelayFunc()
		}
		pause(ctx, delay())
	}
}

// minWatchTimeout is the shortest timeout of a WATCH that a Reflector requests. It is client-go's
// value.
const minWatchTimeout = 5 * time.Minute

// backoffReset is how long a Reflector must run without an error of its store until the next such
// error causes the shortest wait. It is client-go's value.
const backoffReset = 2 * time.Minute

// pause blocks for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// ListAndWatch is ListAndWatchWithContext with a context that ends when the channel is closed.
func (r *Reflector) ListAndWatch(stop <-chan struct{}) error {
	return r.ListAndWatchWithContext(wait.ContextForChannel(stop))
}

// ListAndWatchWithContext lists and watches until the first error that a watch error handler would
// receive, and returns this error. It returns nil if ctx ends or if the store's Resync fails.
func (r *Reflector) ListAndWatchWithContext(ctx context.Context) (err error) {
	if r.listWatch == nil {
		return r.Reflector.ListAndWatchWithContext(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.listAndWatch(ctx, func(failure error) {
		if err == nil {
			err = failure
		}
		cancel()
	})
	return err
}

// listAndWatch lists and watches until ctx ends or the store fails. It calls onError for the errors
// for which client-go calls the watch error handler. If the store panics and
// utilruntime.ReallyCrash is false, it logs the panic and returns.
func (r *Reflector) listAndWatch(outer context.Context, onError func(error)) {
	ctx, cancel := context.WithCancelCause(outer)
	var resyncing sync.WaitGroup
	defer resyncing.Wait()
	defer cancel(nil)
	defer utilruntime.HandleCrashWithContext(ctx)
	cfg := reflector.Config{
		Name: r.Name(), Mode: reflector.List, OnItemType: r.codec.SetItemType,
		WatchTimeout: max(r.minWatchTimeout, minWatchTimeout),
		Backoff:      reflector.Backoff{Min: r.backoff.Duration, Max: r.backoff.Cap},
	}
	if r.WatchListPageSize != 0 {
		cfg.Mode, cfg.PageSize = reflector.Pages, r.WatchListPageSize
	}
	var f failures
	cfg.OnStatus = func(s reflector.Status) {
		if f.next(s.Err) && ctx.Err() == nil {
			onError(s.Err)
		}
	}
	to := &storeSink{reflector: r, context: ctx, onSynced: func() {
		if r.resyncPeriod > 0 {
			resyncing.Go(func() { r.resync(ctx, cancel) })
		}
	}}
	to.core = reflector.New(r.listWatch, to, cfg)
	err := to.core.Run(ctx)
	failed, isResync := errors.AsType[resyncError](err)
	switch {
	case outer.Err() != nil:
	case isResync:
		klog.FromContext(ctx).Info("Warning: the store's Resync failed; listing again", "reflector", r.Name(), "err", failed)
	default:
		onError(err)
	}
}

// resyncError is the error of a store's Resync.
type resyncError struct{ error }

// resync calls the store's Resync once per period until ctx ends. If Resync fails, resync passes
// the error to cancel and returns.
func (r *Reflector) resync(ctx context.Context, cancel context.CancelCauseFunc) {
	for {
		if pause(ctx, r.resyncPeriod); ctx.Err() != nil {
			return
		}
		if r.ShouldResync == nil || r.ShouldResync() {
			if err := r.store.Resync(); err != nil {
				cancel(resyncError{fmt.Errorf("resync: %w", err)})
				return
			}
		}
	}
}
