package clientgo

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/wire"
)

// verb is the kind of request whose response a capture receives.
type verb uint8

const (
	verbList verb = iota
	verbWatch
)

// contextKey is the key of a *T in a context. This package passes such a context to a
// ListerWatcher's List or Watch. The transport then reads the *T from the context of the requests
// that List or Watch sends.
type contextKey[T any] struct{}

func withValue[T any](ctx context.Context, v *T) context.Context {
	return context.WithValue(ctx, contextKey[T]{}, v)
}

// valueOf returns the *T that a context contains, or nil.
func valueOf[T any](ctx context.Context) *T {
	v, _ := ctx.Value(contextKey[T]{}).(*T)
	return v
}

// capture receives the response to one LIST or WATCH instead of the client that sent the request.
// The client receives an empty response, a stub. The context of the request contains the capture.
// After end, the capture receives no more responses, although requests with this context may
// follow: client-go's RetryWatcher, for example, sends them after Watch has returned.
type capture struct {
	verb    verb
	context context.Context // its end closes the body of the captured response
	matcher responseMatcher // a copy: a call that CallWithContext abandoned may still use it
	page    string          // the continue token that was passed to List

	mu         sync.Mutex
	answer     *http.Response // the captured response, or nil
	scope      *requestScope  // the scope of the captured request
	release    context.CancelCauseFunc
	asked      bool // the ListerWatcher's call has sent a request of the verb
	answers    int  // number of responses to requests of the verb
	stubbed    int  // number of responses that were replaced by a stub
	mismatched bool // the caller has received a real response and will receive no stub
	ownPages   bool // the first mismatch was a page that List was not called for: List pages itself
	expired    bool // the requested page has expired: client-go's pager then lists all objects instead
	closed     bool
}

// admit decides whether the capture or the caller receives the response to a request. If admit
// returns true, the capture has the response and the caller receives a stub. If it returns false,
// the caller receives the response. matches is true if the response contains the informer's
// objects. admit returns true only if all of these hold: end was not called, the response is the
// first one, it has the informer's objects, and it is the requested page.
func (c *capture) admit(req *http.Request, resource schema.GroupVersionResource, resp *http.Response, matches bool, release context.CancelCauseFunc) bool {
	samePage := c.isSamePage(req)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.answers++
	c.ownPages = c.ownPages || !c.mismatched && matches && !samePage && !c.expired
	c.mismatched = c.mismatched || !matches || !samePage
	if c.mismatched {
		return false
	}
	if c.answers > 1 {
		// A call that sends a second request is not captured: it may be a loop that repeats the request
		// until the response is not empty, and a stub is always empty.
		return false
	}
	c.stubbed++
	resp.Body = &cancelingBody{resp.Body, release}
	c.answer, c.scope, c.release = resp, scopeOf(req, resource), release
	return true
}

// refuse records whether an error response that the caller receives has the status 410 (Gone).
func (c *capture) refuse(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expired = c.expired || status == http.StatusGone
}

// end stops capturing. After end, the fields answer, scope, asked and ownPages do not change,
// except that discard clears answer. If the caller has received several responses, end drops the
// captured response.
func (c *capture) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.answers > 1 {
		c.drop()
	}
}

// whole reports whether the caller has received only real responses and no stub. The result of List
// or Watch is then complete. Call whole after end.
func (c *capture) whole() bool { return c.stubbed == 0 }

// discard stops capturing and closes the captured response.
func (c *capture) discard() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.drop()
}

// drop closes the captured response. The caller holds mu.
func (c *capture) drop() {
	if c.answer != nil {
		c.release(errDropped)
		_ = c.answer.Body.Close()
		c.answer = nil
	}
}

var errDropped = errors.New("the response is not needed")

// wants reports whether the capture receives the response to a request. It also returns the
// request's resource.
func (c *capture) wants(req *http.Request) (schema.GroupVersionResource, bool) {
	path, ok := request.CollectionOf(req.URL.Path)
	resource := path.GVR()
	if !ok || req.Method != http.MethodGet || request.QueryOf(req.URL).Flag("watch") != (c.verb == verbWatch) {
		return resource, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return resource, false
	}
	c.asked = true
	return resource, true
}

// isSamePage reports whether a request is for the page that List was called for. A List that pages
// by itself sends requests for other pages after the first.
func (c *capture) isSamePage(req *http.Request) bool {
	return c.verb == verbWatch || request.QueryOf(req.URL).Get("continue") == c.page
}

// inspect reports whether a response contains the informer's objects. For a LIST it decompresses
// the body, reads its start, and also returns the list's type. resp.Body still returns the whole
// body. inspect blocks until it has read the start. If ctx ends first, it returns the context's
// cause.
func (c *capture) inspect(ctx context.Context, resource schema.GroupVersionResource, resp *http.Response, enc wire.Encoding) (wire.TypeMeta, bool, error) {
	if c.verb == verbWatch {
		return wire.TypeMeta{}, c.matcher.matchWatch(resource), nil
	}
	body := resp.Body // closed below, because the end of the context does not close every body
	defer context.AfterFunc(ctx, func() { _ = body.Close() })()
	if err := decompress(resp); err != nil {
		return wire.TypeMeta{}, false, err
	}
	types, whole, err := readListTypeMeta(resp.Body, enc)
	if ctx.Err() != nil {
		return wire.TypeMeta{}, false, context.Cause(ctx)
	}
	if err != nil {
		return wire.TypeMeta{}, false, err
	}
	resp.Body = readCloser{whole, resp.Body}
	listType, matches := c.matcher.matchList(resource, types)
	return listType, matches, nil
}

// requestScope is the resource, namespace and selector of a request.
type requestScope struct {
	resource  schema.GroupVersionResource
	namespace string // "" means all namespaces
	selector  string // label and field selectors; "" means all objects
}

// scopeOf returns the scope of a LIST or WATCH of resource.
func scopeOf(req *http.Request, resource schema.GroupVersionResource) *requestScope {
	path, _ := request.CollectionOf(req.URL.Path)
	query := request.QueryOf(req.URL)
	return &requestScope{
		resource: resource, namespace: path.Namespace,
		selector: strings.TrimSpace(query.Get("labelSelector") + " " + query.Get("fieldSelector")),
	}
}

// capturedWatch is a watch whose response was captured. It skips events whose objects are not of
// the informer's kind.
type capturedWatch struct {
	source.Watch
	context  context.Context
	name     string // the informer's name
	matcher  responseMatcher
	resource schema.GroupVersionResource // the request's resource
	accepted wire.TypeMeta               // the type of the last object that matched
}

// Next returns the next event with an object of the informer's kind. It logs and skips other
// events.
func (w *capturedWatch) Next() (source.Event, error) {
	for {
		event, err := w.Watch.Next()
		if err != nil || event.Type == wire.Error || event.TypeMeta == w.accepted {
			return event, err
		}
		if w.matcher.matchObject(w.resource, event.TypeMeta) {
			w.accepted = event.TypeMeta
			return event, nil
		}
		utilruntime.HandleErrorWithContext(w.context, errOtherKind, "Skipped a watch event", "informer", w.name,
			"apiVersion", event.TypeMeta.APIVersion, "kind", event.TypeMeta.Kind)
	}
}
