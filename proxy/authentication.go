package proxy

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
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/lru"

	"github.com/weirproject/weir/proxy/internal/seats"
)

// caller is the user who makes a request.
type caller struct {
	user user.Info
	// certificate is true if the user is known by a client certificate or a front proxy's headers,
	// which cannot be forwarded.
	certificate bool
}

// authentication identifies callers. It is safe for concurrent use.
type authentication struct {
	tokens         authenticator.Request
	uncachedTokens authenticator.Request // tokens without the library's cache
	cas            atomic.Pointer[callerCAs]
	created        time.Time
	breaker        *breaker
	localTTL       time.Duration           // an answer counts as long without the library's cache
	tokenAnswers   *answerCache            // about tokens; for outages of the upstream
	seats          *seats.Pool             // of reviews
	ownerReviews   chan struct{}           // one element for each review of learnOwner
	ownersAsked    *lru.Cache              // times of these reviews, by tokenID
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

func newAuthentication(ctx context.Context, o *Options, client kubernetes.Interface, br *breaker, seating *seats.Pool) (*authentication, error) {
	ttl := o.Authentication.TokenTTL
	a := &authentication{
		breaker: br, localTTL: ttl / localTTLPart, tokenAnswers: newAnswerCache(maxCachedTokens, o.answerAge(ttl)), seats: seating,
		ownerReviews: make(chan struct{}, maxOwnerReviews), ownersAsked: lru.New(maxCachedTokens), created: time.Now(),
	}
	for to, cacheTTL := range map[*authenticator.Request]time.Duration{&a.tokens: ttl - ttl/localTTLPart, &a.uncachedTokens: 0} {
		tokens, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
			TokenAccessReviewClient:  client.AuthenticationV1(),
			TokenAccessReviewTimeout: o.timeouts.review,
			WebhookRetryBackoff:      reviewBackoff(),
			CacheTTL:                 cacheTTL,
		}.New()
		if err != nil {
			return nil, fmt.Errorf("proxy: %w", err)
		}
		*to = tokens
	}
	for _, file := range []string{o.Authentication.ClientCAFile, o.Authentication.RequestHeaderCAFile} {
		// Check this before starting anything that only Close ends.
		if _, err := os.Stat(file); file != "" && err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalidOptions, err)
		}
	}
	if err := a.trustCallers(ctx, o, client); err != nil {
		return nil, err
	}
	return a, nil
}

var (
	// errUntrustedCertificate is returned for a certificate of an unknown CA or one that has expired.
	// kube-apiserver still accepts a token of such a caller.
	errUntrustedCertificate = errors.New("the certificate is not believed")
	// errIdentityRefused is returned for an identity that is proven, and would be another one
	// upstream. kube-apiserver takes it whatever token comes with it, so no token makes up for it.
	errIdentityRefused = errors.New("the identity cannot be forwarded as it is")
)

// byCertificate returns the caller by client certificate or by a front proxy's headers. It returns
// nil without a certificate, and if no CA is known. The error is errUntrustedCertificate or
// errIdentityRefused.
func (a *authentication) byCertificate(r *http.Request) (*caller, error) {
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
			return nil, errIdentityRefused
		case ok:
			return &caller{user: resp.User, certificate: true}, nil
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

// identity is the result of byCertificate for one request.
type identity struct {
	caller *caller
	err    error
}

// withIdentity returns the request with its identity in the context, so that the costly
// verification is done once.
func (a *authentication) withIdentity(r *http.Request) *http.Request {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return r
	}
	c, err := a.byCertificate(r)
	return r.WithContext(context.WithValue(r.Context(), identityKey{}, &identity{c, err}))
}

// authenticate returns who makes the request. The caller is nil unless the decision is
// decisionAllow or decisionGrace. decisionDeny means that the upstream does not know the token, or
// that the identity is refused.
func (a *authentication) authenticate(r *http.Request, opts reviewOptions) (*caller, decision) {
	c, err := a.byCertificate(r)
	if c != nil {
		return c, decisionAllow
	}
	id := tokenID(r)
	if id == ([sha256.Size]byte{}) || errors.Is(err, errIdentityRefused) {
		return nil, decisionDeny
	}
	if last, ok := a.answerWithin(id, a.localTTL); ok && !opts.uncached {
		return &caller{user: last}, decisionAllow
	}
	last, answered := a.answerWithin(id, opts.grace)
	if answered && a.breaker.open() {
		return &caller{user: last}, decisionGrace
	}
	who, d := a.review(r, id, opts)
	if d == decisionUnreachable && answered {
		return &caller{user: last}, decisionGrace
	}
	return who, d
}

// unauthenticated reports whether the request has an identity that is refused, or no token and a
// certificate that is not trusted. kube-apiserver answers the latter 401, and does not treat it as
// anonymous.
func (a *authentication) unauthenticated(r *http.Request) bool {
	_, err := a.byCertificate(r)
	return errors.Is(err, errIdentityRefused) || err != nil && tokenID(r) == [sha256.Size]byte{}
}

// cloneHeaders returns a copy of the request with headers that an authenticator may change.
func cloneHeaders(r *http.Request) *http.Request {
	c := r.WithContext(r.Context())
	c.Header = r.Header.Clone()
	return c
}
