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
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/utils/lru"

	"github.com/weirproject/weir/proxy/internal/review"
)

// upstream forwards requests. It streams bodies in both directions, also after upgrades. Each
// direction uses a buffer of copyBuffer bytes. The transport also buffers up to readAhead bytes of
// a response whose client is slow.
type upstream struct {
	proxy *httputil.ReverseProxy
	// anonymous adds no credentials, because the requests contain their own. impersonating adds the
	// proxy's credentials. The transports for upgrades speak HTTP/1.1 only.
	anonymous, anonymousUpgrade, impersonating, impersonatingUpgrade http.RoundTripper
	// acceptedTokens contains digests of the last tokens that the upstream accepted, up to
	// review.MaxCachedTokens. kube-apiserver closes an HTTP/2 connection after a request of an unknown
	// caller, and other requests on the connection may be lost. Of the requests that keep their own
	// credentials, therefore only those with accepted tokens share HTTP/2 connections; the others use
	// HTTP/1.1.
	acceptedTokens *lru.Cache
	// onAccepted is called with a token that the upstream accepted, and its request. onMissed is
	// called with a token that the upstream may have accepted, and onDenied with a token that the
	// upstream rejected.
	onAccepted, onMissed func(r *http.Request, token [sha256.Size]byte)
	onDenied             func(token [sha256.Size]byte)
	// refuse answers requests that the upstream does not answer.
	refuse func(a *responseWriter, r *http.Request, why error)
	// prefixes are the prefixes of headers that only a front proxy may send: X-Remote- and those in
	// the options.
	prefixes []string
	// isFrontProxyHeader reports whether the upstream publishes name as a header that only a front
	// proxy may send.
	isFrontProxyHeader func(name string) bool
	// hasCertificate means that the proxy's own credential may be a client certificate. Only then may
	// the upstream treat the proxy as a front proxy.
	hasCertificate bool
	requests       atomic.Uint64
	failures       atomic.Uint64

	log      *slog.Logger
	logLimit rate.Sometimes // limits log lines about requests that the upstream did not answer
}

const (
	// readAhead bounds how many bytes the transport reads of an HTTP/2 stream before the client reads
	// them. It also bounds the bytes of one response that arrive per round trip to the upstream. That
	// is 256 MB a second if a round trip takes one millisecond, and 13 MB a second if it takes twenty.
	// The default of net/http is 4 MiB.
	readAhead = 256 << 10
	// idleUpstream is how long a connection to the upstream stays open without a request. HTTP/1.1
	// needs one connection for each concurrent request, so a burst leaves many idle connections.
	idleUpstream = 15 * time.Second
	// copyBuffer is the size of the copy buffers of ReverseProxy, for responses and for upgraded
	// connections.
	copyBuffer = 32 << 10
)

// forwarding is the state of one forwarded request. The context of the request contains it.
type forwarding struct {
	sent   *http.Request                  // the request in the form in which the client sent it
	as     *transport.ImpersonationConfig // nil: the request keeps its own credentials
	answer *responseWriter
	watch  *forwardedWatch // nil: the request is not a WATCH
}

// forwardingKey is the context key of the *forwarding of a request.
type forwardingKey struct{}

func forwardingOf(r *http.Request) *forwarding {
	return r.Context().Value(forwardingKey{}).(*forwarding) // upstream.serve has set it
}

// newUpstream returns an upstream. The caller must set refuse, onAccepted, onMissed, onDenied and
// isFrontProxyHeader.
func newUpstream(cfg *rest.Config, o *Options) (*upstream, error) {
	bare, bareHTTP1, ownHTTP1 := rest.AnonymousClientConfig(cfg), rest.AnonymousClientConfig(cfg), rest.CopyConfig(cfg)
	bareHTTP1.NextProtos, ownHTTP1.NextProtos = []string{"http/1.1"}, []string{"http/1.1"}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidOptions, err)
	}
	headers := &o.Authentication
	u := &upstream{acceptedTokens: lru.New(review.MaxCachedTokens), log: o.Log, logLimit: rate.Sometimes{Interval: failureLogInterval}}
	u.hasCertificate = cfg.CertFile != "" || len(cfg.CertData) > 0 || cfg.ExecProvider != nil || cfg.Transport != nil
	u.prefixes = slices.Concat([]string{"X-Remote-"}, headers.UserHeaders, headers.UIDHeaders, headers.GroupHeaders, headers.ExtraPrefixes)
	for to, from := range map[*http.RoundTripper]*rest.Config{&u.anonymous: bare, &u.anonymousUpgrade: bareHTTP1, &u.impersonating: cfg, &u.impersonatingUpgrade: ownHTTP1} {
		if *to, err = transportFor(from); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalidOptions, err)
		}
	}
	u.proxy = &httputil.ReverseProxy{
		Rewrite:        func(pr *httputil.ProxyRequest) { u.rewrite(pr, base) },
		Transport:      u,
		FlushInterval:  -1, // immediately: most long responses are watches
		ModifyResponse: modifyResponse,
		ErrorHandler:   u.handleError,
		ErrorLog:       slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	return u, nil
}

