package review

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/streaming/pkg/httpstream/wsstream"
	"k8s.io/utils/lru"

	"github.com/weirproject/weir/proxy/internal/conn"
	"github.com/weirproject/weir/proxy/internal/seats"
)

// Authenticator authenticates callers. It is safe for concurrent use.
type Authenticator struct {
	tokens         authenticator.Request
	uncachedTokens authenticator.Request // like tokens, without the library's cache
	cas            atomic.Pointer[callerCAs]
	created        time.Time
	breaker        *Breaker
	localTTL       time.Duration // for how long an answer in tokenAnswers is used without a review
	tokenAnswers   *answerCache  // answers about tokens; also for outages of the upstream
	timeout        time.Duration // of a review
	seats          *seats.Pool
	ownerReviews   chan struct{}           // has one element for each LearnOwner review in progress
	ownersAsked    *lru.Cache              // times of the LearnOwner reviews, by TokenID
	controllers    []func(context.Context) // Run runs them
}

// localTTLPart divides the TTL of an answer about a token into two phases. For the first
// 1/localTTLPart of the TTL, the answer in tokenAnswers is used. For the rest, the cache of
// k8s.io/apiserver is used, in which a lookup costs as much as serving the request. While the
// upstream answers, no answer is used for longer than its TTL.
const localTTLPart = 10

// reviewBackoff returns how the delegating libraries retry a failed review.
func reviewBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 3}
}

// NewAuthenticator returns an Authenticator. ctx bounds the requests that read the published CAs.
// If a CA file cannot be read, the error wraps ErrFile.
func NewAuthenticator(ctx context.Context, o *Config) (*Authenticator, error) {
	ttl := o.Trust.TokenTTL
	a := &Authenticator{
		breaker: o.Breaker, timeout: o.Timeout, localTTL: ttl / localTTLPart, tokenAnswers: newAnswerCache(MaxCachedTokens, o.answerAge(ttl)), seats: o.Seats,
		ownerReviews: make(chan struct{}, maxOwnerReviews), ownersAsked: lru.New(MaxCachedTokens), created: time.Now(),
	}
	for to, cacheTTL := range map[*authenticator.Request]time.Duration{&a.tokens: ttl - ttl/localTTLPart, &a.uncachedTokens: 0} {
		tokens, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
			TokenAccessReviewClient:  o.Client.AuthenticationV1(),
			TokenAccessReviewTimeout: o.Timeout,
			WebhookRetryBackoff:      reviewBackoff(),
			CacheTTL:                 cacheTTL,
		}.New()
		if err != nil {
			return nil, err
		}
		*to = tokens
	}
	for _, file := range []string{o.Trust.ClientCAFile, o.Trust.RequestHeaderCAFile} {
		// Check the files before trustCallers starts goroutines, which only Close ends.
		if _, err := os.Stat(file); file != "" && err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFile, err)
		}
	}
	if err := a.trustCallers(ctx, o); err != nil {
		return nil, err
	}
	return a, nil
}

var (
	// errUntrustedCertificate is returned for a certificate that has expired or that no trusted CA has
	// signed. kube-apiserver, and the proxy, still accept a token of such a caller.
	errUntrustedCertificate = errors.New("the certificate is not trusted")
	// ErrIdentityRefused is returned for an authenticated identity that the upstream would receive
	// changed. No token is accepted instead, because kube-apiserver prefers the identity of the
	// certificate to a token.
	ErrIdentityRefused = errors.New("the identity cannot be forwarded unchanged")
)

// ByCertificate returns the caller that a client certificate or the headers of a front proxy
// identify. It returns nil if the request has no certificate or the proxy has no CA. The error is
// errUntrustedCertificate or ErrIdentityRefused.
func (a *Authenticator) ByCertificate(r *http.Request) (user.Info, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, nil
	}
	if verified, ok := r.Context().Value(identityKey{}).(*identity); ok {
		return verified.caller, verified.err
	}
	var refused error
	cas := a.cas.Load()
	for _, c := range []authenticator.Request{cas.frontProxies, cas.clients} {
		if c == nil {
			continue
		}
		resp, ok, err := c.AuthenticateRequest(utilnet.CloneRequest(r))
		// A refused identity is final: the next authenticator might authenticate the front proxy as the
		// caller.
		switch {
		case err != nil:
			refused = fmt.Errorf("%w: %w", errUntrustedCertificate, err)
		case ok && (isAnonymousName(resp.User) || !survivesForwarding(resp.User)):
			return nil, ErrIdentityRefused
		case ok:
			return resp.User, nil
		}
	}
	return nil, refused
}

