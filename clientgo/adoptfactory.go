package clientgo

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
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
// factory's. Of the options only WithOptions, WithShard and WithTransform have an effect. If this
// package cannot read the factory's fields (ErrLayout), or Options.Shadow is set, AdoptFactory logs
// that, and the informers remain client-go's. The informers capture responses without Wrap, see
// NewSharedInformerFactory.
//
// The factory starts only informers that the program uses: it has called a method of the informer,
// or has requested a lister. If the program uses an informer for the first time after Start, the
// informer starts immediately, and Lister blocks until the first list is stored or has failed.
// InformerFor ignores its constructor if the factory has an accessor for the type. To use another
// constructor, call Adopt in it, and call InformerFor before AdoptFactory.
//
// AdoptFactory finds the accessors by reflection. So the linker of a program that calls it keeps
// all exported methods, as for a program that uses text/template.
func AdoptFactory[F any](factory F, opts ...Option) F {
	s := settingsOf(opts)
	if isOff(&s.informer) {
		if !s.informer.Shard.All() {
			logOnce("Warning: package clientgo is off: an adopted factory stores the objects of all shards", "Shard")
		}
		return factory
	}
	if s.informer.Shadow != NoShadow {
		logOnce("Warning: an adopted factory has no shadows, its informers remain client-go's", "Shadow")
		return factory
	}
	if !layoutKnown() {
		return factory // the error is logged
	}
	v, f := reflect.ValueOf(factory), &adoptedFactory{}
	if fields := reflect.Indirect(v); fields.Kind() == reflect.Struct && readField(fields, "informers", &f.informers) {
		if lock, ok := private.Field(fields, "lock"); ok {
			f.lock, _ = lock.Addr().Interface().(*sync.Mutex)
		}
		if client, ok := private.Field(fields, "client"); ok && client.Kind() == reflect.Interface && !client.IsNil() {
			client.Set(reflect.ValueOf(withTransport(&s, client.Interface())))
		}
	}
	if f.lock == nil {
		klog.Background().Error(ErrLayout, "Cannot adopt a factory, its informers remain client-go's", "factory", fmt.Sprintf("%T", factory))
		return factory
	}
	before := maps.Clone(f.informers)
	requestAll(v, accessorDepth)
	for of, theirs := range f.informers {
		if _, ok := before[of]; ok {
			continue
		}
		build := func() (*informer, bool) {
			ours, ok := s.adopt(theirs, "").(*informer)
			return ours, ok
		}
		if ours, ok := build(); ok {
			f.informers[of] = &onRequest{informer: ours, factory: f, of: of, build: build, wake: make(chan struct{})}
			continue
		}
		delete(f.informers, of) // the factory builds it again when the program requests it
	}
	return factory
}

// adoptedFactory contains the fields of a generated factory.
type adoptedFactory struct {
	lock      *sync.Mutex // guards informers
	informers map[reflect.Type]cache.SharedIndexInformer
}

func (f *adoptedFactory) replace(of reflect.Type, inf cache.SharedIndexInformer) {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.informers[of] = inf
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
// onRequest only waits until the program uses it. The embedded informer serves a program that uses
// it before Run. Otherwise Run ends the wait for the first list, so that the factory's
// WaitForCacheSync does not wait for an unused informer; a program that uses the onRequest later
// gets another informer. The methods that are not overridden, such as HasSyncedChecker, are those
// of the embedded informer.
type onRequest struct {
	*informer
	factory *adoptedFactory
	of      reflect.Type
	build   func() (*informer, bool)

	mu      sync.Mutex
	context context.Context // of Run; nil before
	used    bool
	wake    chan struct{} // closed when used becomes true
	late    *informer     // if not nil, replaces the embedded informer
}

// current returns the informer that serves the program.
func (o *onRequest) current() *informer {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.late != nil {
		return o.late
	}
	return o.informer
}

// configure returns the informer that serves the program. The informer will start with Run, but if
// Run waits already, not before use.
func (o *onRequest) configure() *informer {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.request(o.context == nil)
}

// use returns the informer that serves the program, and starts it if Run waits.
func (o *onRequest) use() *informer {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.request(true)
}

// request is called with mu held.
func (o *onRequest) request(use bool) *informer {
	if o.context != nil && !o.used && o.late == nil {
		o.late, _ = o.build() // cannot fail: it has succeeded before
	}
	serving := o.informer
	if o.late != nil {
		serving = o.late
	}
	if use && !o.used {
		o.used = true
		close(o.wake)
		if o.late != nil {
			o.factory.replace(o.of, o.late)
		}
	}
	return serving
}

// filled is use for readers. A program that has requested an informer, and whose factory has
// started and synced, expects all objects.
func (o *onRequest) filled() *informer {
	i := o.use()
	if i != o.informer {
		// The context was set before i was built. WaitFor returns its error also if the informer ends.
		_ = i.engine.WaitFor(o.context, func() bool { return i.HasSynced() || i.engine.Err() != nil })
	}
	return i
}

func (o *onRequest) Run(stop <-chan struct{}) { o.RunWithContext(wait.ContextForChannel(stop)) }

func (o *onRequest) RunWithContext(ctx context.Context) {
	o.mu.Lock()
	if o.context == nil {
		o.context = ctx
	}
	if !o.used {
		o.informer.completeSync()
	}
	o.mu.Unlock()
	select {
	case <-o.wake:
		o.current().RunWithContext(ctx)
	case <-ctx.Done():
	}
}

func (o *onRequest) GetStore() cache.Store           { return o.filled().GetStore() }
func (o *onRequest) GetIndexer() cache.Indexer       { return o.filled().GetIndexer() }
func (o *onRequest) GetController() cache.Controller { return o.use().GetController() }
func (o *onRequest) HasSynced() bool                 { return o.current().HasSynced() }
func (o *onRequest) LastSyncResourceVersion() string { return o.current().LastSyncResourceVersion() }
func (o *onRequest) IsStopped() bool                 { return o.current().IsStopped() }

func (o *onRequest) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return o.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

func (o *onRequest) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, resync time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return o.AddEventHandlerWithOptions(handler, cache.HandlerOptions{ResyncPeriod: &resync})
}

func (o *onRequest) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return o.use().AddEventHandlerWithOptions(handler, options)
}

func (o *onRequest) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	return o.current().RemoveEventHandler(handle)
}

func (o *onRequest) AddIndexers(indexers cache.Indexers) error {
	return o.configure().AddIndexers(indexers)
}

func (o *onRequest) SetTransform(transform cache.TransformFunc) error {
	return o.configure().SetTransform(transform)
}

func (o *onRequest) SetWatchErrorHandler(handler cache.WatchErrorHandler) error {
	return o.configure().SetWatchErrorHandler(handler)
}

func (o *onRequest) SetWatchErrorHandlerWithContext(handler cache.WatchErrorHandlerWithContext) error {
	return o.configure().SetWatchErrorHandlerWithContext(handler)
}
