package clientgo

import (
	"context"
	"fmt"
	"reflect"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/weirproject/weir/internal/delivery"
	"github.com/weirproject/weir/internal/store"
)

// AddEventHandler adds a handler with the informer's resync period.
func (i *informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod adds a handler with a resync period of its own; 0 is none.
func (i *informer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, resync time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(handler, cache.HandlerOptions{ResyncPeriod: &resync})
}

// AddEventHandlerWithOptions adds a handler: before, during or after the first list. What the informer holds comes first.
// The error says that the informer has stopped.
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
	r := &registration{informer: i, handler: handler, looks: looksOf(handler), logger: logger}
	served, err := i.engine.Handle(r.handle, delivery.Options{
		Name:    nameOf(handler),
		Resync:  period,
		OnPanic: crash,
	})
	if err != nil {
		return nil, notAdded{nameOf(handler), err}
	}
	r.served = served
	i.handlers[r] = struct{}{}
	i.served.Store(int32(len(i.handlers)))
	return r, nil
}

func (i *informer) several() bool { return i.served.Load() > 1 }

// minimumResync is the shortest resync period.
const minimumResync = time.Second

// resyncPeriod is what becomes of the period that a handler asks for: none where the informer has none, and not below the
// shortest one that was asked for before the start. The lock is held.
func (i *informer) resyncPeriod(logger klog.Logger, period time.Duration) time.Duration {
	if period <= 0 {
		return 0
	}
	if i.resyncCheck <= 0 {
		logger.Info("Warning: this informer does no resyncs; the handler gets none", "resyncPeriod", period)
		return 0
	}
	if period < minimumResync {
		logger.Info("Warning: the resync period is raised to the minimum", "resyncPeriod", period, "minimum", minimumResync)
		period = minimumResync
	}
	switch {
	case period >= i.resyncCheck:
	case i.started:
		logger.Info("Warning: the informer runs with a longer resync period, which the handler gets", "resyncPeriod", period, "informer", i.resyncCheck)
		period = i.resyncCheck
	default:
		i.resyncCheck = period
	}
	return period
}

// RemoveEventHandler removes a handler. It does not wait for a call that the handler is in; cache.ShutDownEventHandler
// does. Removing it again does nothing, and neither does removing one of another informer, of this package or of client-go.
func (i *informer) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	r, ok := handle.(*registration)
	switch {
	case !ok && handle != nil && reflect.Indirect(reflect.ValueOf(handle)).Type().PkgPath() == reflect.TypeFor[cache.HandlerOptions]().PkgPath():
		return nil // of an informer of client-go's
	case !ok:
		return fmt.Errorf("%w: %T", errForeign, handle)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, ok := i.handlers[r]; ok {
		delete(i.handlers, r)
		i.served.Store(int32(len(i.handlers)))
		i.engine.Remove(r.served)
	}
	return nil
}

// registration is a handler of an informer.
type registration struct {
	informer *informer
	handler  cache.ResourceEventHandler
	looks    looks
	served   *delivery.Registration
	logger   klog.Logger // for panics and errors

	undecoded undecoded // mostly nil
}

// HasSynced reports whether the handler has handled everything of the first list.
func (r *registration) HasSynced() bool { return r.served.HasSynced() }

// HasSyncedChecker is HasSynced to wait for.
func (r *registration) HasSyncedChecker() cache.DoneChecker {
	return checker{"SharedIndexInformer " + r.informer.name + " + event handler " + r.served.Name(), r.served.Synced()}
}

// ShutdownChan is closed when the handler has been removed, or the informer has stopped, and no call of it is under way.
func (r *registration) ShutdownChan() <-chan struct{} { return r.served.Done() }

// handle hands an event to the handler.
func (r *registration) handle(_ context.Context, e delivery.Event) {
	defer utilruntime.HandleCrashWithLogger(r.logger)
	if err := r.call(e); err != nil {
		utilruntime.HandleErrorWithLogger(r.logger, err, "An event is left out", "handler", nameOf(r.handler), "key", e.Key())
	}
}

