package clientgo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/wire"
)

// listWatch is a source.Source that calls a ListerWatcher. If the transport of the ListerWatcher's
// client is wrapped, listWatch captures the response and returns the undecoded objects of its body.
// Otherwise it returns the objects that the ListerWatcher's List and Watch return.
type listWatch struct {
	lw cache.ListerWatcherWithContext
	// The reflector's goroutine sets matcher.resource. The other fields of matcher do not change.
	matcher responseMatcher
	stats   *source.Stats
	name    string // the informer's name, for messages
	// expected describes the objects that the informer accepts from the ListerWatcher's watches.
	expected source.ExpectedObject
	// noCapture is true if Options.NoCapture is set, or after stopCapturing.
	noCapture atomic.Bool
	// failed[verb] is true if the last captured call of the verb failed and the same call without
	// capturing succeeded. Only the reflector's goroutine uses it.
	failed [2]bool
	// told is true after this listWatch has logged why a response was not captured. Only the
	// reflector's goroutine uses it.
	told bool
	// clientCopied is Options.clientCopied.
	clientCopied bool
	prober       source.Prober
	scope        atomic.Pointer[requestScope] // the scope of the last captured request
	markings     [2]atomic.Int32              // the marking of each verb
}

func newListWatch(lw cache.ListerWatcher, matcher responseMatcher, stats *source.Stats, noCapture bool) *listWatch {
	l := &listWatch{lw: cache.ToListerWatcherWithContext(lw), matcher: matcher, stats: stats}
	l.setMarkings(lw)
	l.noCapture.Store(noCapture)
	return l
}

// ServerVersion returns the version of a server that streams its lists, because a ListerWatcher
// does not provide the real version. Servers of older versions also answer the requests that the
// reflector then sends.
func (l *listWatch) ServerVersion(context.Context) (major, minor int, err error) { return 1, 33, nil }

// List calls the ListerWatcher's List. If the client received a stub response, and the call then
// failed, sent several requests or returned objects, List repeats the call without capturing.
func (l *listWatch) List(ctx context.Context, o metav1.ListOptions) (source.List, error) {
	var after retryAfter
	list, err := l.list(withValue(ctx, &after), o)
	return list, after.restore(err)
}

func (l *listWatch) list(ctx context.Context, o metav1.ListOptions) (source.List, error) {
	l.stats.Requests.Add(1)
	l.stats.Lists.Add(1)
	c := &capture{verb: verbList, context: ctx, matcher: l.matcher, page: o.Continue}
	object, captured, err := tryCapture(ctx, l, c, operation[runtime.Object]{
		call: func(ctx context.Context) (runtime.Object, error) {
			return callMarked(ctx, l, verbList, o, l.lw.ListWithContext)
		},
		drop:       func(runtime.Object) {},
		hasObjects: func(list runtime.Object) bool { return meta.LenList(list) > 0 },
	})
	switch {
	case err != nil:
		return nil, err
	case !captured:
		return source.NewObjectList(object)
	}
	l.matcher.resource = c.scope.resource
	return source.NewList(c.answer, source.Options{Stats: l.stats})
}

// operation is a call of the List or Watch of a ListerWatcher.
type operation[T any] struct {
	call       func(context.Context) (T, error)
	drop       func(T)      // releases a result that is not used
	hasObjects func(T) bool // is false for the result that the client builds from a stub
}

// tryCapture calls a ListerWatcher with capture c. If captured is true, c.answer is the captured
// response, and result must not be used. Otherwise result is what the ListerWatcher returned. If
// the ListerWatcher received a stub response but c does not contain the complete result of the
// call, tryCapture calls the ListerWatcher again without capturing.
func tryCapture[T any](ctx context.Context, l *listWatch, c *capture, op operation[T]) (result T, captured bool, err error) {
	call := func(ctx context.Context) (T, error) {
		return source.CallWithContext(ctx, func() (T, error) { return op.call(ctx) }, op.drop)
	}
	if l.noCapture.Load() {
		result, err = call(ctx)
		return result, false, err
	}
	result, err = call(withValue(ctx, c))
	c.end()
	switch {
	case err != nil && (c.whole() || ctx.Err() != nil):
		c.discard()
		return result, false, err
	case c.whole():
		if c.ownPages {
			l.stopCapturing(ctx, errOwnPages)
		} else if c.verb == verbWatch || op.hasObjects(result) {
			l.notCaptured(ctx, c)
		}
		return result, false, nil
	}
	isStub := err == nil && c.answer != nil && !op.hasObjects(result)
	if op.drop(result); isStub {
		l.failed[c.verb] = false
		l.scope.Store(c.scope)
		return result, true, nil
	}
	c.discard()
	if err == nil {
		l.stopCapturing(ctx, errOwnAnswer)
	}
	again, without := call(ctx)
	if err != nil && without == nil {
		// Either the client cannot read stub responses, or the captured call failed by chance. Therefore
		// only the second such failure in a row stops capturing.
		if l.failed[c.verb] {
			l.stopCapturing(ctx, err)
		}
		l.failed[c.verb] = true
	}
	return again, false, without
}