// isAnonymousName reports whether an identity is named system:anonymous but is not in the group
// system:unauthenticated. Such an identity cannot be forwarded: the upstream would add it to that
// group, which may have more permissions.
func isAnonymousName(who user.Info) bool {
	return who.GetName() == user.Anonymous && !slices.Contains(who.GetGroups(), user.AllUnauthenticated)
}

// identityKey is the context key of a request's *identity.
type identityKey struct{}

// identity is the result of ByCertificate for one request.
type identity struct {
	caller user.Info
	err    error
}

// WithIdentity returns the request with the result of ByCertificate in its context, so that the
// costly verification is done only once.
func (a *Authenticator) WithIdentity(r *http.Request) *http.Request {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return r
	}
	c, err := a.ByCertificate(r)
	return r.WithContext(context.WithValue(r.Context(), identityKey{}, &identity{c, err}))
}

// Authenticate returns the caller of a request. The caller is nil unless the decision is Allow or
// Grace. Deny means that the request has neither a trusted certificate nor a token, that the
// upstream does not accept its token, or that the identity in its certificate is refused.
func (a *Authenticator) Authenticate(r *http.Request, opts Options) (user.Info, Decision) {
	c, err := a.ByCertificate(r)
	if c != nil {
		return c, Allow
	}
	id := TokenID(r)
	if id == ([sha256.Size]byte{}) || errors.Is(err, ErrIdentityRefused) {
		return nil, Deny
	}
	if last, ok := a.answerWithin(id, a.localTTL); ok && !opts.uncached {
		return last, Allow
	}
	last, answered := a.answerWithin(id, opts.Grace)
	if answered && a.breaker.open() {
		return last, Grace
	}
	who, d := a.review(r, id, opts)
	if d == Unreachable && answered {
		return last, Grace
	}
	return who, d
}

// Unauthenticated reports whether the identity of the request is refused, or its certificate is not
// trusted and it has no token. kube-apiserver answers such a request with 401, and does not treat
// it as anonymous.
func (a *Authenticator) Unauthenticated(r *http.Request) bool {
	_, err := a.ByCertificate(r)
	return errors.Is(err, ErrIdentityRefused) || err != nil && TokenID(r) == [sha256.Size]byte{}
}

// Known returns the user of a token that was reviewed before, from the cache.
func (a *Authenticator) Known(id [sha256.Size]byte) (user.Info, bool) {
	last, ok := a.tokenAnswers.get(id)
	return last.user, ok
}

// Remember caches the answer to a review that has just ended: the user of a token.
func (a *Authenticator) Remember(who user.Info, id [sha256.Size]byte) {
	a.tokenAnswers.add(who, id, cachedAnswer{user: who, at: time.Now()})
}

// MissesCAs reports whether the proxy has not been able to read the published CAs yet.
func (a *Authenticator) MissesCAs() bool { return a.cas.Load().missing }

// NamesCallerUpstream reports whether the upstream publishes that it accepts the header from front
// proxies.
func (a *Authenticator) NamesCallerUpstream(header string) bool {
	p := a.cas.Load().published
	return p != nil && NamesHeader(header, p.ExtraHeaderPrefixes(), p.UsernameHeaders(), p.UIDHeaders(), p.GroupHeaders())
}

// Run runs the controllers that keep the CAs current, until ctx ends.
func (a *Authenticator) Run(ctx context.Context) { runAll(ctx, a.controllers) }

// review asks the upstream for the user of a token. It first waits for a seat, which is the right
// to make one review, unless opts.uncached is set.
func (a *Authenticator) review(r *http.Request, id [sha256.Size]byte, opts Options) (user.Info, Decision) {
	tokens := a.uncachedTokens
	if !opts.uncached {
		tokens = a.tokens
		f := seats.Flow{Level: seats.NewTokens, Caller: conn.Source(r.RemoteAddr), Token: seats.TokenKey(id)}
		if who, known := a.Known(id); known {
			f = seats.ReviewFlow(who)
		}
		seated := a.seats.Acquire(r.Context(), f)
		if seated {
			defer a.seats.Release(f)
		}
		switch _, answered := a.answerWithin(id, opts.Grace); {
		case answered && a.breaker.open():
			return nil, Unreachable
		case !seated:
			return nil, Overloaded
		}
	}
	begun := a.breaker.begin()
	resp, ok, err := tokens.AuthenticateRequest(utilnet.CloneRequest(r))
	switch {
	case err != nil && !saysNo(err):
		return nil, begun.classify(r.Context(), err)
	case err == nil && ok:
		a.Remember(resp.User, id)
		return resp.User, Allow
	}
	a.tokenAnswers.remove(id)
	return nil, Deny
}

