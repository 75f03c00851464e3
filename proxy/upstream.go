package proxy

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/utils/lru"

	"github.com/weirproject/weir/internal/serve/watchcache"
	"github.com/weirproject/weir/proxy/internal/review"
)

// upstream forwards requests. Bodies are streamed both ways, also after upgrades. Each way takes a
// buffer of copyBuffer, and an answer whose client is slow up to readAhead.
type upstream struct {
	proxy *httputil.ReverseProxy
	// anonymous adds no credentials: requests have their own. impersonating has the proxy's. The
	// transports for upgrades speak HTTP/1.1 only.
	anonymous, anonymousUpgrade, impersonating, impersonatingUpgrade http.RoundTripper
	// acceptedTokens holds digests of tokens that the upstream has accepted, review.MaxCachedTokens at
	// most. kube-apiserver closes an HTTP/2 connection on which an unknown caller came, and other
	// requests on it may be lost. So only accepted tokens share HTTP/2 connections; the others use
	// HTTP/1.1.
	acceptedTokens *lru.Cache
	// onAccepted is called with a token that the upstream accepts, and its request, onMissed with one
	// that the upstream has perhaps accepted, and onDenied with one that it rejects.
	onAccepted, onMissed func(r *http.Request, token [sha256.Size]byte)
	onDenied             func(token [sha256.Size]byte)
	// refuse answers requests that the upstream does not.
	refuse func(w http.ResponseWriter, r *http.Request, why error)
	// prefixes are those of headers that only a front proxy may send, by the options.
	prefixes []string
	// isFrontProxyHeader reports whether the upstream publishes a header as one of these.
	isFrontProxyHeader func(name string) bool
	// hasCertificate says that the proxy's own credential may be a client certificate. Only then the
	// upstream may take the proxy for a front proxy.
	hasCertificate bool
	requests       atomic.Uint64
	failures       atomic.Uint64

	log      *slog.Logger
	logLimit rate.Sometimes // of lines about requests that the upstream did not answer
}

const (
	// readAhead bounds what the transport reads of an HTTP/2 stream before the client takes it. Of
	// one answer no more than that comes in one round trip to the upstream: 256 MB a second at a
	// millisecond, 13 MB at twenty. The default is 4 MiB.
	readAhead = 256 << 10
	// idleUpstream is how long a connection to the upstream stays open without a request. Those of
	// HTTP/1.1 are one for each request at the same time, so a burst leaves many.
	idleUpstream = 15 * time.Second
	// copyBuffer is the size of the buffers of ReverseProxy, and of an upgraded connection.
	copyBuffer = 32 << 10
)

// forwardedKey is the context key of a forwarded request as its client has sent it.
type forwardedKey struct{}

// impersonationKey is the context key of the *transport.ImpersonationConfig that a request is
// forwarded with.
type impersonationKey struct{}

func newUpstream(cfg *rest.Config, o *Options) (*upstream, error) {
	base, err := url.Parse(cfg.Host)
	if err != nil || base.Host == "" {
		c := rest.CopyConfig(cfg)
		c.GroupVersion = &schema.GroupVersion{}
		if base, _, err = rest.DefaultServerUrlFor(c); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalidOptions, err)
		}
	}
	headers := &o.Authentication
	u := &upstream{acceptedTokens: lru.New(review.MaxCachedTokens), prefixes: []string{"X-Remote-"}, refuse: watchcache.WriteError, log: o.Log}
	ignore := func(*http.Request, [sha256.Size]byte) {}
	u.onAccepted, u.onMissed, u.onDenied = ignore, ignore, func([sha256.Size]byte) {}
	u.isFrontProxyHeader = func(string) bool { return false }
	u.logLimit.Interval = failureLogInterval
	u.hasCertificate = cfg.CertFile != "" || len(cfg.CertData) > 0 || cfg.ExecProvider != nil || cfg.Transport != nil
	for _, names := range [][]string{headers.UserHeaders, headers.UIDHeaders, headers.GroupHeaders, headers.ExtraPrefixes} {
		u.prefixes = append(u.prefixes, names...)
	}
	bare := rest.AnonymousClientConfig(cfg)
	for to, from := range map[*http.RoundTripper]*rest.Config{&u.anonymous: bare, &u.anonymousUpgrade: http1Config(bare), &u.impersonating: cfg, &u.impersonatingUpgrade: http1Config(cfg)} {
		if *to, err = transportFor(from); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalidOptions, err)
		}
	}
	u.proxy = &httputil.ReverseProxy{
		Rewrite:        func(pr *httputil.ProxyRequest) { u.rewrite(pr, base) },
		Transport:      u,
		FlushInterval:  -1, // at once: most long responses are watches
		ModifyResponse: modifyResponse,
		ErrorHandler:   u.handleError,
		ErrorLog:       slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	return u, nil
}

