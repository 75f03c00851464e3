package clientgo

import (
	"bytes"
	"context"
	"io"
	"iter"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/wire"
)

// Wrap adds a transport to cfg with which this package's informers capture responses, and returns
// cfg. A program needs it for informers of ListerWatchers and for Adopt. Factories need it only for
// clients that they cannot copy, see NewSharedInformerFactory. Call Wrap before you build clients
// from cfg, or where you build the first client:
//
//	client, err := kubernetes.NewForConfig(clientgo.Wrap(cfg))
//
// It affects only the LISTs and WATCHes that these informers
// cause: the informer reads the response itself, and the client that sent the request receives an
// empty list or a watch that has ended. The transport captures only responses with objects of the
// informer's kind, so a ListerWatcher receives the responses to its other requests.
//
// Set Options.NoCapture for a ListerWatcher that changes its client's response, for example one
// that filters objects or fills in fields. Also set it if the client has a codec that sets defaults
// or converts objects. Changes to the request (selectors, namespace, path) have their usual effect.
//
// Fields of cfg, or of a copy of cfg, may be set after Wrap. There is one exception:
// DisableCompression of a copy has no effect if the innermost transport of the client is not an
// *http.Transport. Wrap's transport then uses the field of cfg itself. A second Wrap of the same
// config has no further effect.
//
// If the environment variable WEIR_CLIENTGO is off, Wrap does nothing; see Options.Off.
func Wrap(cfg *rest.Config) *rest.Config {
	if offInEnvironment() {
		return cfg
	}
	wrapped.Store(true)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		t := newTransport(next)
		if cfg.DisableCompression {
			t.compression = uncompressed
		}
		return t
	})
	return cfg
}

// wrapped is true after the program has called Wrap.
var wrapped atomic.Bool

// compression states whether the transports below this package's transport return the bodies of
// long responses compressed, and who decompresses them.
type compression uint8

const (
	// compressed bodies are decompressed by this package, which counts the compressed bytes.
	compressed compression = iota
	// decompressed bodies were decompressed by net/http, as in client-go. net/http also requested the
	// compression. This value is used if a RoundTripper of another package is below this package's
	// transport, because that RoundTripper may read the bodies.
	decompressed
	uncompressed
)

// compressionBelow returns the compression that the innermost transport and the RoundTrippers
// around it require. The RoundTrippers of client-go and of this package do not read bodies, so they
// require nothing.
func compressionBelow(rt http.RoundTripper) compression {
	c := compressed
	for rt := range roundTrippers(rt) {
		if at, ok := rt.(*http.Transport); ok {
			if at.DisableCompression {
				return uncompressed
			}
			return c
		}
		if !readsNoBodies(rt) {
			c = decompressed
		}
	}
	return c
}

// roundTrippers returns rt and the RoundTrippers inside it, down to the innermost transport.
func roundTrippers(rt http.RoundTripper) iter.Seq[http.RoundTripper] {
	return func(yield func(http.RoundTripper) bool) {
		for yield(rt) {
			wrapper, ok := rt.(interface{ WrappedRoundTripper() http.RoundTripper })
			if !ok {
				return
			}
			rt = wrapper.WrappedRoundTripper()
		}
	}
}

// readsNoBodies reports whether a RoundTripper is from client-go or this package, whose
// RoundTrippers do not read response bodies.
func readsNoBodies(rt http.RoundTripper) bool {
	t := reflect.TypeOf(rt)
	if t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t == reflect.TypeFor[transport]() || t != nil && strings.HasPrefix(t.PkgPath(), "k8s.io/client-go/")
}

// transport is a RoundTripper that passes the response to an informer's request to the request's
// capture.
type transport struct {
	next        http.RoundTripper
	compression compression
}

func newTransport(next http.RoundTripper) *transport {
	return &transport{next: next, compression: compressionBelow(next)}
}

// WrappedRoundTripper returns the transport below. client-go uses it to find the innermost
// transport.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// headerTimeout limits the time until the response to a captured request starts. It is longer than
// one minute, because kube-apiserver answers or cancels a request after one minute.
const headerTimeout = 75 * time.Second

// RoundTrip sends a request, without its mark. For an informer's request it hides Retry-After and
// broken connections from client-go; see retryAfter.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	req = unmarkRequest(req)
	resp, err := t.roundTrip(req)
	stripRetryAfter(req, resp)
	return resp, hideBroken(req, err)
}

