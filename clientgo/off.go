package clientgo

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/weirproject/weir/internal/core/shard"
)

// offInEnvironment reports whether the environment variable WEIR_CLIENTGO is off.
func offInEnvironment() bool { return strings.EqualFold(os.Getenv("WEIR_CLIENTGO"), "off") }

// off is true after isOff has returned true: some informers of the process are client-go's.
var off atomic.Bool

// isOff reports whether a constructor must return client-go's informer: Options.Off is set, or
// WEIR_CLIENTGO is off. In this case the first call logs that, and the first call with an option
// that client-go's informers lack logs that the option is ignored. Every constructor of informers
// and reflectors calls isOff.
func isOff(o *Options) bool {
	if !o.Off && !offInEnvironment() {
		return false
	}
	off.Store(true)
	logOnce("Package clientgo is off: informers are client-go's", "")
	v := reflect.ValueOf(*o)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; !v.Field(i).IsZero() && !slices.Contains(unneededWhenOff, name) {
			logOnce("Warning: package clientgo is off and ignores an option", name)
		}
	}
	return true
}

// unneededWhenOff lists the options that client-go's informers need not have: they always behave
// like that (PinDecoded, NoCapture, ResyncOnRelist), the option only concerns Weir's informers, or
// filterShard replaces it.
var unneededWhenOff = []string{"Off", "PinDecoded", "NoCapture", "ResyncOnRelist", "Scheme", "Server", "Shard"}

// logged contains the options that logOnce has logged: at most one entry per field of Options, and
// one for "".
var logged sync.Map

func logOnce(message, option string) {
	if _, done := logged.LoadOrStore(option, true); !done {
		klog.Background().Info(message, "option", option)
	}
}

// original returns client-go's informer for p. If the options have a shard, the informer stores
// only the shard's objects; see filterShard. original panics if the shard is invalid.
func (p *informerFields) original(o *Options) cache.SharedIndexInformer {
	if p.indexers == nil {
		p.indexers = cache.Indexers{} // client-go's AddIndexers writes to the map
	}
	lw, _ := capturable(p.lw)
	inf := cache.NewSharedIndexInformerWithOptions(filterShard(lw, o), p.example, cache.SharedIndexInformerOptions{
		ResyncPeriod: p.resync, Indexers: p.indexers, ObjectDescription: p.description,
	})
	_ = inf.SetTransform(p.transform) // returns an error only if the informer has started
	if p.onError != nil {
		_ = inf.SetWatchErrorHandlerWithContext(p.onError) // as above
	}
	return inf
}

// keepOriginal returns inf, or, if the options have a shard, an informer of client-go that replaces
// inf. If inf cannot be replaced, it logs that inf stores the objects of all shards.
func keepOriginal(inf cache.SharedIndexInformer, o *Options) cache.SharedIndexInformer {
	if o.Shard.All() {
		return inf
	}
	p, ok := fieldsOf(inf)
	if !ok {
		klog.Background().Error(ErrLayout, "Cannot restrict an informer of client-go to a shard", "informer", fmt.Sprintf("%T", inf))
		return inf
	}
	return p.original(o)
}

// filterShard returns a ListerWatcher that returns only the objects of the options' shard. The
// server sends all objects. If the shard contains all objects, the result is lw.
func filterShard(lw cache.ListerWatcher, o *Options) cache.ListerWatcher {
	if err := o.Shard.Validate(); err != nil {
		panic(fmt.Errorf("clientgo: %w", err))
	}
	if o.Shard.All() {
		return lw
	}
	all, selector := cache.ToListerWatcherWithContext(lw), shard.Shard(o.Shard).Selector()
	has := func(object runtime.Object) bool {
		m, err := meta.Accessor(object)
		return err != nil || selector.Chooses([]byte(m.GetUID()), []byte(m.GetNamespace()))
	}
	return &shardFilter{all: lw, ListWatch: cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := all.ListWithContext(ctx, o)
			if err != nil {
				return nil, err
			}
			items, err := meta.ExtractList(list)
			if err != nil {
				return nil, err
			}
			return list, meta.SetList(list, slices.DeleteFunc(items, func(object runtime.Object) bool { return !has(object) }))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := all.WatchWithContext(ctx, o)
			if err != nil {
				return nil, err
			}
			return drainedWatch{watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
				return e, e.Type == watch.Bookmark || e.Type == watch.Error || has(e.Object)
			})}, nil
		},
	}}
}

// shardFilter is the ListerWatcher that filterShard returns.
type shardFilter struct {
	cache.ListWatch
	all cache.ListerWatcher
}

// IsWatchListSemanticsUnSupported reports whether the original ListerWatcher does not support
// watches with initial events. client-go's reflector calls it.
func (f *shardFilter) IsWatchListSemanticsUnSupported() bool {
	u, ok := f.all.(interface{ IsWatchListSemanticsUnSupported() bool })
	return ok && u.IsWatchListSemanticsUnSupported()
}

// drainedWatch is a watch of watch.Filter. The goroutine of such a watch blocks while no caller
// receives its event.
type drainedWatch struct{ watch.Interface }

// Stop stops the watch. It receives the remaining events on a goroutine, which ends when the
// filtered watch has ended.
func (w drainedWatch) Stop() {
	w.Interface.Stop()
	go func() {
		for range w.ResultChan() {
		}
	}()
}