// modifyResponse implements httputil.ReverseProxy.ModifyResponse. It returns the error with which
// the request is to be answered in place of the response. The upstream may have answered the part
// of a body that came, before the transport has given up. wrapWatchBody has the other reasons.
func modifyResponse(resp *http.Response) error {
	if sent, ok := resp.Request.Context().Value(forwardedKey{}).(*http.Request); ok {
		if body, ok := sent.Body.(*requestBody); ok && body.failed() != nil {
			return bodyError(body.failed())
		}
	}
	if a, ok := resp.Request.Context().Value(answerKey{}).(*responseWriter); ok {
		a.bufferError(resp)
		a.chargeForwarded(resp)
	}
	return wrapWatchBody(resp)
}

func http1Config(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.NextProtos = []string{"http/1.1"}
	return cfg
}

// transportFor returns a transport for cfg without its timeout and user agent, which are for one
// client.
func transportFor(cfg *rest.Config) (http.RoundTripper, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = 0
	cfg.UserAgent = "" // the caller's is kept
	if cfg.Transport == nil {
		if cfg.Proxy == nil {
			// This is the default. A config with a Proxy shares no transport with others.
			cfg.Proxy = http.ProxyFromEnvironment
		}
		cfg.WrapTransport = transport.Wrappers(limitReadAhead, cfg.WrapTransport)
	}
	return rest.TransportFor(cfg)
}

// limitReadAhead has the connections of a transport, which must not have any yet, keep to readAhead
// and idleUpstream.
func limitReadAhead(rt http.RoundTripper) http.RoundTripper {
	for inner := rt; ; {
		switch t := inner.(type) {
		case *http.Transport:
			t.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: readAhead}
			t.IdleConnTimeout = idleUpstream
			return rt
		case utilnet.RoundTripperWrapper:
			inner = t.WrappedRoundTripper()
		default:
			return rt
		}
	}
}

// serve forwards the request. With a nil as it keeps its own credentials.
func (u *upstream) serve(w http.ResponseWriter, r *http.Request, as *transport.ImpersonationConfig) {
	u.requests.Add(1)
	r = withConnection(r)
	if err := bufferBody(r); err != nil {
		u.refuse(w, r, bodyError(err))
		return
	}
	ctx := context.WithValue(r.Context(), forwardedKey{}, r)
	if as != nil {
		ctx = context.WithValue(ctx, impersonationKey{}, as)
	}
	u.proxy.ServeHTTP(w, r.WithContext(ctx))
}

func (u *upstream) rewrite(pr *httputil.ProxyRequest, base *url.URL) {
	pr.SetURL(base)
	// kube-apiserver passes the query to what is behind it as it came. So does the proxy, although a
	// ReverseProxy drops what Go's parser does not take: kube-apiserver's is the same.
	pr.Out.URL.RawQuery = pr.In.URL.RawQuery
	pr.SetXForwarded()
	for name := range pr.Out.Header {
		if review.NamesHeader(name, u.prefixes) || u.isFrontProxyHeader(name) {
			delete(pr.Out.Header, name)
		}
	}
	if pr.In.Context().Value(impersonationKey{}) != nil {
		review.DropImpersonation(pr.Out.Header)
		pr.Out.Header.Del("Authorization")
	}
	if _, ok := pr.Out.Header["User-Agent"]; !ok {
		pr.Out.Header.Set("User-Agent", "") // do not add Go's
	}
}

// RoundTrip sends the request with the right credentials. A read whose connection breaks before the
// answer is sent once more, as client-go's own clients do: the connections to an API server that
// goes are shared by many callers.
func (u *upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := u.send(r)
	if err != nil && canRepeat(r) && brokeOff(err) {
		return u.send(r)
	}
	return resp, err
}

// canRepeat reports whether a request changes nothing, and has nothing to send but its head.
func canRepeat(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && (r.Body == nil || r.Body == http.NoBody) &&
		r.Header.Get("Upgrade") == "" && r.Context().Err() == nil
}

// brokeOff reports whether a request failed because its connection broke. One that was refused
// would be refused again.
func brokeOff(err error) bool {
	return utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) || utilnet.IsHTTP2ConnectionLost(err)
}

// send sends the request once.
func (u *upstream) send(r *http.Request) (*http.Response, error) {
	upgrade := r.Header.Get("Upgrade") != ""
	as, ok := r.Context().Value(impersonationKey{}).(*transport.ImpersonationConfig)
	switch {
	case !ok && upgrade:
		return u.anonymousUpgrade.RoundTrip(r)
	case !ok:
		return u.roundTripAnonymous(r)
	case as.UserName == "":
		return nil, review.ErrUnnamed
	case upgrade:
		return transport.NewImpersonatingRoundTripper(*as, u.impersonatingUpgrade).RoundTrip(r)
	}
	return transport.NewImpersonatingRoundTripper(*as, u.impersonating).RoundTrip(r)
}

