package clientgo

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/source"
)

// listWatch is the source.Source of a ListerWatcher. Where the ListerWatcher's transport is wrapped it hands out the
// bodies of the answers; elsewhere it makes bodies of what List and Watch return, as returned tells.
type listWatch struct {
	lw       cache.ListerWatcherWithContext
	returned *returned
	own      own // of the reflector's goroutine
	stats    *source.Stats
	shard    string // the shardSelector of each request
	// uncaptured is set once the ListerWatcher has proved to do more than to pass an answer on.
	uncaptured atomic.Bool
}

func newListWatch(lw cache.ListerWatcher, r *returned, own own, stats *source.Stats, noCapture bool) *listWatch {
	l := &listWatch{lw: cache.ToListerWatcherWithContext(lw), returned: r, own: own, stats: stats}
	l.uncaptured.Store(noCapture)
	return l
}

// ServerVersion is one that streams its lists: which one it is cannot be told from here, and an older server answers the
// same request.
func (l *listWatch) ServerVersion(context.Context) (major, minor int, err error) { return 1, 33, nil }

// List lists once, or a second time without capturing when what came back is more than the planted list.
func (l *listWatch) List(ctx context.Context, o source.ListOptions) (*source.List, error) {
	var after retryAfter
	list, err := l.list(after.with(ctx), o)
	return list, after.restore(err)
}

func (l *listWatch) list(ctx context.Context, o source.ListOptions) (*source.List, error) {
	options := metav1.ListOptions{
		ResourceVersion:      o.ResourceVersion,
		ResourceVersionMatch: o.Match,
		Limit:                o.Limit,
		Continue:             o.Continue,
		ShardSelector:        l.shard,
	}
	l.stats.Requests.Add(1)
	l.stats.Lists.Add(1)
	if l.uncaptured.Load() {
		return l.plainList(ctx, options)
	}
	c := &capture{verb: list, context: ctx, own: l.own}
	object, err := l.call(c.with(ctx), options)
	got := c.end()
	switch {
	case err != nil && (got.whole || ctx.Err() != nil):
		c.discard()
		return nil, err
	case got.whole:
		return l.returned.list(object)
	case err != nil || got.answer == nil || meta.LenList(object) > 0:
		// An error here is one of the planted list, most likely: the client cannot read it.
		c.discard()
		l.uncaptured.Store(true)
		return l.plainList(ctx, options)
	}
	l.returned.active = false
	l.own.resource = got.resource
	return source.NewList(got.answer, source.Options{Stats: l.stats})
}

func (l *listWatch) plainList(ctx context.Context, options metav1.ListOptions) (*source.List, error) {
	object, err := l.call(ctx, options)
	if err != nil {
		return nil, err
	}
	return l.returned.list(object)
}

func (l *listWatch) call(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	return await(ctx, func() (runtime.Object, error) { return l.lw.ListWithContext(ctx, options) }, func(runtime.Object) {})
}

// Watch watches once, as List lists.
func (l *listWatch) Watch(ctx context.Context, o source.WatchOptions) (*source.Watch, error) {
	var after retryAfter
	w, err := l.watch(after.with(ctx), o)
	return w, after.restore(err)
}

func (l *listWatch) watch(ctx context.Context, o source.WatchOptions) (*source.Watch, error) {
	options := metav1.ListOptions{
		ResourceVersion:      o.ResourceVersion,
		ResourceVersionMatch: o.Match,
		AllowWatchBookmarks:  o.AllowBookmarks,
		Watch:                true,
		ShardSelector:        l.shard,
	}
	if o.SendInitialEvents {
		options.SendInitialEvents = &o.SendInitialEvents
	}
	timeout := (o.Timeout + time.Second - 1).Truncate(time.Second)
	if timeout > 0 {
		seconds := int64(timeout / time.Second)
		options.TimeoutSeconds = &seconds
	}
	l.stats.Requests.Add(1)
	l.stats.Watches.Add(1)
	if l.uncaptured.Load() {
		return l.plainWatch(ctx, options)
	}
	c := &capture{verb: watching, context: ctx, own: l.own}
	w, err := l.callWatch(c.with(ctx), options)
	got := c.end()
	switch {
	case err != nil && (got.whole || ctx.Err() != nil):
		c.discard()
		return nil, err
	case err == nil && got.whole:
		return l.returned.watch(ctx, w)
	}
	if w != nil {
		stopWatch(w)
	}
	if err != nil || got.answer == nil {
		c.discard()
		l.uncaptured.Store(true)
		return l.plainWatch(ctx, options)
	}
	l.returned.active = false
	return source.NewWatch(got.answer, timeout, source.Options{Stats: l.stats})
}

func (l *listWatch) plainWatch(ctx context.Context, options metav1.ListOptions) (*source.Watch, error) {
	w, err := l.callWatch(ctx, options)
	if err != nil {
		return nil, err
	}
	return l.returned.watch(ctx, w)
}

func (l *listWatch) callWatch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return await(ctx, func() (watch.Interface, error) { return l.lw.WatchWithContext(ctx, options) }, func(w watch.Interface) {
		if w != nil {
			stopWatch(w)
		}
	})
}
