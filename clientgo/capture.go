package clientgo

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/source"
	"github.com/weirproject/weir/wire"
)

// Wrap installs the capturing transport on a config, before clients are built from it. It changes nothing for any
// request but the LISTs and WATCHes of this package's informers: the answers to those are read as they arrive and never
// held whole, and the client that made the request is handed an empty list, or a watch that has ended.
//
// So what a ListerWatcher does to its client's answers (filtering, filling in fields) has no effect: such a one needs
// Options.NoCapture. What it does to the request (selectors, namespace, path) works as ever.
func Wrap(cfg *rest.Config) {
	plain := cfg.DisableCompression
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &transport{next: next, plain: plain}
	})
}

// verb is what a capture waits for.
type verb uint8

const (
	list verb = iota
	watching
)

type captureKey struct{}

// capture takes the answer to one LIST or WATCH away from its caller. It is in the request's context.
type capture struct {
	verb    verb
	context context.Context // what the answer's body lives as long as

	mu      sync.Mutex
	answer  *http.Response // the captured one
	release context.CancelCauseFunc
	count   int
	closed  bool
}

// with puts the capture into a context.
func (c *capture) with(ctx context.Context) context.Context {
	return context.WithValue(ctx, captureKey{}, c)
}

// take keeps an answer. It reports false when there is one already, or nobody wants it any more.
func (c *capture) take(resp *http.Response, release context.CancelCauseFunc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	if c.closed || c.count > 1 {
		return false
	}
	c.answer, c.release = resp, release
	return true
}

// end stops capturing and gives what was captured: nil if nothing was, or if it was not the whole answer, because the
// caller made several requests.
func (c *capture) end() *http.Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.count > 1 {
		c.drop()
	}
	return c.answer
}

// discard lets the captured answer go.
func (c *capture) discard() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.drop()
}

// drop lets the captured answer go. The lock is held.
func (c *capture) drop() {
	if c.answer != nil {
		c.release(errDropped)
		_ = c.answer.Body.Close()
		c.answer = nil
	}
}

var errDropped = errors.New("the answer is not wanted")

// transport hands the answers to captured requests over.
type transport struct {
	next  http.RoundTripper
	plain bool // compression is off
}

// WrappedRoundTripper is for client-go's look at chains of transports.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// headerTimeout is how long the answer to a captured request may take to begin. kube-apiserver answers a request, or gives it
// up, within a minute.
const headerTimeout = 75 * time.Second

// listPath is the end of a collection's path; what follows the version is the resource, or a namespace and the resource.
var listPath = regexp.MustCompile(`/(api/[^/]+|apis/[^/]+/[^/]+)/([^/]+|namespaces/[^/]+/[^/]+)/?$`)

// wants reports whether the request is the one that the capture is for.
func (c *capture) wants(req *http.Request) bool {
	if req.Method != http.MethodGet || !listPath.MatchString(req.URL.Path) {
		return false
	}
	watch, _ := strconv.ParseBool(req.URL.Query().Get("watch"))
	return watch == (c.verb == watching)
}

// RoundTrip makes the request. Where it is captured the request's life is tied to the capture's context once the
// answer has begun: the caller ends its own as soon as it has its empty list.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	c, ok := req.Context().Value(captureKey{}).(*capture)
	if !ok || !c.wants(req) {
		return t.next.RoundTrip(req)
	}
	// Without the capture: below there may be another such transport.
	ctx, cancel := context.WithCancelCause(context.WithValue(context.WithoutCancel(req.Context()), captureKey{}, nil))
	ours := req.Clone(ctx)
	ours.Header.Set("Accept-Encoding", t.acceptEncoding(req, c.verb))
	stopCaller := context.AfterFunc(req.Context(), func() { cancel(context.Cause(req.Context())) })
	late := time.AfterFunc(headerTimeout, func() { cancel(source.ErrStalled) })
	resp, err := t.next.RoundTrip(ours)
	late.Stop()
	if err != nil || !capturable(resp) {
		return t.pass(resp, err, cancel)
	}
	stopCaller()
	planted, err := c.plant(req, resp)
	if err != nil {
		cancel(err)
		_ = resp.Body.Close()
		return nil, err
	}
	context.AfterFunc(c.context, func() { cancel(context.Cause(c.context)) })
	resp.Body = &ownedBody{resp.Body, cancel}
	if !c.take(resp, cancel) {
		cancel(errDropped)
		_ = resp.Body.Close()
	}
	return planted, nil
}

// acceptEncoding asks for gzip where the answer is long. It is always said: without the header net/http would ask by
// itself, and undo it so that nobody sees what came over the wire.
func (t *transport) acceptEncoding(req *http.Request, v verb) string {
	long := v == list || req.URL.Query().Get("sendInitialEvents") == "true"
	if long && !t.plain {
		return "gzip"
	}
	return "identity"
}

// capturable reports whether an answer can be cut up. Any other is the caller's to make an error of, or to decode.
func capturable(resp *http.Response) bool {
	if resp.StatusCode != http.StatusOK {
		return false
	}
	_, err := wire.EncodingOf(resp.Header.Get("Content-Type"))
	return err == nil
}

// pass hands an answer on that is not captured. Its body is freed of the encoding that the caller did not ask for.
func (t *transport) pass(resp *http.Response, err error, cancel context.CancelCauseFunc) (*http.Response, error) {
	if err != nil {
		cancel(err)
		return nil, err
	}
	body := resp.Body
	plain, err := wire.NewBody(body, resp.Header.Get("Content-Encoding"))
	if err != nil {
		cancel(err)
		_ = body.Close()
		return nil, err
	}
	if resp.Header.Get("Content-Encoding") != "" {
		resp.Header.Del("Content-Encoding")
		resp.Header.Del("Content-Length")
		resp.ContentLength, resp.Uncompressed = -1, true
	}
	resp.Body = &ownedBody{readCloser{plain, body}, cancel}
	return resp, nil
}
