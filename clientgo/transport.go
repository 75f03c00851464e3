package clientgo

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"time"

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
		return &transport{next: next, uncompressed: cfg.DisableCompression || isUncompressed(next)}
	})
}

// isPlain reports whether compression is off in the transport that others are around.
func isUncompressed(rt http.RoundTripper) bool {
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

// transport hands the answers to captured requests over.
type transport struct {
	next         http.RoundTripper
	uncompressed bool // compression is off
}

// WrappedRoundTripper is for client-go's look at chains of transports.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// headerTimeout is how long the answer to a captured request may take to begin. kube-apiserver answers a request, or gives it
// up, within a minute.
const headerTimeout = 75 * time.Second

// RoundTrip makes the request, captured or not.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.roundTrip(req)
	stripRetryAfter(req, resp)
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
		return passThrough(resp, err, cancel)
	}
	if resp.StatusCode != http.StatusOK {
		readRefusal(ctx, resp)
		return passThrough(resp, nil, cancel)
	}
	enc, err := wire.EncodingOf(resp.Header.Get("Content-Type"))
	if err != nil { // the caller's to decode: a page of something in between, most likely
		readRefusal(ctx, resp)
		return passThrough(resp, nil, cancel)
	}
	kind, isOwn, err := c.inspect(ctx, resource, resp, enc)
	if err != nil || !c.admit(isOwn) {
		return passThrough(resp, err, cancel)
	}
	planted, err := stubResponse(req, resp, c.verb, kind, enc)
	if err != nil {
		return passThrough(resp, err, cancel)
	}
	context.AfterFunc(c.context, func() { cancel(context.Cause(c.context)) })
	stopCaller()
	resp.Body = &cancelingBody{resp.Body, cancel}
	if !c.keep(resp, resource, cancel) {
		cancel(errDropped)
		_ = resp.Body.Close()
	}
	return planted, nil
}

// acceptEncoding asks for gzip where the answer is long. It is always said: without the header net/http would ask by
// itself, and undo it so that nobody sees what came over the wire.
func (t *transport) acceptEncoding(req *http.Request, v verb) string {
	long := v == verbList || req.URL.Query().Get("sendInitialEvents") == "true"
	if long && !t.uncompressed {
		return "gzip"
	}
	return "identity"
}

// pass hands on an answer that is not captured, freed of the encoding that the caller did not ask for, or an error.
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

// plant makes the answer that the caller gets in place of the captured one: an empty list of a kind, or a watch that has
// ended. It is in the encoding of the captured one: that is what the caller asked for, and may be all that it can read.
func stubResponse(req *http.Request, resp *http.Response, v verb, kind wire.TypeMeta, enc wire.Encoding) (*http.Response, error) {
	planted := *resp
	planted.Request = req
	planted.Header = resp.Header.Clone()
	planted.Header.Del("Content-Encoding")
	planted.Header.Del("Content-Length")
	planted.Uncompressed = false
	var body bytes.Buffer
	if v == verbList {
		if err := wire.NewListWriter(&body, enc, kind, wire.ListMeta{}, 0).Close(); err != nil {
			return nil, err
		}
	}
	planted.ContentLength = int64(body.Len())
	planted.Body = io.NopCloser(&body)
	return &planted, nil
}

// readCloser reads from one and closes another.
type readCloser struct {
	io.Reader
	io.Closer
}

// ownedBody is a body whose request ends with it.
type cancelingBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (b *cancelingBody) Close() error {
	b.cancel(net.ErrClosed)
	return b.ReadCloser.Close()
}