// saysNo reports whether err says that the upstream rejects the token. The library returns the
// upstream's reason for the rejection as an error.
func saysNo(err error) bool { return !HasStatus(err) && !isNetworkError(err) && !isCutOff(err) }

// answerWithin returns the cached user of a token, if the age of the answer is less than the given
// time (within).
func (a *Authenticator) answerWithin(id [sha256.Size]byte, within time.Duration) (user.Info, bool) {
	last, ok := a.tokenAnswers.get(id)
	if !ok || time.Since(last.at) >= within {
		return nil, false
	}
	return last.user, true
}

const webSocketToken = "base64url.bearer.authorization.k8s.io."

// TokenID returns a digest of the request's token, or zero if there is none. Like kube-apiserver,
// it finds a token in two places: a bearer Authorization header, and a protocol of a WebSocket
// request.
func TokenID(r *http.Request) (id [sha256.Size]byte) {
	auth, protocols := strings.TrimSpace(r.Header.Get("Authorization")), ""
	if words := strings.SplitN(auth, " ", 3); len(words) < 2 || strings.ToLower(words[0]) != "bearer" || words[1] == "" {
		auth = ""
	}
	if all := strings.Join(r.Header.Values("Sec-WebSocket-Protocol"), ","); strings.Contains(all, webSocketToken) && wsstream.IsWebSocketRequest(r) {
		protocols = all
	}
	if auth == "" && protocols == "" {
		return id
	}
	return sha256.Sum256([]byte(auth + "\n" + protocols)) // a header contains no newline
}

const (
	// maxOwnerReviews bounds the concurrent LearnOwner reviews.
	maxOwnerReviews = 8
	// ownerRetry is the minimum time between two LearnOwner reviews of a token without a user.
	ownerRetry = 10 * time.Minute
)

// ForgetOwner removes what is cached about a token that the upstream has rejected, so that
// LearnOwner reviews the token again.
func (a *Authenticator) ForgetOwner(id [sha256.Size]byte) {
	a.tokenAnswers.remove(id)
	a.ownersAsked.Remove(id)
}

// LearnOwner reviews, in the background, a token that the upstream may have accepted. Without
// LearnOwner the proxy would not review the token of a request that it only forwards. Flow control
// would then count requests by token, and a user may have any number of tokens. LearnOwner does
// nothing if the user is known, or if a review of the token started less than ownerRetry ago. It
// also does nothing if too many reviews are in progress; the next request with the token then tries
// again. LearnOwner passes the review to run, which must call it. The review ends when ctx ends.
func (a *Authenticator) LearnOwner(ctx context.Context, r *http.Request, id [sha256.Size]byte, run func(func())) {
	if _, known := a.tokenAnswers.get(id); known {
		return
	}
	if last, ok := a.ownersAsked.Get(id); ok && time.Since(last.(time.Time)) < ownerRetry {
		return
	}
	select {
	case a.ownerReviews <- struct{}{}:
	default:
		return
	}
	a.ownersAsked.Add(id, time.Now())
	by := a.credentialOf(r).r
	run(func() {
		defer func() { <-a.ownerReviews }()
		ctx, cancel := context.WithTimeout(ctx, a.timeout)
		defer cancel()
		a.review(by.WithContext(ctx), id, Options{uncached: true})
	})
}

// credential is the part of a request that identifies its caller to the upstream.
type credential struct {
	id    [sha256.Size]byte // digest of the token or the certificate
	token bool
	r     *http.Request // contains only what identifies the caller; nil in tests
}

// tokenHeaders are the headers in which kube-apiserver looks for a token.
var tokenHeaders = []string{"Authorization", "Sec-Websocket-Protocol", "Connection", "Upgrade"}

// credentialOf returns the credential of a request. A review of the credential may outlast the
// request, because other watches of the caller share it. Of the headers, the credential therefore
// contains only those that identify the caller. It contains nothing that belongs to the connection,
// such as the body and the context.
func (a *Authenticator) credentialOf(r *http.Request) credential {
	b := credential{r: &http.Request{
		Method: r.Method, URL: &url.URL{}, Proto: r.Proto, ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor, Header: http.Header{}, RemoteAddr: r.RemoteAddr,
	}}
	keeps := func(name string) bool { return slices.Contains(tokenHeaders, name) }
	if verified, ok := r.Context().Value(identityKey{}).(*identity); ok && verified.caller != nil {
		b.id, b.r.TLS = sha256.Sum256(r.TLS.PeerCertificates[0].Raw), r.TLS
		keeps = a.cas.Load().namesCaller
	} else {
		b.id, b.token = TokenID(r), true
	}
	for name, values := range r.Header {
		if keeps(name) {
			b.r.Header[name] = values
		}
	}
	return b
}
