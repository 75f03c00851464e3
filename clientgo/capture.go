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

// verb selects the requests whose response a capture takes.
type verb uint8

const (
	verbList verb = iota
	verbWatch
)

// contextKey is the key of a *T in the context of a ListerWatcher's call: the transport finds it in
// the context of the call's requests.
type contextKey[T any] struct{}

// withValue returns a context that carries v.
func withValue[T any](ctx context.Context, v *T) context.Context {
	return context.WithValue(ctx, contextKey[T]{}, v)
}

// valueOf returns the *T that a context carries, or nil.
func valueOf[T any](ctx context.Context) *T {
	v, _ := ctx.Value(contextKey[T]{}).(*T)
	return v
}

// capture takes the response to one LIST or WATCH from the client that sent the request. The
// request's context carries it. After it has ended it takes no response: a ListerWatcher may have
// left something running on that context, such as client-go's RetryWatcher, which sends its
// requests after Watch has returned.
type capture struct {
	verb    verb
	context context.Context // ends with the response's body
	matcher responseMatcher // a copy: an abandoned call may still use it
	page    string          // the continue token that the call received

	mu         sync.Mutex
	answer     *http.Response // the captured response, or nil
	scope      *requestScope  // of its request
	release    context.CancelCauseFunc
	asked      bool // a request of the verb was sent
	answers    int  // responses to requests of the verb
	stubbed    int  // of answers: those for which the caller received a stub
	mismatched bool // the caller has received a response itself, and receives every later one
	ownPages   bool // that was a response for another page: the caller selects pages itself
	expired    bool // the requested page has expired: a pager then requests everything
	closed     bool
}

// admit decides whether the capture takes the response to a request of a resource. It returns true
// if it does; the caller then receives a stub. Otherwise the caller receives the response. matches
// reports that the response has the informer's objects. The capture takes the first response,
// unless it has ended, or the caller has received one with other objects or of another page than
// the call requested.
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
		// A call that sends several requests is not captured: it may repeat them until an answer is not
		// empty.
		return false
	}
	c.stubbed++
	resp.Body = &cancelingBody{resp.Body, release}
	c.answer, c.scope, c.release = resp, scopeOf(req, resource), release
	return true
}

// refuse records an error response that the caller receives.
func (c *capture) refuse(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expired = c.expired || status == http.StatusGone
}

// end stops capturing. Afterwards answer, scope, asked and ownPages do not change, except by
// discard. It drops the response if the caller sent several requests.
func (c *capture) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.answers > 1 {
		c.drop()
	}
}

// whole reports whether the caller received every response, so that its result is complete. Call it
// after end.
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

var errDropped = errors.New("the answer is not wanted")

// wants returns the resource of a request and reports whether the capture takes its response.
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

// isSamePage reports whether a request is for the page that the call requested. A List that pages
// by itself with its own options requests other pages, except for the first.
func (c *capture) isSamePage(req *http.Request) bool {
	return c.verb == verbWatch || request.QueryOf(req.URL).Get("continue") == c.page
}

// inspect reports whether a response has the informer's objects, and for a LIST returns the list's
// type. It reads the first bytes of a list's body, puts them back and decompresses the body. It
// blocks until the bytes have arrived or the context ends; the error is then the context's cause.
func (c *capture) inspect(ctx context.Context, resource schema.GroupVersionResource, resp *http.Response, enc wire.Encoding) (wire.TypeMeta, bool, error) {
	if c.verb == verbWatch {
		return wire.TypeMeta{}, c.matcher.matchWatch(resource), nil
	}
	body := resp.Body // closed explicitly, because some bodies outlive their request's context
	stop := context.AfterFunc(ctx, func() { _ = body.Close() })
	defer stop()
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

// requestScope is the namespace and the selector of a request.
type requestScope struct {
	resource  schema.GroupVersionResource
	namespace string // "" is all
	selector  string // of labels and of fields; "" is everything
}

// scopeOf returns the scope of a request whose path is that of a resource's collection.
func scopeOf(req *http.Request, resource schema.GroupVersionResource) *requestScope {
	path, _ := request.CollectionOf(req.URL.Path)
	query := request.QueryOf(req.URL)
	return &requestScope{
		resource: resource, namespace: path.Namespace,
		selector: strings.TrimSpace(query.Get("labelSelector") + " " + query.Get("fieldSelector")),
	}
}

// capturedWatch is a captured watch that skips events with objects that are not the informer's.
type capturedWatch struct {
	source.Watch
	context  context.Context
	name     string // of the informer
	matcher  responseMatcher
	resource schema.GroupVersionResource // of the request
	accepted wire.TypeMeta               // the type of the last accepted event
}

// Next returns the next event of an object of the informer's kind. It reports and skips others.
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
		utilruntime.HandleErrorWithContext(w.context, errOtherKind, "A watch event is skipped", "informer", w.name,
			"apiVersion", event.TypeMeta.APIVersion, "kind", event.TypeMeta.Kind)
	}
}