// call decodes what the handler looks at, and calls it. The error says what could not be decoded.
func (r *registration) call(e delivery.Event) error {
	e, known := r.undecoded.resume(e)
	if !known {
		delete(r.undecoded, e.Key())
		return nil
	}
	switch e.Type {
	case delivery.Added:
		if !r.looks.added {
			return r.settle(e, nil)
		}
		added, err := r.added(e)
		if err != nil {
			return r.settle(e, err)
		}
		_ = r.settle(e, nil)
		r.handler.OnAdd(r.derive(e.New, added), e.Initial)
	case delivery.Updated, delivery.Resynced:
		if !r.looks.updated {
			return r.settle(e, nil)
		}
		was, is, err := r.both(e)
		if err != nil {
			return r.settle(e, err)
		}
		_ = r.settle(e, nil)
		if e.Old != e.New {
			is = r.derive(e.New, is)
		}
		r.handler.OnUpdate(was, is)
	case delivery.Deleted:
		_ = r.settle(e, nil)
		r.informer.store.DropDerived(e.Key())
		if r.looks.deleted {
			r.handler.OnDelete(r.deleted(e))
		}
	}
	return nil
}

// derive lets index functions see a version before the handler does, and returns what the handler is handed: another decoded form if one of
// them blocks.
func (r *registration) derive(o *store.Object, value any) any {
	if r.informer.store.Derive(o, value) {
		return value
	}
	if fresh, err := r.informer.indexer.reader.fresh(o); err == nil {
		return fresh
	}
	return value
}

// settle notes whether the handler is given an event, before it is. It returns the error that is to be reported, if any.
func (r *registration) settle(e delivery.Event, err error) error {
	if err == nil && len(r.undecoded) == 0 {
		return nil
	}
	if r.undecoded == nil {
		r.undecoded = undecoded{}
	}
	return r.undecoded.settle(e, err)
}

// see decodes a version for the handler. Where there are several handlers it is for all of them, unless they are far apart.
func (r *registration) see(o *store.Object) (any, error) {
	if r.informer.several() {
		return r.informer.indexer.reader.lookShared(o)
	}
	return r.informer.indexer.reader.lookAlone(o)
}

// added decodes an object that the handler has not seen.
func (r *registration) added(e delivery.Event) (any, error) {
	if e.Initial {
		return r.see(e.New)
	}
	return r.informer.indexer.reader.lookNew(e.New, r.informer.several())
}

// both decodes the two versions of an update. The error is the new one's: an old one that cannot be decoded was never given to the
// handler, and what is known of it has to do.
func (r *registration) both(e delivery.Event) (was, is any, err error) {
	if e.Old == e.New {
		is, err = r.see(e.New)
		return is, is, err
	}
	reader, several := r.informer.indexer.reader, r.informer.several()
	if was, is, err = reader.lookBoth(e.Old, e.New, several); err == nil {
		return was, is, nil
	}
	if is, err = reader.lookNew(e.New, several); err != nil {
		return nil, nil, err
	}
	return reader.stub(e.Old), is, nil
}

// deleted is what OnDelete gets: the object with the resourceVersion of its deletion, or a tombstone where the deletion,
// or what came before it, was missed.
func (r *registration) deleted(e delivery.Event) any {
	reader := r.informer.indexer.reader
	if e.Missed || e.Coalesced {
		return reader.tombstone(e.Key(), e.Old)
	}
	gone, err := reader.lookDeleted(e.Old, e.ResourceVersion)
	if err != nil {
		return reader.tombstone(e.Key(), e.Old)
	}
	return gone
}

// crash ends the process as client-go does when a handler panics. The panic has been logged by HandleCrash, which has
// swallowed it unless crashing is wanted.
func crash(e *delivery.PanicError) { panic(e.Value) }

// looks are the kinds of event that a handler does anything with: what it does not look at need not be decoded.
type looks struct{ added, updated, deleted bool }

func looksOf(handler cache.ResourceEventHandler) looks {
	switch h := handler.(type) {
	case cache.ResourceEventHandlerFuncs:
		return looks{h.AddFunc != nil, h.UpdateFunc != nil, h.DeleteFunc != nil}
	case cache.ResourceEventHandlerDetailedFuncs:
		return looks{h.AddFunc != nil, h.UpdateFunc != nil, h.DeleteFunc != nil}
	}
	return looks{true, true, true}
}

// nameOf is a handler's name in messages: its type.
func nameOf(handler cache.ResourceEventHandler) string {
	if f, ok := handler.(cache.FilteringResourceEventHandler); ok && f.Handler != nil {
		return fmt.Sprintf("%T of %s", handler, nameOf(f.Handler))
	}
	return fmt.Sprintf("%T", handler)
}
