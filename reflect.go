package weir

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/source"
)

// ListerWatcher lists and watches the objects of one resource. client-go's cache.ListerWatcher is a
// ListerWatcher. If it also has the methods ListWithContext and WatchWithContext, as
// *cache.ListWatch does, Reflect calls these, with a context that ends when the call is not needed.
type ListerWatcher interface {
	List(metav1.ListOptions) (runtime.Object, error)
	Watch(metav1.ListOptions) (watch.Interface, error)
}

// Reflect is Mirror for code that has no rest.Config, but only a ListerWatcher. Record.Value
// contains the objects that lw returns; the client of lw decodes them, so a list is in memory while
// Reflect passes its objects to the sink. Objects of another type than T are skipped: those of a
// list are counted in Status.Skipped, and those of events are logged. Otherwise, Reflect calls the
// sink, retries, blocks and returns like Mirror. It returns at most a second after ctx has ended,
// although a call of lw may still be active. If lw panics and utilruntime.ReallyCrash is false,
// Reflect logs the panic and retries.
//
// opts may have at most one selector, which Reflect passes to lw in the ListOptions, and no
// namespace, because lw determines it. Reflect also uses the options Name, Scheme, Shard, ListWatch
// and OnStatus. It returns ErrInvalidOptions for Namespaces, Indexes or DropFields, for a nil lw or
// sink, and if T is not a pointer to a struct.
func Reflect[T Object](ctx context.Context, lw ListerWatcher, opts Options, sink Sink) error {
	ptr := reflect.TypeFor[T]()
	switch {
	case lw == nil:
		return optionsError(errors.New("no ListerWatcher"))
	case sink == nil:
		return optionsError(errors.New("no Sink"))
	case ptr.Kind() != reflect.Pointer || ptr.Elem().Kind() != reflect.Struct:
		return optionsError(fmt.Errorf("an object's type is a pointer to a struct, not %s", ptr))
	case len(opts.Namespaces) > 0 || len(opts.DropFields) > 0:
		return optionsError(errors.New("a ListerWatcher cannot have Namespaces or DropFields"))
	}
	typ := &objectType{goType: ptr.Elem(), codec: codec.New(ptr), resource: opts.Resource}
	_ = typ.find(ptr, opts.Scheme) // if the kind is unknown, Record.Kind is the kind that lw states
	return mirror(ctx, opts, typ, sink, func(scope) (source.Source, reflector.Config, error) {
		c, err := typ.reflectorConfig(opts)
		return listerWatcherSource{lw, source.ExpectedObject{GoType: ptr}, &source.Prober{}}, c, err
	})
}

// listerWatcherSource is a source.Source that calls a ListerWatcher.
type listerWatcherSource struct {
	lw       ListerWatcher
	expected source.ExpectedObject
	prober   *source.Prober
}

func (s listerWatcherSource) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if lw, ok := s.lw.(interface {
		ListWithContext(context.Context, metav1.ListOptions) (runtime.Object, error)
	}); ok {
		return lw.ListWithContext(ctx, o)
	}
	return s.lw.List(o)
}

func (s listerWatcherSource) List(ctx context.Context, o metav1.ListOptions) (source.List, error) {
	list, err := source.CallWithContext(ctx, func() (runtime.Object, error) { return s.list(ctx, o) }, func(runtime.Object) {})
	if err != nil {
		return nil, err
	}
	return source.NewObjectList(list)
}

func (s listerWatcherSource) Watch(ctx context.Context, o metav1.ListOptions) (source.Watch, error) {
	o.Watch = true
	w, err := source.CallWithContext(ctx, func() (watch.Interface, error) {
		if lw, ok := s.lw.(interface {
			WatchWithContext(context.Context, metav1.ListOptions) (watch.Interface, error)
		}); ok {
			return lw.WatchWithContext(ctx, o)
		}
		return s.lw.Watch(o)
	}, source.StopWatch)
	if err != nil {
		return nil, err
	}
	return source.NewObjectWatch(ctx, w, s.expected)
}

func (s listerWatcherSource) NewestVersion(ctx context.Context, o metav1.ListOptions) (string, error) {
	return s.prober.NewestVersion(ctx, o, nil, s.list)
}

// ServerVersion returns the version of a server that streams its lists, because a ListerWatcher
// does not provide the real version. Servers of older versions also answer the requests that
// follow.
func (listerWatcherSource) ServerVersion(context.Context) (major, minor int, err error) {
	return 1, 33, nil
}
