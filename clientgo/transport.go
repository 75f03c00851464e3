package clientgo

import (
	"bytes"
	"context"
	"io"
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

// Wrap installs the capturing transport in cfg. Call it before clients are built from cfg. It
// affects only the LISTs and WATCHes of this package's informers: the informer reads the response
// as it arrives, and the client that sent the request receives an empty list or a watch that has
// ended. Only responses with objects of the informer's kind are captured, so a ListerWatcher
// receives the responses to its other requests.
//
// A ListerWatcher that changes its client's response (filters it, fills in fields), or whose client
// has a codec that sets defaults or converts, therefore needs Options.NoCapture. Changes to the
// request (selectors, namespace, path) take effect as always.
//
// Fields of cfg may be set after Wrap. If the transport is not an *http.Transport,
// DisableCompression is read from cfg itself, not from a copy of it, when a client is built.
// Wrapping a config twice has no further effect.
func Wrap(cfg *rest.Config) {
	wrapped.Store(true)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		t := &transport{next: next, compression: compressionBelow(next)}
		if cfg.DisableCompression {
			t.compression = uncompressed
		}
		return t
	})
}

// wrapped is set after a config of this process was wrapped.
var wrapped atomic.Bool

// compression is the form in which the transports below return the bodies of long responses.
type compression uint8

const (
	// compressed bodies are decompressed here, so that the bytes on the wire can be counted.
	compressed compression = iota
	// decompressed bodies are requested and decompressed by net/http, as in client-go: a RoundTripper
	// of another package may read them.
	decompressed
	uncompressed
)

// compressionBelow returns the form that the innermost transport and those on the way to it
// require. client-go's and this package's do not read bodies.
func compressionBelow(rt http.RoundTripper) compression {
	for c := compressed; ; {
		if at, ok := rt.(*http.Transport); ok {
			if at.DisableCompression {
				return uncompressed
			}
			return c
		}
		if !readsNoBodies(rt) {
			c = decompressed
		}
		wrapper, ok := rt.(interface{ WrappedRoundTripper() http.RoundTripper })
		if !ok {
			return c
		}
		rt = wrapper.WrappedRoundTripper()
	}
}

// readsNoBodies reports whether a RoundTripper is client-go's or this package's.
func readsNoBodies(rt http.RoundTripper) bool {
	t := reflect.TypeOf(rt)
	if t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t == reflect.TypeFor[transport]() || t != nil && strings.HasPrefix(t.PkgPath(), "k8s.io/client-go/")
}

// transport passes the responses to captured requests to their captures.
type transport struct {
	next        http.RoundTripper
	compression compression
}

// WrappedRoundTripper returns the transport below. client-go uses it to walk chains of transports.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// headerTimeout limits the time until the response to a captured request starts. kube-apiserver
// answers or cancels a request within a minute.
const headerTimeout = 75 * time.Second

// RoundTrip sends the request, captured or not.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.roundTrip(req)
	stripRetryAfter(req, resp)
	return resp, hideBroken(req, err)
}

// roundTrip sends the request. A captured request outlives the caller's context, which ends as soon
// as the caller has its empty list: after the response has started, the request ends with the
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
	// The request continues without the capture, because another such transport may be below.
	ctx, cancel := context.WithCancelCause(withValue[capture](context.WithoutCancel(req.Context()), nil))
	ours := req.Clone(ctx)
	if accepts := t.acceptEncoding(req, c.verb); accepts != "" {
		ours.Header.Set("Accept-Encoding", accepts)
	}
	stopCaller := context.AfterFunc(req.Context(), func() { cancel(context.Cause(req.Context())) })
	late := time.AfterFunc(headerTimeout, func() { cancel(source.ErrStalled) })
	defer late.Stop()
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
		// This is probably a proxy's error page, which the caller turns into an error; or a watch in an
		// encoding that only the caller knows, whose events must not be delayed.
		if c.verb == verbList || strings.HasPrefix(resp.Header.Get("Content-Type"), "text/") {
			readAhead(ctx, resp, maxRefusal)
		}
		return passThrough(resp, nil, cancel)
	}
	listType, matches, err := c.inspect(ctx, resource, resp, enc)
	if err != nil {
		return passThrough(resp, err, cancel)
	}
	// The stub is built first, because an admitted response belongs to the informer.
	stub, err := stubResponse(req, resp, c.verb, enc, listType, wire.ListMeta{})
	if err != nil || !c.admit(req, resource, resp, matches, cancel) {
		return passThrough(resp, err, cancel)
	}
	context.AfterFunc(c.context, func() { cancel(context.Cause(c.context)) })
	stopCaller()
	return stub, nil
}

// acceptEncoding returns gzip for long responses and identity for others. It returns "" for long
// ones that net/http decompresses: it does so only if it has requested gzip itself.
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

// passThrough returns a response that is not captured. It decompresses it, because the caller did
// not request the encoding. It returns err if that is set.
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

// maxRefusal limits the bytes of a refusal that are read ahead; client-go would read all of it. A
// Status has a few hundred.
const maxRefusal = 64 << 10

// readAhead reads a body until it ends, the context does, or it has read limit bytes. It returns
// these, and puts them back. If the body breaks off, the caller receives the bytes so far, with the
// response's status code.
func readAhead(ctx context.Context, resp *http.Response, limit int64) []byte {
	body := resp.Body // resp may have another body by the time the context ends
	stop := context.AfterFunc(ctx, func() { _ = body.Close() })
	defer stop()
	text, err := io.ReadAll(io.LimitReader(body, limit))
	rest := body
	if err != nil || int64(len(text)) < limit {
		_ = body.Close()
		rest = http.NoBody
	}
	resp.Body = readCloser{io.MultiReader(bytes.NewReader(text), rest), rest}
	return text
}

// decompress replaces a compressed body by its content.
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

// stubResponse returns the response that the caller receives in place of another, such as the
// captured one: a list of the given type, metadata and items, or a watch that has ended. It has the
// other's encoding, which the caller requested and may be unable to do without.
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
			_ = list.WriteItem(item) // Close returns the error again
		}
		if err := list.Close(); err != nil {
			return nil, err
		}
	}
	stub.ContentLength = int64(body.Len())
	stub.Body = io.NopCloser(&body)
	return &stub, nil
}

// readCloser reads from one value and closes another.
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
