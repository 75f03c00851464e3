package source

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"weak"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/weirproject/weir/internal/core/private"
)

// listTransport chooses the HTTP client of LISTs. Its field own is a client for HTTP/1.1, on
// connections that WATCHes do not use. HTTP/2 splits a body into frames of 16 KB, passes each frame
// from one goroutine to another, and acknowledges each with a window update. For a LIST of 50,000
// pods, this work of HTTP/2 is an eighth of the client's CPU time and a quarter of the duration.
// WATCHes are many, long and mostly idle, so they share one HTTP/2 connection.
//
// A server, or a proxy in front of it, may support only HTTP/2. Some of these servers end the TLS
// handshake or the connection of an HTTP/1.1 client, some respond with 426 or 505, and some never
// respond. Therefore LISTs change to the WATCHes' client after one response 426 or 505, or after
// maxUnanswered LISTs in a row got no response. They return to own if a LIST with the WATCHes'
// client gets no response either.
type listTransport struct {
	own *http.Client // the HTTP/1.1 client; nil means that LISTs use the WATCHes' client
	// unanswered counts the LISTs in a row that got no response over HTTP/1.1. A response 426 or 505
	// sets it to maxUnanswered. While it is maxUnanswered, LISTs use the WATCHes' client.
	unanswered atomic.Int32
}

// maxUnanswered is how many LISTs in a row must get no response over HTTP/1.1 before LISTs change
// to the WATCHes' client. As long as no LIST over HTTP/1.1 got a response, one such LIST suffices.
const maxUnanswered = 3

// newListTransport returns a listTransport. It creates the client own only for TLS, and only if cfg
// specifies neither a transport nor protocols.
func newListTransport(cfg *rest.Config, base *url.URL) (*listTransport, error) {
	if base.Scheme != "https" || cfg.Transport != nil || len(cfg.NextProtos) > 0 {
		return &listTransport{}, nil
	}
	cfg = rest.CopyConfig(cfg)
	cfg.NextProtos = []string{"http/1.1"}
	own, err := HTTPClient(cfg)
	if err != nil {
		return nil, err
	}
	l := &listTransport{own: own}
	l.unanswered.Store(maxUnanswered - 1)
	return l, nil
}

// doList sends a LIST, and blocks until its response starts. c.last applies only to the client own,
// because WATCHes do not use its connections.
func (s *REST) doList(ctx context.Context, c call) (*http.Response, *stream, error) {
	l := s.lists
	if l.own != nil && l.unanswered.Load() < maxUnanswered {
		c.client = l.own
		resp, stream, err := s.do(ctx, c)
		switch {
		case err == nil && refusesProtocol(resp.StatusCode):
			stream.Close()
			l.unanswered.Store(maxUnanswered)
		case err == nil:
			l.unanswered.Store(0)
			return resp, stream, nil
		case ctx.Err() != nil || notConnected(err):
			return nil, nil, err
		case l.unanswered.Add(1) < maxUnanswered || errors.Is(err, ErrStalled):
			// after ErrStalled, a second try could wait as long, so the caller gets the error now
			return nil, nil, err
		}
	}
	c.client, c.last = s.client, false
	resp, stream, err := s.do(ctx, c)
	if err != nil && l.own != nil {
		l.unanswered.Store(maxUnanswered - 1)
	}
	return resp, stream, err
}

// refusesProtocol reports whether a status code says that the server refuses the request's HTTP
// version.
func refusesProtocol(code int) bool {
	return code == http.StatusUpgradeRequired || code == http.StatusHTTPVersionNotSupported
}

// notConnected reports whether err says that no connection could be opened. HTTP/2 would not help
// then.
func notConnected(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// HTTPClient returns a client for cfg, like rest.HTTPClientFor. In client-go, clients of equal
// configs share a transport and its connections. But client-go cannot compare functions, so it does
// not share a transport if a config has a Proxy or a Dial. HTTPClient compares functions: clients
// also share a transport if their configs contain the same function values, as copies of a config
// do.
func HTTPClient(cfg *rest.Config) (*http.Client, error) {
	if cfg.Transport != nil || cfg.Proxy == nil && cfg.Dial == nil {
		return rest.HTTPClientFor(cfg)
	}
	conf, err := cfg.TransportConfig()
	if err != nil {
		return nil, err
	}
	// reads the files that conf names into conf
	if _, err := transport.TLSConfigFor(conf); err != nil {
		return nil, err
	}
	cached, err := transports.get(transportKeyOf(cfg, conf), conf)
	if err != nil {
		return nil, err
	}
	rt, err := transport.HTTPWrappersForConfig(conf, cached)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: rt, Timeout: cfg.Timeout}, nil
}

// transportKey identifies a transport: configs with equal keys share one transport. caData,
// certData and keyData include the contents of files. Files that the transport reloads are
// identified by name only.
type transportKey struct {
	insecure, uncompressed                               bool
	serverName, protocols                                string
	caFile, certFile, keyFile, caData, certData, keyData string
	// getCert identifies the source of certificates from a credential plugin.
	getCert *transport.GetCertHolder
	// proxy and dial are numbers that identify the functions, or 0. A transport refers to its
	// functions, so no other function gets the same number while the transport exists. When the
	// transport has been garbage-collected, the cache no longer returns it.
	proxy, dial uintptr
}

