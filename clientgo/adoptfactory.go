package clientgo

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/weirproject/weir/internal/core/private"
)

// AdoptFactory makes the accessors of a factory that informer-gen has generated return informers of
// this package, and returns the same factory. It works with the factories of any module:
//
//	factory := clientgo.AdoptFactory(informers.NewSharedInformerFactory(client, resync))
//
// Call it before the program requests informers from the factory; those that it has requested
// before remain as they are. Namespace, ListOptions, resync periods and transform are the
// factory's. Of the options only WithOptions, WithShard and WithTransform have an effect; the
// transform replaces the factory's. If this package cannot read the factory's fields (ErrLayout),
// AdoptFactory logs that, and the informers remain client-go's; Err reports it if WithShard or
// WithTransform has no effect. If Options.Off is set, AdoptFactory only sets the factory's
// transform. But if there is a shard, or the factory has no transform, it replaces client-go's
// informers by others of client-go that start as described below. The informers capture responses
// without Wrap, see NewSharedInformerFactory; for those that must not, set Options.NoCapture.
//
// The factory starts only informers that the program uses: it has called a method of the informer,
// or has requested a lister. If the program uses an informer for the first time after Start, the
// informer starts immediately, and Lister blocks until the first list is stored or has failed; for
// an informer of client-go, which does not report a failure, it blocks for up to a minute.
// InformerFor ignores its constructor if the factory has an accessor for the type. To use another
// constructor, call Adopt in it, and call InformerFor before AdoptFactory.
//
// AdoptFactory finds the accessors by reflection. So the linker of a program that calls it keeps
// all exported methods, as for a program that uses text/template.
func AdoptFactory[F any](factory F, opts ...Option) F {
	s := settingsOf(opts)
	turnedOff := isOff(&s.informer)
	v, applied := reflect.ValueOf(factory), s.transform == nil
	var all map[reflect.Type]cache.SharedIndexInformer
	var lock *sync.Mutex // guards all
	if fields := reflect.Indirect(v); fields.Kind() == reflect.Struct && readField(fields, "informers", &all) {
		lock = field[sync.Mutex](fields, "lock")
		if to := field[cache.TransformFunc](fields, "transform"); to != nil && !applied {
			*to, applied = s.transform, true // informer-gen before v0.27 generates no such field
		}
	}
	switch {
	case turnedOff && applied && s.informer.Shard.All():
		return factory
	case lock == nil:
		err := fmt.Errorf("%w: %w: the informers of %T remain client-go's", ErrForeignInformer, ErrLayout, factory)
		if !applied || !s.informer.Shard.All() {
			err = fmt.Errorf("%w, without the transform or shard of AdoptFactory", err)
			unadopted.factory.Store(&err)
		}
		klog.Background().Error(err, "Cannot adopt a factory")
		return factory
	}
	if client, ok := private.Field(reflect.Indirect(v), "client"); ok && client.Kind() == reflect.Interface && !client.IsNil() {
		client.Set(reflect.ValueOf(withTransport(&s, client.Interface())))
	}
	before := maps.Clone(all)
	requestAll(v, accessorDepth)
	for of, theirs := range all {
		if _, ok := before[of]; ok {
			continue
		}
		o := newOnRequest(of, theirs, func() cache.SharedIndexInformer { return s.adopt(theirs, "") })
		o.replace = func() {
			lock.Lock()
			defer lock.Unlock()
			all[of] = o.serving
		}
		all[of] = o
	}
	return factory
}

// accessorDepth is the number of calls from a generated factory to an informer's accessor: group,
// version and kind.
const accessorDepth = 3

// informerAccessor is the interface of a kind in generated code.
type informerAccessor interface {
	Informer() cache.SharedIndexInformer
}

// requestAll requests each informer for which v, a generated factory or the interface of a group or
// version, has an accessor.
func requestAll(v reflect.Value, depth int) {
	if accessor, ok := v.Interface().(informerAccessor); ok {
		accessor.Informer()
		return
	}
	for i := range v.NumMethod() {
		if m := v.Method(i); leadsToInformer(m.Type(), depth) {
			requestAll(m.Call(nil)[0].Elem(), depth-1)
		}
	}
}

// leadsToInformer reports whether a method has no parameters and returns an interface with
// accessors of informers, after up to depth calls.
func leadsToInformer(method reflect.Type, depth int) bool {
	if depth == 0 || method.NumIn() != 0 || method.NumOut() != 1 || method.Out(0).Kind() != reflect.Interface {
		return false
	}
	of := method.Out(0)
	if of.Implements(reflect.TypeFor[informerAccessor]()) {
		return true
	}
	for i := range of.NumMethod() {
		if leadsToInformer(of.Method(i).Type, depth-1) {
			return true
		}
	}
	return false
}