// accepts reports whether the upstream has accepted the request's token.
func (u *upstream) accepts(r *http.Request) bool {
	_, ok := u.acceptedTokens.Get(review.TokenID(r))
	return ok
}

// roundTripAnonymous sends a request with its own credentials, and records whether the upstream
// accepted its token.
func (u *upstream) roundTripAnonymous(r *http.Request) (*http.Response, error) {
	id := review.TokenID(r)
	by := u.anonymousUpgrade
	if u.accepts(r) {
		by = u.anonymous
	}
	resp, err := by.RoundTrip(r)
	switch {
	case err != nil || id == [sha256.Size]byte{}:
	case resp.StatusCode == http.StatusUnauthorized && !mayBeOfBackend(r.URL.Path):
		u.acceptedTokens.Remove(id)
		u.onDenied(id)
	case showsAuthenticated(r, resp):
		u.acceptedTokens.Add(id, nil)
		u.onAccepted(r, id)
	case suggestsAuthenticated(r, resp):
		u.onMissed(r, id)
	}
	return resp, err
}

// mayBeOfBackend reports whether a response may be that of a server behind the upstream: of an
// aggregated API, or what a Node, Pod or Service is a proxy to. Its 401 does not say that the
// upstream rejects the token, which may just have let the request through.
func mayBeOfBackend(path string) bool {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	return slices.Contains(parts, "proxy") || parts[0] == "apis" && len(parts) > 1 && !scheme.Scheme.IsGroupRegistered(parts[1])
}

// showsAuthenticated reports whether a response proves that the upstream knows the caller.
// kube-apiserver may refuse a request before it authenticates it, and answers a browser's preflight
// to anybody.
func showsAuthenticated(r *http.Request, resp *http.Response) bool {
	done := resp.StatusCode/100 == 2 || resp.StatusCode == http.StatusSwitchingProtocols
	return done && r.Method != http.MethodOptions
}

// suggestsAuthenticated reports whether kube-apiserver answers so only callers that it knows. What
// is in front of it may do so to anybody, so it is no proof.
func suggestsAuthenticated(r *http.Request, resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity:
		return !mayBeOfBackend(r.URL.Path)
	}
	return false
}

// withConnection returns the request with a Connection header that names nothing but Upgrade. A
// reverse proxy removes the headers named there, which might identify the caller; kube-apiserver
// does not.
func withConnection(r *http.Request) *http.Request {
	if len(r.Header["Connection"]) == 0 {
		return r
	}
	upgrades := httpguts.HeaderValuesContainsToken(r.Header["Connection"], "Upgrade")
	r = r.WithContext(r.Context())
	r.Header = r.Header.Clone()
	r.Header.Del("Connection")
	if upgrades {
		r.Header.Set("Connection", "Upgrade")
	}
	return r
}

// handleError answers a request that the upstream did not answer, or in another way than is passed
// on.
func (u *upstream) handleError(w http.ResponseWriter, r *http.Request, err error) {
	if sent, ok := r.Context().Value(forwardedKey{}).(*http.Request); ok {
		r = sent.WithContext(r.Context())
	}
	// It is late, or wrapWatchBody has refused it.
	for _, why := range []error{context.Cause(r.Context()), err} {
		if own, ok := errors.AsType[*apierrors.StatusError](why); ok {
			u.refuse(w, r, own)
			return
		}
	}
	var ofClient error
	if body, ok := r.Body.(*requestBody); ok {
		ofClient = body.failed()
	}
	late := errors.Is(ofClient, os.ErrDeadlineExceeded) // which ends the context over HTTP/1 as well
	if !late && errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the client has gone
	}
	if ofClient != nil {
		u.refuse(w, r, bodyError(ofClient))
		return
	}
	u.failures.Add(1)
	u.logFailure(r, err)
	const why = "the upstream API server does not answer"
	if watch, ok := r.Context().Value(forwardedWatchKey{}).(*forwardedWatch); ok && (watch.resumable || watch.initial) {
		// To a 503 client-go's informers list.
		u.refuse(w, r, apierrors.NewTooManyRequests(why, retryAfterSeconds))
		return
	}
	u.refuse(w, r, apierrors.NewServiceUnavailable(why))
}

// failureLogInterval is the minimum time between two log lines about requests that the upstream did
// not answer. While it is down, it answers no forwarded request.
const failureLogInterval = time.Second

// logFailure logs why the upstream did not answer. The caller does not receive the error: the
// caller is not authenticated, and the error may contain addresses and a fault of the proxy's
// credentials.
func (u *upstream) logFailure(r *http.Request, err error) {
	u.logLimit.Do(func() {
		u.log.Warn("the upstream does not answer a forwarded request", "method", r.Method, "path", r.URL.Path, "error", err.Error())
	})
}

func (u *upstream) close() {
	for _, rt := range []http.RoundTripper{u.anonymous, u.anonymousUpgrade, u.impersonating, u.impersonatingUpgrade} {
		utilnet.CloseIdleConnectionsFor(rt)
	}
}