func transportKeyOf(cfg *rest.Config, conf *transport.Config) transportKey {
	tls := conf.TLS
	if tls.ReloadTLSFiles { // reloaded files are identified by name
		tls.CertData, tls.KeyData = nil, nil
	}
	return transportKey{
		insecure: tls.Insecure, uncompressed: conf.DisableCompression,
		serverName: tls.ServerName, protocols: strings.Join(tls.NextProtos, ","),
		caFile: tls.CAFile, certFile: tls.CertFile, keyFile: tls.KeyFile,
		caData: string(tls.CAData), certData: string(tls.CertData), keyData: string(tls.KeyData),
		getCert: tls.GetCertHolder,
		proxy:   private.FunctionOf(cfg.Proxy).Number(), dial: private.FunctionOf(cfg.Dial).Number(),
	}
}

// sharedTransport is a transport that several clients use.
type sharedTransport struct{ http.RoundTripper }

// WrappedRoundTripper returns the wrapped transport. client-go calls it to find the http.Transport
// in a chain of wrappers.
func (t *sharedTransport) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

// transportCache maps configs to the transports that clients use. It has weak pointers, so a
// transport is garbage-collected when no client refers to it. The garbage collection also ends
// client-go's goroutine that checks for new certificates.
type transportCache struct {
	mu   sync.Mutex
	used map[transportKey]weak.Pointer[sharedTransport]
}

var transports = transportCache{used: map[transportKey]weak.Pointer[sharedTransport]{}}

func (c *transportCache) get(key transportKey, conf *transport.Config) (*sharedTransport, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.used[key].Value(); t != nil {
		return t, nil
	}
	t := &sharedTransport{}
	_, err := transport.New(&transport.Config{
		TLS: conf.TLS, DisableCompression: conf.DisableCompression, Proxy: conf.Proxy, DialHolder: conf.DialHolder,
		WrapTransport: func(rt http.RoundTripper) http.RoundTripper {
			// stores rt without client-go's wrapper that logs requests; each client adds its own
			t.RoundTripper = rt
			return rt
		},
	})
	if err != nil {
		return nil, err
	}
	of := weak.Make(t)
	c.used[key] = of
	runtime.AddCleanup(t, func(key transportKey) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.used[key] == of { // otherwise a newer transport has this key
			delete(c.used, key)
		}
	}, key)
	return t, nil
}

// CopyConfig returns a copy of cfg, so that later changes of cfg do not affect requests. Unlike
// rest.CopyConfig, it also copies slices, maps and the credential plugin's configuration. The copy
// and cfg share only functions and the values of interface fields.
func CopyConfig(cfg *rest.Config) *rest.Config {
	c := *cfg
	if c.GroupVersion != nil {
		c.GroupVersion = new(*c.GroupVersion)
	}
	c.Impersonate.Groups = slices.Clone(c.Impersonate.Groups)
	c.Impersonate.Extra = maps.Clone(c.Impersonate.Extra)
	for key, values := range c.Impersonate.Extra {
		c.Impersonate.Extra[key] = slices.Clone(values)
	}
	c.AuthProvider = c.AuthProvider.DeepCopy()
	c.ExecProvider = c.ExecProvider.DeepCopy()
	c.CertData, c.KeyData, c.CAData = bytes.Clone(c.CertData), bytes.Clone(c.KeyData), bytes.Clone(c.CAData)
	c.NextProtos = slices.Clone(c.NextProtos)
	return &c
}

// warningHandler passes the warnings in responses to the rest.Config's handler, or to client-go's
// default handler if the config has none.
type warningHandler struct {
	handler     rest.WarningHandler
	withContext rest.WarningHandlerWithContext // preferred if both are set, as in client-go
}

// handle reads the Warning headers of a response. Like client-go, it drops the values that follow a
// malformed value.
func (w warningHandler) handle(ctx context.Context, server *url.URL, header http.Header) {
	values := header["Warning"]
	if len(values) == 0 {
		return
	}
	if w.handler == nil && w.withContext == nil {
		handleByDefault(ctx, server, values)
		return
	}
	warnings, _ := utilnet.ParseWarningHeaders(values)
	for _, text := range warnings {
		if w.withContext != nil {
			w.withContext.HandleWarningHeaderWithContext(ctx, text.Code, text.Agent, text.Text)
		} else {
			w.handler.HandleWarningHeader(text.Code, text.Agent, text.Text)
		}
	}
}

// handleByDefault passes warnings to the handler that was set with rest.SetDefaultWarningHandler.
// Only client-go can access that handler, so handleByDefault sends a request with client-go. The
// transport of that request sends nothing to the server, and returns a response that contains only
// the warnings. client-go counts that request in its metrics, in place of the Source's own request,
// which client-go did not count.
func handleByDefault(ctx context.Context, server *url.URL, values []string) {
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Warning": values}, Body: http.NoBody}
	client := &http.Client{Transport: roundTripperFunc(func(r *http.Request) (*http.Response, error) {
		answer.Request = r
		return answer, nil
	})}
	body, err := rest.NewRequestWithClient(server, "", rest.ClientContentConfig{}, client).Verb(http.MethodGet).Stream(ctx)
	if err == nil { // Stream fails if ctx has ended
		_ = body.Close()
	}
}

type roundTripperFunc func(*http.Request) (*http.Response, error)

func (f roundTripperFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
