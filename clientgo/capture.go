package clientgo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/source"
	"github.com/weirproject/weir/internal/wire"
)

// Wrap installs the capturing transport on a config, before clients are built from it. It changes nothing for any
// request but the LISTs and WATCHes of this package's informers: the answers to those are read as they arrive and never
// held whole, and the client that made the request is handed an empty list, or a watch that has ended. Only answers of
// the kind of the informer's example are, so that a ListerWatcher gets whatever else it asks for.
//
// So what a ListerWatcher does to its client's answers (filtering, filling in fields) has no effect: such a one needs
// Options.NoCapture. What it does to the request (selectors, namespace, path) works as ever.
//
// Fields of the config may be set afterwards. Of a transport that is not net/http's own DisableCompression is read from this very config,
// not from a copy, when a client is built.
func Wrap(cfg *rest.Config) {
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &transport{next: next, plain: cfg.DisableCompression || isPlain(next)}
	})
}

// isPlain reports whether compression is off in the transport that others are around.
func isPlain(rt http.RoundTripper) bool {
	for {
		switch at := rt.(type) {
		case *http.Transport:
			return at.DisableCompression
		case interface{ WrappedRoundTripper() http.RoundTripper }:
			rt = at.WrappedRoundTripper()
		default:
			return false
		}
	}
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
	own     own             // a copy: the caller may leave requests behind

	mu       sync.Mutex
	answer   *http.Response // the captured one
	resource schema.GroupVersionResource
	release  context.CancelCauseFunc
	answers  int  // to requests of the verb
	planted  int  // of these, those that the caller did not get
	foreign  bool // one was not the informer's own: from then on the caller gets them all
	closed   bool
}

// with puts the capture into a context.
func (c *capture) with(ctx context.Context) context.Context {
	return context.WithValue(ctx, captureKey{}, c)
}

// admit decides whether an answer is to be captured: the informer's own are, until the caller has got one that is not.
func (c *capture) admit(isOwn bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers++
	c.foreign = c.foreign || !isOwn
	if c.foreign {
		return false
	}
	c.planted++
	return true
}

// take keeps an answer. It reports false when there is one already, or nobody wants it any more.
func (c *capture) take(resp *http.Response, resource schema.GroupVersionResource, release context.CancelCauseFunc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.answers > 1 {
		return false
	}
	c.answer, c.resource, c.release = resp, resource, release
	return true
}

// captured is what a call of a ListerWatcher has come to.
type captured struct {
	answer   *http.Response // nil: none, or not all that the caller asked for, since it made several requests
	resource schema.GroupVersionResource
	whole    bool // the caller got every answer: what it returns is what it made of them
}

// end stops capturing and returns what was captured.
func (c *capture) end() captured {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.answers > 1 {
		c.drop()
	}
	return captured{c.answer, c.resource, c.planted == 0}
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

// wants returns the resource of a request, if the capture is for requests such as this one.
func (c *capture) wants(req *http.Request) (schema.GroupVersionResource, bool) {
	resource, ok := resourceOf(req)
	if !ok || req.Method != http.MethodGet {
		return resource, false
	}
	watch, _ := strconv.ParseBool(req.URL.Query().Get("watch"))
	return resource, watch == (c.verb == watching)
}

// RoundTrip makes the request, captured or not.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.roundTrip(req)
	strip(req, resp)
	return resp, err
}

