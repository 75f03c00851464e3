package clientgo

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/weirproject/weir/internal/source"
)

// listWatch is the source.Source of a ListerWatcher. Where the ListerWatcher's transport is wrapped it hands out the
// bodies of the answers; elsewhere it makes bodies of what List and Watch return, as returned tells.
type listWatch struct {
	lw      cache.ListerWatcherWithContext
	objects *objectStream
	matcher responseMatcher // of the reflector's goroutine
	stats   *source.Stats
	shard   string // the shardSelector of each request
	// uncaptured is set once the ListerWatcher has proved to do more than to pass an answer on.
	noCapture atomic.Bool
}

func newListWatch(lw cache.ListerWatcher, r *objectStream, own responseMatcher, stats *source.Stats, noCapture bool) *listWatch {
	l := &listWatch{lw: cache.ToListerWatcherWithContext(lw), objects: r, matcher: own, stats: stats}
	l.noCapture.Store(noCapture)
	return l
}

// ServerVersion is one that streams its lists: which one it is cannot be told from here, and an older server answers the
// same request.
func (l *listWatch) ServerVersion(context.Context) (major, minor int, err error) { return 1, 33, nil }

// List lists once, or a second time without capturing when what came back is more than the planted list.
func (l *listWatch) List(ctx context.Context, o source.ListOptions) (*source.List, error) {
	var after retryAfter
	list, err := l.list(after.withContext(ctx), o)
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
	if l.noCapture.Load() {
		return l.uncapturedList(ctx, options)
	}
	c := &capture{verb: verbList, context: ctx, matcher: l.matcher}
	object, err := l.callList(c.withContext(ctx), options)
	got := c.end()
	switch {
	case err != nil && (got.whole || ctx.Err() != nil):
		c.discard()
		return nil, err
	case got.whole:
		return l.objects.list(object)
	case err != nil || got.answer == nil || meta.LenList(object) > 0:
		// An error here is one of the planted list, most likely: the client cannot read it.
		c.discard()
		l.noCapture.Store(true)
		return l.uncapturedList(ctx, options)
	}
	l.objects.active = false
	l.matcher.resource = got.resource
	return source.NewList(got.answer, source.Options{Stats: l.stats})
}

func (l *listWatch) uncapturedList(ctx context.Context, options metav1.ListOptions) (*source.List, error) {
	object, err := l.callList(ctx, options)
	if err != nil {
		return nil, err
	}
	return l.objects.list(object)
}

func (l *listWatch) callList(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	return callWithContext(ctx, func() (runtime.Object, error) { return l.lw.ListWithContext(ctx, options) }, func(runtime.Object) {})
}

// Watch watches once, as List lists.
func (l *listWatch) Watch(ctx context.Context, o source.WatchOptions) (*source.Watch, error) {
	var after retryAfter
	w, err := l.watch(after.withContext(ctx), o)
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
	if l.noCapture.Load() {
		return l.uncapturedWatch(ctx, options)
	}
	c := &capture{verb: verbWatch, context: ctx, matcher: l.matcher}
	w, err := l.callWatch(c.withContext(ctx), options)
	got := c.end()
	switch {
	case err != nil && (got.whole || ctx.Err() != nil):
		c.discard()
		return nil, err
	case err == nil && got.whole:
		return l.objects.watch(ctx, w)
	}
	if w != nil {
		stopWatch(w)
	}
	if err != nil || got.answer == nil {
		c.discard()
		l.noCapture.Store(true)
		return l.uncapturedWatch(ctx, options)
	}
	l.objects.active = false
	return source.NewWatch(got.answer, timeout, source.Options{Stats: l.stats})
}

func (l *listWatch) uncapturedWatch(ctx context.Context, options metav1.ListOptions) (*source.Watch, error) {
	w, err := l.callWatch(ctx, options)
	if err != nil {
		return nil, err
	}
	return l.objects.watch(ctx, w)
}

func (l *listWatch) callWatch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return callWithContext(ctx, func() (watch.Interface, error) { return l.lw.WatchWithContext(ctx, options) }, func(w watch.Interface) {
		if w != nil {
			stopWatch(w)
		}
	})
}

// lateBy is how long a ListerWatcher is waited for when its context has ended.
const callGrace = time.Second

var errNotReturned = errors.New("the ListerWatcher does not return")

// await calls a ListerWatcher, which may know nothing of contexts. When the context has ended and the call does not come to its end,
// the error is errNotReturned and the context's; what the call brings later is given to late. The goroutine ends with the call.
func callWithContext[T any](ctx context.Context, call func() (T, error), late func(T)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers, gone := make(chan answer), make(chan struct{})
	go func() {
		var a answer
		a.value, a.err = call()
		select {
		case answers <- a:
		case <-gone:
			late(a.value)
		}
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(callGrace)
	defer timer.Stop()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-timer.C:
		close(gone)
		err := fmt.Errorf("%w: %w", errNotReturned, context.Cause(ctx))
		klog.FromContext(ctx).Error(err, "An informer stops and leaves its List or Watch behind")
		var none T
		return none, err
	}
}

// NewestVersion lists one object for the list's resourceVersion. It is called while a watch may be open, so nothing is captured,
// and nothing of the body that is being read is touched.
func (l *listWatch) NewestVersion(ctx context.Context, atLeast string) (string, error) {
	o := source.NewestOptions(atLeast)
	l.stats.Requests.Add(1)
	l.stats.Lists.Add(1)
	var after retryAfter
	object, err := l.lw.ListWithContext(after.withContext(ctx), metav1.ListOptions{
		ResourceVersion: o.ResourceVersion, ResourceVersionMatch: o.Match, Limit: o.Limit,
	})
	if err != nil {
		return "", after.restore(err)
	}
	head, err := meta.ListAccessor(object)
	if err != nil {
		return "", fmt.Errorf("List returned %T, which is no list: %w", object, err)
	}
	return head.GetResourceVersion(), nil
}
