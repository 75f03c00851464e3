package review

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/lru"

	"github.com/weirproject/weir/proxy/internal/seats"
)

// Authenticator identifies callers. It is safe for concurrent use.
type Authenticator struct {
	tokens         authenticator.Request
	uncachedTokens authenticator.Request // tokens without the library's cache
	cas            atomic.Pointer[callerCAs]
	created        time.Time
	breaker        *Breaker
	localTTL       time.Duration // an answer counts as long without the library's cache
	tokenAnswers   *answerCache  // about tokens; for outages of the upstream
	timeout        time.Duration // of a review
	seats          *seats.Pool
	ownerReviews   chan struct{}           // one element for each review of LearnOwner
	ownersAsked    *lru.Cache              // times of these reviews, by TokenID
	controllers    []func(context.Context) // run while the server does
}

// localTTLPart is the part (one in 10) of a TTL for which an answer about a token is kept here. The
// library's cache, where a lookup costs as much as serving the request, keeps it for the rest. So
// no answer is older than its TTL.
const localTTLPart = 10

// reviewBackoff returns the retries of a failed review in the delegating libraries.
func reviewBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 3}
}

// NewAuthenticator returns an Authenticator. It reads the CAs, bounded by ctx. It returns a
// *FileError for a CA file that cannot be read.
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
		// Check this before starting anything that only Close ends.
		if _, err := os.Stat(file); file != "" && err != nil {
			return nil, &FileError{err}
		}
	}
	if err := a.trustCallers(ctx, o); err != nil {
		return nil, err
	}
	return a, nil
}

var (
	// errUntrustedCertificate is returned for a certificate of an unknown CA or one that has expired.
	// kube-apiserver still accepts a token of such a caller.
	errUntrustedCertificate = errors.New("the certificate is not believed")
	// ErrIdentityRefused is returned for an identity that is proven, and would be another one
	// upstream. kube-apiserver takes it whatever token comes with it, so no token makes up for it.
	ErrIdentityRefused = errors.New("the identity cannot be forwarded as it is")
)

// ByCertificate returns the caller by client certificate or by a front proxy's headers. It returns
// nil without a certificate, and if no CA is known. The error is errUntrustedCertificate or
// ErrIdentityRefused.
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
		resp, ok, err := c.AuthenticateRequest(cloneHeaders(r))
		// A refused identity is final: the next authenticator might take a front proxy for the caller.
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

// isAnonymousName reports whether an identity cannot be forwarded: the upstream would put
// system:anonymous into system:unauthenticated, which may grant more.
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

// WithIdentity returns the request with its identity in the context, so that the costly
// verification is done once.
func (a *Authenticator) WithIdentity(r *http.Request) *http.Request {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return r
	}
	c, err := a.ByCertificate(r)
	return r.WithContext(context.WithValue(r.Context(), identityKey{}, &identity{c, err}))
}

// Authenticate returns who makes the request. The caller is nil unless the decision is Allow or
// Grace. Deny means that the upstream does not know the token, or that the identity is refused.
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

// Unauthenticated reports whether the request has an identity that is refused, or no token and a
// certificate that is not trusted. kube-apiserver answers the latter 401, and does not treat it as
// anonymous.
func (a *Authenticator) Unauthenticated(r *http.Request) bool {
	_, err := a.ByCertificate(r)
	return errors.Is(err, ErrIdentityRefused) || err != nil && TokenID(r) == [sha256.Size]byte{}
}

// Known returns the user of a token that was reviewed before.
func (a *Authenticator) Known(id [sha256.Size]byte) (user.Info, bool) {
	last, ok := a.tokenAnswers.get(id)
	return last.user, ok
}

// Remember keeps the answer to a review that was made just now: whose a token is.
func (a *Authenticator) Remember(who user.Info, id [sha256.Size]byte) {
	a.tokenAnswers.add(who, id, cachedAnswer{user: who, at: time.Now()})
}

// MissesCAs reports whether the published CAs could not be read yet.
func (a *Authenticator) MissesCAs() bool { return a.cas.Load().missing }

// NamesCallerUpstream reports whether the upstream publishes that it believes a header of front
// proxies.
func (a *Authenticator) NamesCallerUpstream(header string) bool {
	p := a.cas.Load().published
	return p != nil && NamesHeader(header, p.ExtraHeaderPrefixes(), p.UsernameHeaders(), p.UIDHeaders(), p.GroupHeaders())
}

// Run keeps the CAs current until ctx ends.
func (a *Authenticator) Run(ctx context.Context) { runAll(ctx, a.controllers) }

// cloneHeaders returns a copy of the request with headers that an authenticator may change.
func cloneHeaders(r *http.Request) *http.Request {
	c := r.WithContext(r.Context())
	c.Header = r.Header.Clone()
	return c
}
