package clientgo

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/source"
)

// A ListerWatcher without contexts cannot pass a call's context to its client's requests. Older
// generated code and all of Istio's are such ListerWatchers. They pass only ListOptions. Therefore
// the field Limit of such a call contains a random number, the mark. The transport replaces the
// mark by the call's own limit and adds the values of the call's context to the request.
//
// The first list and the first watch are a test: they have a number in Limit that is the size of an
// ordinary page. If a request with that number passes a wrapped transport, the transport handles it
// like a mark, and later calls have marks. Otherwise the ListerWatcher changes Limit, or the
// transport of its client is not wrapped: later calls have no marks, and the informer uses their
// decoded results. The first list is repeated if it may be a page. So a server receives a mark only
// if a ListerWatcher changes to a client without a wrapped transport later, and only once.

// marking states how a verb's requests identify the ListerWatcher's call that sent them.
type marking = int32

const (
	byContext marking = iota // by the context that the ListerWatcher passes to its client
	untested                 // the ListerWatcher passes no context, and its next call is a test
	byMark                   // by the mark in Limit
	unmarked                 // not at all: a call succeeded without a request that had its mark
)

// setMarkings determines which verbs of a ListerWatcher pass their context to the client.
func (l *listWatch) setMarkings(lw cache.ListerWatcher) {
	if v := reflect.Indirect(reflect.ValueOf(lw)); v.Kind() == reflect.Struct {
		// client-go's generated informers wrap their ListWatch in a struct that embeds it.
		if f, ok := v.Type().FieldByName("ListWatch"); ok && len(f.Index) == 1 {
			if inner, ok := v.Field(f.Index[0]).Interface().(*cache.ListWatch); ok && inner != nil {
				lw = inner
			}
		}
	}
	_, passes := lw.(cache.ListerWatcherWithContext)
	listWatch, ok := lw.(*cache.ListWatch)
	if !passes || ok && listWatch.ListWithContextFunc == nil {
		l.markings[verbList].Store(untested)
	}
	if !passes || ok && listWatch.WatchFuncWithContext == nil {
		l.markings[verbWatch].Store(untested)
	}
}

// markedCall is a call of a ListerWatcher whose ListOptions contain a mark.
type markedCall struct {
	context context.Context // the call's context, or nil if the call has ended
	verb    verb
	limit   int64 // replaces the mark
	test    bool  // the mark is the size of an ordinary page, which a server may receive
	// seen becomes true when a request with the mark passes a wrapped transport.
	seen *atomic.Bool
}

// markedCalls contains the active marked calls of the process. Each call is removed when it
// returns.
type markedCalls struct {
	used  atomic.Bool // a call was marked
	start int64       // the bits above markBits of all marks except those of tests
	mu    sync.Mutex
	calls map[int64]markedCall
}

// markBits is the number of bits in which the marks of a process differ.
const markBits = 32

var marks = markedCalls{start: 1<<62 | rand.Int64N(1<<30)<<markBits, calls: map[int64]markedCall{}}

// add returns the mark of a call.
func (m *markedCalls) add(call markedCall) int64 {
	m.used.Store(true)
	m.mu.Lock()
	defer m.mu.Unlock()
	for pages := int64(100); ; pages *= 2 { // larger pages, if all marks of tests are in use
		mark := m.start | rand.Int64N(1<<markBits)
		if call.test {
			mark = source.ProbePage + 10*rand.Int64N(pages) + 7 // a program's own pages have round sizes
		}
		if _, taken := m.calls[mark]; !taken {
			m.calls[mark] = call
			return mark
		}
	}
}

func (m *markedCalls) remove(mark int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.calls, mark)
}

// unmark returns a URL without its mark, and the call of the mark. For a URL without a mark it
// returns the same URL. The call has no context if the call has ended: a ListerWatcher may send
// requests later, as client-go's RetryWatcher does.
func (m *markedCalls) unmark(u *url.URL) (*url.URL, markedCall) {
	limit := request.QueryOf(u).Get("limit")
	mark, err := strconv.ParseInt(limit, 10, 64)
	if err != nil {
		return u, markedCall{}
	}
	m.mu.Lock()
	call, ok := m.calls[mark]
	m.mu.Unlock()
	if ok && call.test && request.QueryOf(u).Flag("watch") != (call.verb == verbWatch) || !ok && mark>>markBits != m.start>>markBits {
		return u, markedCall{}
	}
	query := u.Query()
	if query.Del("limit"); call.limit != 0 {
		query.Set("limit", strconv.FormatInt(call.limit, 10))
	}
	plain := *u
	plain.RawQuery = query.Encode()
	return &plain, call
}

// unmarkRequest returns a request without its mark. If the mark's call is active, the request's
// context has the values of the call's context. A request that follows a redirect has its mark in
// the header Referer.
func unmarkRequest(req *http.Request) *http.Request {
	if !marks.used.Load() {
		return req
	}
	plain, call := marks.unmark(req.URL)
	referer, err := url.Parse(req.Referer())
	if err != nil {
		referer = &url.URL{}
	}
	plainReferer, earlier := marks.unmark(referer)
	if plain == req.URL && plainReferer == referer {
		return req
	}
	if call.context == nil {
		call = earlier
	}
	ctx := req.Context()
	if call.context != nil {
		call.seen.Store(true)
		ctx = markedContext{ctx, call.context}
	}
	ours := req.Clone(ctx)
	ours.URL = plain
	if plainReferer != referer {
		ours.Header.Set("Referer", plainReferer.String())
	}
	return ours
}

// markedContext is the context of a request with the values of the context of a marked call.
type markedContext struct {
	context.Context
	call context.Context
}

func (c markedContext) Value(key any) any {
	switch key.(type) {
	case contextKey[capture], contextKey[probe], contextKey[retryAfter]:
		return c.call.Value(key)
	}
	return c.Context.Value(key)
}

// callMarked calls a ListerWatcher's List or Watch, with a mark if the ListerWatcher's requests
// need one, and sets the marking of the next call. A call without a capture is no test.
func callMarked[T any](ctx context.Context, l *listWatch, v verb, o metav1.ListOptions, call func(context.Context, metav1.ListOptions) (T, error)) (T, error) {
	m := l.markings[v].Load()
	if m == byContext || m == unmarked || m == untested && valueOf[capture](ctx) == nil || l.noCapture.Load() || !l.mayCapture() {
		return call(ctx, o)
	}
	marked, seen := o, &atomic.Bool{}
	marked.Limit = marks.add(markedCall{ctx, v, o.Limit, m == untested, seen})
	defer marks.remove(marked.Limit)
	result, err := call(ctx, marked)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		if u, malformed := url.Parse(failed.URL); malformed == nil {
			u, _ = marks.unmark(u)
			failed.URL = u.String()
		}
	}
	switch {
	case seen.Load():
		l.markings[v].Store(byMark)
	case err != nil:
		if ctx.Err() == nil {
			l.markings[v].Store(untested) // the call may have sent no request
		}
	default:
		l.markings[v].Store(unmarked)
		if list, ok := any(result).(runtime.Object); ok && mayBePage(list, marked.Limit) {
			return call(ctx, o)
		}
	}
	return result, err
}

// mayBePage reports whether a list may be incomplete because its request had the given limit. A
// ListerWatcher may drop the continue token of a page.
func mayBePage(list runtime.Object, limit int64) bool {
	m, err := source.ObjectListMeta(list)
	return err == nil && (m.Continue != "" || int64(meta.LenList(list)) >= limit)
}
