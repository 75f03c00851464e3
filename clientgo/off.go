package clientgo

import (
	"context"
	"fmt"
	"io"
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
	logOnce("Package clientgo is off: informers are client-go's", "option", "")
	logIgnored(o)
	return true
}

// logIgnored logs each option that an informer of client-go ignores.
func logIgnored(o *Options) {
	for f, v := range reflect.ValueOf(*o).Fields() {
		if !v.IsZero() && !slices.Contains(unneeded, f.Name) {
			logOnce("Warning: an informer of client-go ignores an option", "option", f.Name)
		}
	}
}

// unneeded lists the options that client-go's informers need not have: they always behave like that
// (PinDecoded, NoCapture, ResyncOnRelist), the option only concerns Weir's informers, or
// filterShard replaces it.
var unneeded = []string{"Off", "PinDecoded", "NoCapture", "ResyncOnRelist", "Scheme", "Server", "Shard", "clientCopied"}

// logged contains the values that logOnce has logged: at most one entry per field of Options, one
// for "", and one per Go type of a client.
var logged sync.Map

func logOnce(message, key, value string) {
	if _, done := logged.LoadOrStore(value, true); !done {
		klog.Background().Info(message, key, value)
	}
}

// original returns client-go's informer for p, except for the watch error handler. It stores only
// the objects of the options' shard; see filterShard.
func (p informerFields) original(o *Options) cache.SharedIndexInformer {
	if p.indexers == nil {
		p.indexers = cache.Indexers{} // client-go's AddIndexers writes to the map
	}
	inf := cache.NewSharedIndexInformerWithOptions(filterShard(p.lw, o), p.example, cache.SharedIndexInformerOptions{
		ResyncPeriod: p.resync, Indexers: p.indexers, ObjectDescription: p.description,
	})
	_ = inf.SetTransform(p.transform) // returns an error only if the informer has started
	return inf
}

// filterShard returns a ListerWatcher for client-go's informers that returns only the objects of
// the options' shard, although the server sends all objects. If a request has a shard selector,
// which client-go has since v0.38, the selector applies instead. filterShard panics if the shard is
// invalid.
func filterShard(lw cache.ListerWatcher, o *Options) cache.ListerWatcher {
	if err := o.Shard.Validate(); err != nil {
		panic(fmt.Errorf("clientgo: %w", err))
	}
	if lw, _ = capturable(lw); o.Shard.All() {
		return lw
	}
	return &shardFilter{lw, cache.ToListerWatcherWithContext(lw), shard.Shard(o.Shard).Selector()}
}

// shardFilter is the ListerWatcher that filterShard returns.
type shardFilter struct {
	cache.ListerWatcher
	all      cache.ListerWatcherWithContext
	selector *shard.Selector
}

// lacks reports whether the shard lacks an object.
func (f *shardFilter) lacks(object runtime.Object) bool {
	m, err := meta.Accessor(object)
	return err == nil && !f.selector.Chooses([]byte(m.GetUID()), []byte(m.GetNamespace()))
}

func (f *shardFilter) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	list, err := f.all.ListWithContext(ctx, o)
	if err != nil || hasShardSelector(o) {
		return list, err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	return list, meta.SetList(list, slices.DeleteFunc(items, f.lacks))
}

func (f *shardFilter) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w, err := f.all.WatchWithContext(ctx, o)
	if err != nil || hasShardSelector(o) {
		return w, err
	}
	return watch.NewStreamWatcher(filteredWatch{w, f.lacks}, nil), nil
}

// IsWatchListSemanticsUnSupported reports whether the original ListerWatcher does not support
// watches with initial events. client-go's reflector calls it.
func (f *shardFilter) IsWatchListSemanticsUnSupported() bool {
	u, ok := f.ListerWatcher.(interface{ IsWatchListSemanticsUnSupported() bool })
	return ok && u.IsWatchListSemanticsUnSupported()
}

// hasShardSelector reports whether a request has a shard selector.
func hasShardSelector(o metav1.ListOptions) bool {
	f := reflect.ValueOf(o).FieldByName("ShardSelector") // since v0.36
	return f.IsValid() && !f.IsZero()
}

// filteredWatch is the watch.Decoder of a watch without the objects that the shard lacks.
type filteredWatch struct {
	watch.Interface
	lacks func(runtime.Object) bool
}

func (w filteredWatch) Decode() (watch.EventType, runtime.Object, error) {
	for e := range w.ResultChan() {
		if e.Type == watch.Bookmark || e.Type == watch.Error || !w.lacks(e.Object) {
			return e.Type, e.Object, nil
		}
	}
	return "", nil, io.EOF
}

func (w filteredWatch) Close() { w.Stop() }