// modifyResponse implements httputil.ReverseProxy.ModifyResponse. It returns an error if the client
// must get that error instead of the response. One reason is that the client did not send the whole
// request body: the upstream may have answered the part that it received before the transport gave
// up. forwardedWatch.wrapBody returns the other errors.
func modifyResponse(resp *http.Response) error {
	fw := forwardingOf(resp.Request)
	if body, ok := fw.sent.Body.(*requestBody); ok && body.failed() != nil {
		return bodyError(body.failed())
	}
	fw.answer.bufferError(resp)
	fw.answer.chargeForwarded(resp)
	if fw.watch != nil {
		return fw.watch.wrapBody(resp)
	}
	return nil
}

// transportFor returns a transport for cfg. It ignores the timeout and user agent of cfg, because
// they apply to one client only.
func transportFor(cfg *rest.Config) (http.RoundTripper, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = 0
	cfg.UserAgent = "" // the proxy forwards the caller's user agent
	if cfg.Transport == nil {
		if cfg.Proxy == nil {
			// client-go uses ProxyFromEnvironment by default too. But client-go does not share a
			// transport between configs that set Proxy, and limitReadAhead must not change a shared
			// transport.
			cfg.Proxy = http.ProxyFromEnvironment
		}
		cfg.WrapTransport = transport.Wrappers(limitReadAhead, cfg.WrapTransport)
	}
	return rest.TransportFor(cfg)
}

// limitReadAhead sets readAhead and idleUpstream as limits for the connections of a transport. The
// transport must not have any connection yet.
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

// serve forwards the request. If fw.as is nil, the request keeps its own credentials; otherwise it
// is sent with the proxy's credentials and impersonates fw.as.
func (u *upstream) serve(w http.ResponseWriter, r *http.Request, fw *forwarding) {
	u.requests.Add(1)
	r = withConnection(r)
	if err := bufferBody(r); err != nil {
		u.refuse(fw.answer, r, bodyError(err))
		return
	}
	fw.sent = r
	u.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), forwardingKey{}, fw)))
}

func (u *upstream) rewrite(pr *httputil.ProxyRequest, base *url.URL) {
	pr.SetURL(base)
	// kube-apiserver passes the raw query unchanged to the servers behind it, and so does the
	// proxy. Without this, ReverseProxy would drop the parameters that Go's parser rejects. Nothing
	// is gained by dropping them, because kube-apiserver has the same parser.
	pr.Out.URL.RawQuery = pr.In.URL.RawQuery
	pr.SetXForwarded()
	for name := range pr.Out.Header {
		if review.NamesHeader(name, u.prefixes) || u.isFrontProxyHeader(name) {
			delete(pr.Out.Header, name)
		}
	}
	if forwardingOf(pr.In).as != nil {
		review.DropImpersonation(pr.Out.Header)
		pr.Out.Header.Del("Authorization")
	}
	if _, ok := pr.Out.Header["User-Agent"]; !ok {
		pr.Out.Header.Set("User-Agent", "") // prevents Go's default
	}
}

// RoundTrip sends the request with the right credentials. If the connection of a read breaks before
// the answer arrives, RoundTrip sends the read a second time, as client-go does. A break does not
// mean that the read caused it: many callers share the connections to an API server, and all of
// them break when the server stops.
func (u *upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := u.send(r)
	if err != nil && canRepeat(r) && brokeOff(err) {
		return u.send(r)
	}
	return resp, err
}

// canRepeat reports whether a request can be sent a second time: it is a read without a body and
// without an upgrade, and its context has not ended.
func canRepeat(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && (r.Body == nil || r.Body == http.NoBody) &&
		r.Header.Get("Upgrade") == "" && r.Context().Err() == nil
}

// brokeOff reports whether a request failed because its connection broke. A refused connection is
// not included: a second attempt would be refused too.
func brokeOff(err error) bool {
	return utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) || utilnet.IsHTTP2ConnectionLost(err)
}

