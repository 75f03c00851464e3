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

// listTransport chooses the HTTP client of LISTs. Its own client uses HTTP/1.1, on connections
// separate from those of WATCHes. HTTP/2 cuts a body into frames of 16 KB, passes each from one
// goroutine to another, and answers it with a window update. For a LIST of 50,000 pods that costs
// an eighth of the client's CPU and a quarter of the time. WATCHes are many, long and mostly
// silent, so they share one HTTP/2 connection.
//
// A server, or a front end, may speak HTTP/2 alone. Servers treat other clients differently: they
// end the TLS handshake or the connection, refuse (426, 505), or never answer. So LISTs use the
// WATCHes' client after maxUnanswered LISTs in a row got no answer, and continue to use it if it
// gets an answer.
type listTransport struct {
	own *http.Client // nil: LISTs use the WATCHes' client
	// unanswered counts the LISTs in a row to which own got no answer. From maxUnanswered on, LISTs
	// use the WATCHes' client.
	unanswered atomic.Int32
}

// maxUnanswered is how many LISTs in a row over HTTP/1.1 may get no answer. Before the first answer
// one is enough.
const maxUnanswered = 3

// newListTransport returns a listTransport. It has a separate client only over TLS, and only if the
// caller set neither a transport nor protocols.
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

// doList makes the request of a LIST, and blocks until its answer starts. c.last applies only to
// HTTP/1.1.
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
			return nil, nil, err // the other client may take as long: the next LIST tries it
		}
	}
	c.client, c.last = s.client, false
	resp, stream, err := s.do(ctx, c)
	if err != nil && l.own != nil {
		l.unanswered.Store(maxUnanswered - 1)
	}
	return resp, stream, err
}

// refusesProtocol reports whether a status code refuses the request's version of HTTP.
func refusesProtocol(code int) bool {
	return code == http.StatusUpgradeRequired || code == http.StatusHTTPVersionNotSupported
}

// notConnected reports whether err says that there was no connection in any protocol.
func notConnected(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// HTTPClient returns the client that rest.HTTPClientFor returns. In client-go, clients of equal
// configs share a transport and its connections, unless a config has a Proxy or a Dial, which
// client-go cannot compare. Here they share it also if these are the same function values, as in
// copies of a config.
func HTTPClient(cfg *rest.Config) (*http.Client, error) {
	if cfg.Transport != nil || cfg.Proxy == nil && cfg.Dial == nil {
		return rest.HTTPClientFor(cfg)
	}
	conf, err := cfg.TransportConfig()
	if err != nil {
		return nil, err
	}
	if _, err := transport.TLSConfigFor(conf); err != nil { // it reads the files that conf names
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

// transportKey identifies a transport: configs with equal keys share one. The data is that of files
// that are not read again.
type transportKey struct {
	insecure, uncompressed                               bool
	serverName, protocols                                string
	caFile, certFile, keyFile, caData, certData, keyData string
	// getCert is a credential plugin's.
	getCert *transport.GetCertHolder
	// proxy and dial are the numbers of functions. A transport refers to its functions, so no others
	// have these numbers. A collected transport is not found any more.
	proxy, dial uintptr
}

func transportKeyOf(cfg *rest.Config, conf *transport.Config) transportKey {
	tls := conf.TLS
	if tls.ReloadTLSFiles { // by the transport
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

// sharedTransport is a transport of transportCache.
type sharedTransport struct{ http.RoundTripper }

// WrappedRoundTripper returns the transport below. client-go walks chains of transports by it.
func (t *sharedTransport) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

// transportCache finds the transports that clients use. Each is collected with the last of its
// clients, and so is client-go's goroutine that looks for new certificates.
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
			t.RoundTripper = rt // without the wrapper that logs requests, which each client adds
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
		if c.used[key] == of { // otherwise there is a new one
			delete(c.used, key)
		}
	}, key)
	return t, nil
}

// CopyConfig returns a copy of cfg that shares nothing with it that a caller would change, so that
// later changes of cfg do not affect requests. rest.CopyConfig shares slices, maps and
// the credential plugin's configuration. Values behind interfaces and functions are shared.
func CopyConfig(cfg *rest.Config) *rest.Config {
	c := *cfg
	if c.GroupVersion != nil {
		gv := *c.GroupVersion
		c.GroupVersion = &gv
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

// warningHandler hands the warnings of answers to the handler that a rest.Config names, or else to
// client-go's default one.
type warningHandler struct {
	handler     rest.WarningHandler
	withContext rest.WarningHandlerWithContext // preferred, as in client-go
}

// handle reads the Warning headers of an answer. Like client-go, it drops the values after a
// malformed one.
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

// handleByDefault hands warnings to the handler that rest.SetDefaultWarningHandler has set, which
// only requests of client-go's know. So one of these gets an answer that has the warnings and
// nothing else. client-go counts it in its metrics, as it would have counted the source's request.
func handleByDefault(ctx context.Context, server *url.URL, values []string) {
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Warning": values}, Body: http.NoBody}
	client := &http.Client{Transport: roundTripperFunc(func(r *http.Request) (*http.Response, error) {
		answer.Request = r
		return answer, nil
	})}
	body, err := rest.NewRequestWithClient(server, "", rest.ClientContentConfig{}, client).Verb(http.MethodGet).Stream(ctx)
	if err == nil { // it is not nil if ctx has ended
		_ = body.Close()
	}
}

type roundTripperFunc func(*http.Request) (*http.Response, error)

func (f roundTripperFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
