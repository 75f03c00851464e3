package clientgo

import (
	"context"
	"fmt"
	"reflect"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/delivery"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// AddEventHandlerWithOptions adds a handler, before or after the informer has started. The handler
// first receives the stored objects. The error wraps errStopped if the informer has stopped.
func (i *informer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	logger := klog.Background()
	if options.Logger != nil {
		logger = *options.Logger
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	period := i.defaultResync
	if options.ResyncPeriod != nil {
		period = *options.ResyncPeriod
	}
	period = i.resyncPeriod(logger, period)
	r := &registration{informer: i, handler: handler, callbacks: callbacksOf(handler), logger: logger, undecodable: undecodable{}}
	r.syncChecker = newSyncChecker("SharedIndexInformer " + i.name + " + event handler " + handlerName(handler))
	served, err := i.engine.Handle(r.handle, delivery.Options{
		Name:            handlerName(handler),
		Resync:          period,
		UpdateNamesakes: true,
		OnPanic:         r.crash,
		OnSynced:        func() { completeSync(r.syncChecker) },
	})
	if err != nil {
		return nil, notAddedError{handlerName(handler), err}
	}
	r.delivery = served
	i.handlers[r] = struct{}{}
	return r, nil
}

const minimumResync = time.Second

// resyncPeriod returns the resync period of a handler that requests period. The result is 0 if
// period is 0 or the informer has no resyncs. Otherwise it is at least minimumResync. After the
// informer has started, the result is also at least the shortest period that was requested before
// the start. The caller holds mu.
func (i *informer) resyncPeriod(logger klog.Logger, period time.Duration) time.Duration {
	if period <= 0 {
		return 0
	}
	if i.resyncCheck <= 0 {
		logger.Info("Warning: this informer does not resync, so the handler receives no resyncs", "resyncPeriod", period)
		return 0
	}
	if period < minimumResync {
		logger.Info("Warning: raised the resync period to the minimum", "resyncPeriod", period, "minimum", minimumResync)
		period = minimumResync
	}
	switch {
	case period >= i.resyncCheck:
	case i.started:
		logger.Info("Warning: the informer runs with a longer resync period, which applies to the handler", "resyncPeriod", period, "informer", i.resyncCheck)
		period = i.resyncCheck
	default:
		i.resyncCheck = period
	}
	return period
}

// RemoveEventHandler removes a handler. It does not wait for an active call of the handler; use
// cache.ShutDownEventHandler to wait. It does nothing for a registration that was removed before,
// or that belongs to another informer of this package or of client-go. It returns an error for a
// value that is not a registration of this package or of client-go.
func (i *informer) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	r, ok := handle.(*registration)
	if !ok {
		t := reflect.TypeOf(handle)
		if t != nil && t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t != nil && t.PkgPath() == reflect.TypeFor[cache.HandlerOptions]().PkgPath() {
			return nil // a registration of client-go's informers
		}
		return fmt.Errorf("%w: %T", errNotRegistration, handle)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, ok := i.handlers[r]; ok {
		delete(i.handlers, r)
		i.engine.Remove(r.delivery)
	}
	return nil
}

type registration struct {
	syncChecker // provides HasSyncedChecker
	informer    *informer
	handler     cache.ResourceEventHandler
	callbacks   callbacks
	delivery    *delivery.Registration
	logger      klog.Logger // for panics and errors

	undecodable undecodable // usually empty
}

// HasSynced reports whether the handler has handled every object of the informer's first list, and
// every object that the informer stored when the handler was added.
func (r *registration) HasSynced() bool { return r.delivery.HasSynced() }

// ShutdownChan returns a channel that is closed when the handler will not be called again: the
// handler was removed or the informer has stopped, and no call is active.
func (r *registration) ShutdownChan() <-chan struct{} { return r.delivery.Done() }

// handle passes an event to the handler, or logs why it cannot. The caller of handle recovers the
// handler's panics.
func (r *registration) handle(_ context.Context, e store.Change) {
	if err := r.call(e); err != nil {
		utilruntime.HandleErrorWithLogger(r.logger, err, "Skipped an event", "handler", handlerName(r.handler), "key", e.Key())
	}
}

// call decodes the arguments of the handler's callback and calls it. It returns an error that names
// the object if the object cannot be decoded.
func (r *registration) call(e store.Change) error {
	e, deliverable := r.undecodable.adjust(e)
	if !deliverable {
		delete(r.undecodable, e.Key())
		return nil
	}
	switch e.Type() {
	case store.Added:
		if !r.callbacks.added {
			return r.undecodable.record(e, nil)
		}
		_, added, err := r.informer.indexer.reader.values(&e)
		if err != nil {
			return r.undecodable.record(e, err)
		}
		_ = r.undecodable.record(e, nil)
		r.handler.OnAdd(r.derive(e.New, added), e.Initial)
	case store.Updated, store.Resynced:
		if !r.callbacks.updated {
			return r.undecodable.record(e, nil)
		}
		was, is, err := r.updateValues(e)
		if err != nil {
			return r.undecodable.record(e, err)
		}
		_ = r.undecodable.record(e, nil)
		if e.Old != e.New {
			is = r.derive(e.New, is)
		}
		r.handler.OnUpdate(was, is)
	case store.Deleted:
		_ = r.undecodable.record(e, nil)
		r.informer.store.DropDerived(e.Key())
		if r.callbacks.deleted {
			r.handler.OnDelete(r.deletedValue(e))
		}
	}
	return nil
}

// derive runs the index functions on a decoded version before the handler receives it. It returns
// the value for the handler. If an index function does not return soon, derive returns a copy of
// the value, because the function still reads the original.
func (r *registration) derive(o *store.Object, value any) any {
	if r.informer.store.Derive(o, value) {
		return value
	}
	if own, ok := codec.Copy(value); ok {
		return own
	}
	return value
}

// updateValues returns the decoded old and new version of an update. It returns an error if the new
// version cannot be decoded. If only the old version cannot be decoded, the first result is a
// placeholder for it. The handler has never received that old version.
func (r *registration) updateValues(e store.Change) (was, is any, err error) {
	reader := r.informer.indexer.reader
	if was, is, err = reader.values(&e); err == nil {
		return was, is, nil
	}
	if _, is, err = reader.values(&store.Change{Revision: e.Revision, New: e.New}); err != nil {
		return nil, nil, err
	}
	return reader.placeholder(e.Old), is, nil
}

// deletedValue returns the argument of OnDelete. If the handler missed the deletion or a change
// before the deletion, or if the object cannot be decoded, the argument is a
// cache.DeletedFinalStateUnknown (a tombstone). Otherwise it is the result of reader.deletedValue:
// the object, usually with the resourceVersion of its deletion.
func (r *registration) deletedValue(e store.Change) any {
	reader := r.informer.indexer.reader
	if !e.FinalStateUnknown() {
		if gone, err := reader.deletedValue(&e); err == nil {
			return gone
		}
	}
	return reader.tombstone(&e)
}

// crashDepth is the number of stack frames between a function that logs a panic and the function
// that panicked: crash, delivery's deferred function and the runtime's functions.
const crashDepth = 4

// crash handles a handler's panic like utilruntime.HandleCrashWithLogger: it calls
// utilruntime.PanicHandlers, which log the panic, and panics again if utilruntime.ReallyCrash is
// true. crash runs before the stack is unwound, so that the log contains the frames that panicked.
func (r *registration) crash(e *delivery.PanicError) {
	ctx := klog.NewContext(context.Background(), r.logger.WithCallDepth(crashDepth))
	for _, handle := range utilruntime.PanicHandlers {
		handle(ctx, e.Value)
	}
	if utilruntime.ReallyCrash {
		panic(e.Value)
	}
}

// callbacks records which callbacks a handler has. The informer does not decode an object for a
// callback that is nil.
type callbacks struct{ added, updated, deleted bool }

func callbacksOf(handler cache.ResourceEventHandler) callbacks {
	switch h := handler.(type) {
	case cache.ResourceEventHandlerFuncs:
		return callbacks{h.AddFunc != nil, h.UpdateFunc != nil, h.DeleteFunc != nil}
	case cache.ResourceEventHandlerDetailedFuncs:
		return callbacks{h.AddFunc != nil, h.UpdateFunc != nil, h.DeleteFunc != nil}
	}
	return callbacks{true, true, true}
}

// handlerName returns a handler's name for messages: its Go type.
func handlerName(handler cache.ResourceEventHandler) string {
	if o, ok := handler.(*observer); ok {
		return o.name
	}
	if f, ok := handler.(cache.FilteringResourceEventHandler); ok && f.Handler != nil {
		return fmt.Sprintf("%T of %s", handler, handlerName(f.Handler))
	}
	return fmt.Sprintf("%T", handler)
}

// undecodable contains, by key, the objects whose newest version cannot be decoded. The handler did
// not receive that version. Only the handler's calls use the map, one at a time.
type undecodable map[string]undelivered

type undelivered struct {
	last     *store.Object // the last version that the handler received, or nil
	reported *store.Object // the newest version, whose error was logged
}

// adjust returns e with a corrected Old: the last version that the handler received, instead of a
// version that could not be decoded. It returns false for the deletion of an object that the
// handler has never received.
func (u undecodable) adjust(e store.Change) (store.Change, bool) {
	object, ok := u[e.Key()]
	switch {
	case !ok || e.Old == nil:
	case object.last != nil:
		e.Old = object.last
		e.Missed = e.Missed || e.New == nil // the handler did not receive the final state
	case e.New == nil:
		return e, false
	default:
		e.Old = nil
	}
	return e, true
}

// record records whether the object of an event that adjust returned could be decoded: err is the
// decoding error, or nil. Call it before the callback. It returns err if err must be logged: not if
// an earlier call returned the error of this version.
func (u undecodable) record(e store.Change, err error) error {
	if err == nil || e.New == nil {
		delete(u, e.Key())
		return nil
	}
	if u[e.Key()].reported == e.New {
		return nil
	}
	u[e.Key()] = undelivered{e.Old, e.New}
	return err
}

// placeholder returns an object to pass to handlers in place of o, which cannot be decoded. It has
// only o's namespace, name, uid and resourceVersion. It is nil if the codec has no Go type.
func (r *reader) placeholder(o *store.Object) any {
	if r.codec.Type() == nil {
		return nil
	}
	object := r.codec.New()
	codec.SetIdentity(object, wire.Identity{Namespace: o.Namespace(), Name: o.Name(), UID: o.UID(), ResourceVersion: o.ResourceVersion()})
	return object
}