// send sends the request once.
func (u *upstream) send(r *http.Request) (*http.Response, error) {
	upgrade := r.Header.Get("Upgrade") != ""
	as := forwardingOf(r).as
	switch {
	case as == nil && upgrade:
		return u.anonymousUpgrade.RoundTrip(r)
	case as == nil:
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

// roundTripAnonymous sends a request with the credentials that it contains, and records whether the
// upstream accepted its token.
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

// mayBeOfBackend reports whether a server behind the upstream may have answered a request for path:
// an aggregated API server, or a Node, Pod or Service to which the upstream proxies. A 401 of such
// a server does not mean that the upstream rejects the token.
func mayBeOfBackend(path string) bool {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	return slices.Contains(parts, "proxy") || parts[0] == "apis" && len(parts) > 1 && !scheme.Scheme.IsGroupRegistered(parts[1])
}

// showsAuthenticated reports whether a response proves that the upstream authenticated the caller.
// Only a success proves it: kube-apiserver may refuse a request before it authenticates the caller.
// The success of an OPTIONS request proves nothing, because kube-apiserver answers the preflight
// requests of browsers without authentication.
func showsAuthenticated(r *http.Request, resp *http.Response) bool {
	done := resp.StatusCode/100 == 2 || resp.StatusCode == http.StatusSwitchingProtocols
	return done && r.Method != http.MethodOptions
}

// suggestsAuthenticated reports whether kube-apiserver sends a response like this one only to
// authenticated callers. It is no proof that the caller is authenticated, because a proxy in front
// of kube-apiserver may send the same response to any caller.
func suggestsAuthenticated(r *http.Request, resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity:
		return !mayBeOfBackend(r.URL.Path)
	}
	return false
}

// withConnection returns the request with a Connection header that names no header but Upgrade. A
// reverse proxy removes the headers that a Connection header names. Some of these might identify
// the caller, and kube-apiserver does not remove them.
func withConnection(r *http.Request) *http.Request {
	if len(r.Header["Connection"]) == 0 {
		return r
	}
	upgrades := httpguts.HeaderValuesContainsToken(r.Header["Connection"], "Upgrade")
	r = utilnet.CloneRequest(r)
	r.Header.Del("Connection")
	if upgrades {
		r.Header.Set("Connection", "Upgrade")
	}
	return r
}

// handleError answers a request that the upstream did not answer, or whose response modifyResponse
// rejected.
func (u *upstream) handleError(_ http.ResponseWriter, r *http.Request, err error) {
	fw := forwardingOf(r)
	a := fw.answer
	r = fw.sent.WithContext(r.Context())
	// The cause is set if the read took too long; err is a StatusError if modifyResponse returned
	// it.
	for _, why := range []error{context.Cause(r.Context()), err} {
		if own, ok := errors.AsType[*apierrors.StatusError](why); ok {
			u.refuse(a, r, own)
			return
		}
	}
	var ofClient error
	if body, ok := r.Body.(*requestBody); ok {
		ofClient = body.failed()
	}
	// Over HTTP/1, a read deadline that has passed also cancels the context.
	late := errors.Is(ofClient, os.ErrDeadlineExceeded)
	if !late && errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the client has gone
	}
	if ofClient != nil {
		u.refuse(a, r, bodyError(ofClient))
		return
	}
	u.failures.Add(1)
	// The caller does not get err: the caller is not authenticated, and err may reveal addresses or a
	// fault of the proxy's credentials.
	u.logLimit.Do(func() {
		u.log.Warn("the upstream did not answer a forwarded request", "method", r.Method, "path", r.URL.Path, "error", err.Error())
	})
	const why = "the upstream API server does not respond"
	if fw.watch != nil && (fw.watch.resumable || fw.watch.initial) {
		// client-go's informers would list again after a 503.
		u.refuse(a, r, apierrors.NewTooManyRequests(why, retryAfterSeconds))
		return
	}
	u.refuse(a, r, apierrors.NewServiceUnavailable(why))
}

// failureLogInterval is the minimum time between two log lines about requests that the upstream did
// not answer. While the upstream is down, every forwarded request would cause a line.
const failureLogInterval = time.Second

func (u *upstream) close() {
	for _, rt := range []http.RoundTripper{u.anonymous, u.anonymousUpgrade, u.impersonating, u.impersonatingUpgrade} {
		utilnet.CloseIdleConnectionsFor(rt)
	}
}