// onRequest is an informer of an adopted factory. The factory runs all informers in its map, but an
// onRequest builds the informer that serves the program, and runs it, only when the program uses
// it. If that is after Run, the factory's map gets the serving informer, so that the factory's
// WaitForCacheSync waits for it. It does not wait for an onRequest that the program does not use.
type onRequest struct {
	// syncChecker provides HasSyncedChecker. It is complete when Run finds o unused, or the serving
	// informer has synced.
	syncChecker
	upstreamInformer // client-go's informer, which build replaces or returns
	variants
	build   func() cache.SharedIndexInformer
	replace func() // replaces o by the serving informer in the factory's map

	mu      sync.Mutex
	serving cache.SharedIndexInformer // nil until the program configures or uses o
	context context.Context           // of Run; nil before
	late    context.Context           // context if the program used o first after Run
	used    bool
	wake    chan struct{} // closed when used becomes true
}

func newOnRequest(of reflect.Type, theirs cache.SharedIndexInformer, build func() cache.SharedIndexInformer) *onRequest {
	o := &onRequest{
		syncChecker: newSyncChecker("SharedIndexInformer " + of.String()), upstreamInformer: upstreamInformer{theirs}, build: build, wake: make(chan struct{}),
	}
	o.variants.of = o
	return o
}

// current returns the serving informer and true, or client-go's and false if there is none yet.
func (o *onRequest) current() (inf cache.SharedIndexInformer, built bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.serving == nil {
		return o.upstreamInformer.SharedIndexInformer, false
	}
	return o.serving, true
}

// read is current for the methods that do not use the informer.
func (o *onRequest) read() cache.SharedIndexInformer {
	inf, _ := o.current()
	return inf
}

// request returns the serving informer. It will start with Run or, if Run waits already,
// immediately if use is true.
func (o *onRequest) request(use bool) cache.SharedIndexInformer {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.serving == nil {
		o.serving = o.build()
	}
	if (use || o.context == nil) && !o.used {
		o.used, o.late = true, o.context
		close(o.wake)
		if o.late != nil {
			o.replace()
		}
	}
	return o.serving
}

// filledLimit limits how long filled waits for an informer of client-go, which does not report the
// failure of its list.
const filledLimit = time.Minute

// filled is request(true) for readers. A program that has requested an informer, and whose factory
// has started and synced, expects all objects.
func (o *onRequest) filled() cache.SharedIndexInformer {
	inf := o.request(true)
	if o.late == nil { // does not change after use
		return inf
	}
	i, err := informerOf(inf)
	ours := err == nil && (i.shadowed == nil || i.shadowed.serving == weirSide)
	ctx := o.late
	if !ours {
		limited, cancel := context.WithTimeout(ctx, filledLimit)
		defer cancel()
		ctx = limited
	}
	cache.WaitForCacheSync(ctx.Done(), func() bool { return inf.HasSynced() || ours && i.engine.Err() != nil })
	return inf
}

// RunWithContext runs the serving informer until ctx ends, after the program has used it.
func (o *onRequest) RunWithContext(ctx context.Context) {
	o.mu.Lock()
	if o.context == nil {
		o.context = ctx
	}
	if !o.used {
		completeSync(o.syncChecker)
	}
	o.mu.Unlock()
	select {
	case <-o.wake:
	case <-ctx.Done():
		return
	}
	inf := o.read()
	var waiting sync.WaitGroup
	defer waiting.Wait()
	waiting.Go(func() {
		if waitForSync(ctx, inf) == nil {
			completeSync(o.syncChecker)
		}
	})
	inf.RunWithContext(ctx)
}

// HasSynced reports whether the serving informer has synced, or that Run has started and the
// program has at most configured the informer.
func (o *onRequest) HasSynced() bool {
	o.mu.Lock()
	unused := !o.used && o.context != nil
	o.mu.Unlock()
	return unused || o.read().HasSynced()
}

func (o *onRequest) GetStore() cache.Store           { return o.filled().GetStore() }
func (o *onRequest) GetIndexer() cache.Indexer       { return o.filled().GetIndexer() }
func (o *onRequest) LastSyncResourceVersion() string { return o.read().LastSyncResourceVersion() }
func (o *onRequest) IsStopped() bool                 { return o.read().IsStopped() }
func (o *onRequest) GetController() cache.Controller { return controllerOf(o, &o.upstreamInformer) }

func (o *onRequest) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return o.request(true).AddEventHandlerWithOptions(handler, options)
}

func (o *onRequest) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	return o.read().RemoveEventHandler(handle)
}

func (o *onRequest) AddIndexers(indexers cache.Indexers) error {
	return o.request(false).AddIndexers(indexers)
}

func (o *onRequest) SetTransform(transform cache.TransformFunc) error {
	return o.request(false).SetTransform(transform)
}

func (o *onRequest) SetWatchErrorHandlerWithContext(handler cache.WatchErrorHandlerWithContext) error {
	return o.request(false).SetWatchErrorHandlerWithContext(handler)
}