// roundTrip makes the request. Where it is captured the request's life is tied to the capture's context once the
// answer has begun: the caller ends its own as soon as it has its empty list.
func (t *transport) roundTrip(req *http.Request) (*http.Response, error) {
	c, ok := req.Context().Value(captureKey{}).(*capture)
	if !ok {
		return t.next.RoundTrip(req)
	}
	resource, ok := c.wants(req)
	if !ok {
		return t.next.RoundTrip(req)
	}
	// Without the capture: below there may be another such transport.
	ctx, cancel := context.WithCancelCause(context.WithValue(context.WithoutCancel(req.Context()), captureKey{}, nil))
	ours := req.Clone(ctx)
	ours.Header.Set("Accept-Encoding", t.acceptEncoding(req, c.verb))
	stopCaller := context.AfterFunc(req.Context(), func() { cancel(context.Cause(req.Context())) })
	late := time.AfterFunc(headerTimeout, func() { cancel(source.ErrStalled) })
	defer late.Stop()
	resp, err := t.next.RoundTrip(ours)
	if err != nil {
		return pass(resp, err, cancel)
	}
	if resp.StatusCode != http.StatusOK {
		readRefusal(ctx, resp)
		return pass(resp, nil, cancel)
	}
	enc, err := wire.EncodingOf(resp.Header.Get("Content-Type"))
	if err != nil { // the caller's to decode: a page of something in between, most likely
		readRefusal(ctx, resp)
		return pass(resp, nil, cancel)
	}
	kind, isOwn, err := c.look(ctx, resource, resp, enc)
	if err != nil || !c.admit(isOwn) {
		return pass(resp, err, cancel)
	}
	planted, err := plant(req, resp, c.verb, kind, enc)
	if err != nil {
		return pass(resp, err, cancel)
	}
	context.AfterFunc(c.context, func() { cancel(context.Cause(c.context)) })
	stopCaller()
	resp.Body = &ownedBody{resp.Body, cancel}
	if !c.take(resp, resource, cancel) {
		cancel(errDropped)
		_ = resp.Body.Close()
	}
	return planted, nil
}

// look reports whether an answer is the informer's own, and of a list the kind. It reads the head of the body of a list, puts
// it back, and leaves the body decompressed. It blocks until the head has come or the context ends, which is then the error.
func (c *capture) look(ctx context.Context, resource schema.GroupVersionResource, resp *http.Response, enc wire.Encoding) (wire.TypeMeta, bool, error) {
	if c.verb == watching {
		return wire.TypeMeta{}, c.own.watch(resource), nil
	}
	body := resp.Body // what does not end with its request's context ends here, whatever resp has by then
	stop := context.AfterFunc(ctx, func() { _ = body.Close() })
	defer stop()
	if err := decompress(resp); err != nil {
		return wire.TypeMeta{}, false, err
	}
	head, whole, err := readHead(resp.Body, enc)
	if ctx.Err() != nil {
		return wire.TypeMeta{}, false, context.Cause(ctx)
	}
	if err != nil {
		return wire.TypeMeta{}, false, err
	}
	resp.Body = readCloser{whole, resp.Body}
	kind, isOwn := c.own.list(resource, head)
	return kind, isOwn, nil
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

// pass hands on an answer that is not captured, freed of the encoding that the caller did not ask for, or an error.
func pass(resp *http.Response, err error, cancel context.CancelCauseFunc) (*http.Response, error) {
	if err == nil {
		err = decompress(resp)
	}
	if err != nil {
		cancel(err)
		if resp != nil {
			_ = resp.Body.Close()
		}
		return nil, err
	}
	resp.Body = &ownedBody{resp.Body, cancel}
	return resp, nil
}

// readRefusal reads the body of an answer that refuses the request, until it ends or the context does: client-go would wait for all of it
// without a limit. Where it breaks off the caller has what came, with the answer's code.
func readRefusal(ctx context.Context, resp *http.Response) {
	body := resp.Body // the context may end once resp has another
	stop := context.AfterFunc(ctx, func() { _ = body.Close() })
	defer stop()
	text, err := io.ReadAll(io.LimitReader(body, maxRefusal))
	rest := body
	if err != nil || len(text) < maxRefusal {
		_ = body.Close()
		rest = http.NoBody
	}
	resp.Body = readCloser{io.MultiReader(bytes.NewReader(text), rest), rest}
}

// maxRefusal bounds what is read ahead of a refusal, in bytes: a Status takes some hundred.
const maxRefusal = 64 << 10

// decompress frees a body of its encoding.
func decompress(resp *http.Response) error {
	body, encoding := resp.Body, resp.Header.Get("Content-Encoding")
	if encoding == "" {
		return nil
	}
	plain, err := wire.NewBody(body, encoding)
	if err != nil {
		return err
	}
	resp.Body = readCloser{plain, body}
	resp.Header.Del("Content-Encoding")
	resp.Header.Del("Content-Length")
	resp.ContentLength, resp.Uncompressed = -1, true
	return nil
}