// Watch calls the ListerWatcher's Watch. If the client received a stub response, and the call then
// failed or sent several requests, Watch repeats the call without capturing.
func (l *listWatch) Watch(ctx context.Context, o metav1.ListOptions) (source.Watch, error) {
	var after retryAfter
	w, err := l.watch(withValue(ctx, &after), o)
	return w, after.restore(err)
}

func (l *listWatch) watch(ctx context.Context, o metav1.ListOptions) (source.Watch, error) {
	o.Watch = true
	l.stats.Requests.Add(1)
	l.stats.Watches.Add(1)
	c := &capture{verb: verbWatch, context: ctx, matcher: l.matcher}
	w, captured, err := tryCapture(ctx, l, c, operation[watch.Interface]{
		call: func(ctx context.Context) (watch.Interface, error) {
			return callMarked(ctx, l, verbWatch, o, l.lw.WatchWithContext)
		},
		drop:       source.StopWatch,
		hasObjects: func(watch.Interface) bool { return false }, // unknown before the first event
	})
	switch {
	case err != nil:
		return nil, err
	case !captured:
		return source.NewObjectWatch(ctx, w, l.expected)
	}
	events, err := source.NewWatch(c.answer, watchTimeout(c.answer, source.TimeoutOf(o)), source.Options{Stats: l.stats})
	if err != nil {
		return nil, err
	}
	return &capturedWatch{Watch: events, context: ctx, name: l.name, matcher: l.matcher, resource: c.scope.resource}, nil
}

// watchTimeout returns the timeout that the ListerWatcher requested from the server, or 0 if it
// requested none. It may differ from requested, the timeout that was passed to Watch. If the
// response has no request, watchTimeout returns requested.
func watchTimeout(answer *http.Response, requested time.Duration) time.Duration {
	if answer.Request == nil || answer.Request.URL == nil {
		return requested
	}
	seconds, _ := strconv.ParseInt(request.QueryOf(answer.Request.URL).Get("timeoutSeconds"), 10, 32)
	return time.Duration(seconds) * time.Second
}

// These are reasons to stop capturing the calls of a ListerWatcher.
var (
	errOwnAnswer = errors.New("it sends several requests, or adds to the response")
	errOwnPages  = errors.New("it requests pages itself")
)

// stopCapturing makes the informer use the objects that the ListerWatcher returns from now on. It
// logs the reason.
func (l *listWatch) stopCapturing(ctx context.Context, why error) {
	l.noCapture.Store(true)
	l.told = true
	klog.FromContext(ctx).Info("An informer uses the decoded objects of its ListerWatcher from now on", "type", l.name, "listerWatcher", fmt.Sprintf("%T", l.lw), "why", why)
}

// These are reasons why a response was not captured.
var (
	errOtherKind = errors.New("it may have objects of another kind than the example")
	errNoRequest = errors.New("no request with the call's context or mark passed a wrapped transport")
)

// mayCapture reports whether the ListerWatcher's requests may pass a transport of this package.
func (l *listWatch) mayCapture() bool { return l.clientCopied || wrapped.Load() }

// notCaptured logs once why a response was not captured. It logs nothing if the program has not
// called Wrap and the informer is not of a factory that has copied its client, because the program
// then does not expect capturing.
func (l *listWatch) notCaptured(ctx context.Context, c *capture) {
	why := errOtherKind
	if !c.asked {
		why = errNoRequest
	}
	if l.told || !l.mayCapture() {
		return
	}
	l.told = true
	klog.FromContext(ctx).Info("An informer uses the decoded objects of its ListerWatcher, because it cannot capture the response", "type", l.name, "listerWatcher", fmt.Sprintf("%T", l.lw), "why", why)
}

// Scope returns the namespace and the selectors of the last captured request. ok is false before
// the first captured request, and after capturing has stopped, because a ListerWatcher does not
// provide its namespace and selectors.
func (l *listWatch) Scope() (namespace, selector string, ok bool) {
	s := l.scope.Load()
	if s == nil || l.noCapture.Load() {
		return "", "", false
	}
	return s.namespace, s.selector, true
}

// Type returns the apiVersion and the resource of the last captured request. For an informer of
// metadata it also returns the kind that the example states.
func (l *listWatch) Type() (t wire.TypeMeta, resource string) {
	s := l.scope.Load()
	if s == nil {
		return wire.TypeMeta{}, ""
	}
	t.APIVersion = s.resource.GroupVersion().String()
	if l.matcher.partial && len(l.matcher.gvks) > 0 {
		t.Kind = l.matcher.gvks[0].Kind
	}
	return t, s.resource.Resource
}