// roundTrip sends a request. The caller's context ends as soon as the caller has received the stub,
// but a captured response must continue. Therefore the request has its own context. Until the
// response is captured, this context ends with the caller's context; afterwards it ends with the
// capture's context.
func (t *transport) roundTrip(req *http.Request) (*http.Response, error) {
	c := valueOf[capture](req.Context())
	if c == nil {
		if p := valueOf[probe](req.Context()); p != nil {
			return p.roundTrip(t.next, req)
		}
		return t.next.RoundTrip(req)
	}
	resource, ok := c.wants(req)
	if !ok {
		return t.next.RoundTrip(req)
	}
	// The context of the new request contains no capture. Otherwise a second capturing transport below
	// this transport would capture the response first.
	ctx, cancelRequest := context.WithCancelCause(withValue[capture](context.WithoutCancel(req.Context()), nil))
	// The context of a request of a ListerWatcher without contexts does not end with the capture's.
	stopCapture := context.AfterFunc(c.context, func() { cancelRequest(context.Cause(c.context)) })
	cancel := func(cause error) {
		stopCapture()
		cancelRequest(cause)
	}
	ours := req.Clone(ctx)
	if accepts := t.acceptEncoding(req, c.verb); accepts != "" {
		ours.Header.Set("Accept-Encoding", accepts)
	}
	stopCaller := context.AfterFunc(req.Context(), func() { cancel(context.Cause(req.Context())) })
	defer time.AfterFunc(headerTimeout, func() { cancel(source.ErrStalled) }).Stop()
	resp, err := t.next.RoundTrip(ours)
	if err != nil {
		return passThrough(resp, err, cancel)
	}
	if resp.StatusCode != http.StatusOK {
		c.refuse(resp.StatusCode)
		readAhead(ctx, resp, maxRefusal)
		return passThrough(resp, nil, cancel)
	}
	enc, err := wire.EncodingOf(resp.Header.Get("Content-Type"))
	if err != nil {
		// The response is probably a proxy's error page, which the caller turns into an error. It may
		// also be a watch in an encoding that only the caller can decode; such a watch is not read ahead,
		// because that would delay its events.
		if c.verb == verbList || strings.HasPrefix(resp.Header.Get("Content-Type"), "text/") {
			readAhead(ctx, resp, maxRefusal)
		}
		return passThrough(resp, nil, cancel)
	}
	listType, matches, err := c.inspect(ctx, resource, resp, enc)
	if err != nil {
		return passThrough(resp, err, cancel)
	}
	// Build the stub before admit: after admit the response belongs to the informer, and it is too
	// late to return an error.
	stub, err := stubResponse(req, resp, c.verb, enc, listType, wire.ListMeta{})
	if err != nil || !c.admit(req, resource, resp, matches, cancel) {
		return passThrough(resp, err, cancel)
	}
	stopCaller()
	return stub, nil
}

// acceptEncoding returns the Accept-Encoding header of a captured request: gzip for long responses,
// and identity for other responses. If compression is turned off, it is always identity. It returns
// "" if net/http must decompress a long response: net/http decompresses only if it has set the
// header itself.
func (t *transport) acceptEncoding(req *http.Request, v verb) string {
	long := v == verbList || request.QueryOf(req.URL).Flag("sendInitialEvents")
	switch {
	case !long || t.compression == uncompressed:
		return "identity"
	case t.compression == decompressed:
		return ""
	}
	return "gzip"
}

// passThrough returns a response that is not captured, for the caller. It decompresses the body,
// because the caller did not request compression. If err is not nil, it closes the response and
// returns err.
func passThrough(resp *http.Response, err error, cancel context.CancelCauseFunc) (*http.Response, error) {
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
	resp.Body = &cancelingBody{resp.Body, cancel}
	return resp, nil
}

// maxRefusal limits how many bytes of an error response are read ahead. A Status has a few hundred
// bytes; client-go would read all bytes.
const maxRefusal = 64 << 10

// readAhead reads a body until the body or ctx ends, or until it has read limit bytes. It returns
// these bytes; resp.Body still returns them too. If the body breaks off, resp.Body ends after the
// bytes that were read.
func readAhead(ctx context.Context, resp *http.Response, limit int64) []byte {
	body := resp.Body // resp.Body may have changed when ctx ends
	defer context.AfterFunc(ctx, func() { _ = body.Close() })()
	text, err := io.ReadAll(io.LimitReader(body, limit))
	rest := body
	if err != nil || int64(len(text)) < limit {
		_ = body.Close()
		rest = http.NoBody
	}
	resp.Body = readCloser{io.MultiReader(bytes.NewReader(text), rest), rest}
	return text
}

// decompress replaces a response's compressed body by the decompressed one.
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

// stubResponse returns the response that the caller receives instead of resp: a list of the given
// type, metadata and items, or a watch that has ended. The stub has the encoding of resp, because
// the caller's client may be unable to decode another encoding.
func stubResponse(req *http.Request, resp *http.Response, v verb, enc wire.Encoding, t wire.TypeMeta, m wire.ListMeta, items ...[]byte) (*http.Response, error) {
	stub := *resp
	stub.Request = req
	stub.Header = resp.Header.Clone()
	stub.Header.Del("Content-Encoding")
	stub.Header.Del("Content-Length")
	stub.Uncompressed = false
	var body bytes.Buffer
	if v == verbList {
		size := int64(0)
		for _, item := range items {
			size += wire.ListItemSize(len(item))
		}
		list := wire.NewListWriter(&body, enc, t, m, size)
		for _, item := range items {
			_ = list.WriteItem(item) // Close returns the same error
		}
		if err := list.Close(); err != nil {
			return nil, err
		}
	}
	stub.ContentLength = int64(body.Len())
	stub.Body = io.NopCloser(&body)
	return &stub, nil
}

type readCloser struct {
	io.Reader
	io.Closer
}

// cancelingBody cancels its request's context when it is closed.
type cancelingBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (b *cancelingBody) Close() error {
	b.cancel(net.ErrClosed)
	return b.ReadCloser.Close()
}
