package proxy

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/lru"
)

// caller is who makes a request.
type caller struct {
	user user.Info
	// certificate: known by a client certificate or a front proxy's headers, and so by nothing that
	// could be passed on.
	certificate bool
}

// authentication tells who makes a request. Safe for concurrent use.
type authentication struct {
	tokens         authenticator.Request
	uncachedTokens authenticator.Request   // the same, without earlier answers
	certificates   []authenticator.Request // front proxies first; none: nobody is believed
	breaker        *breaker
	localTTL       time.Duration // how long an answer about a token counts without a look at the library's
	tokenAnswers   *lru.Cache    // sha256 of a token to remembered, for when the upstream cannot be reached
	reviewLimit    *reviewLimiter
	controllers    []func(context.Context)
	clientCAs      []dynamiccertificates.CAContentProvider // that are followed
}

// cachedAnswer is an answer, and when it was given.
type cachedAnswer struct {
	user user.Info // of a token
	at   time.Time
}

const (
	// maxCachedAnswers bounds the answers that are remembered for Options.Grace, of either kind.
	maxCachedAnswers   = 8192
	configMapNamespace = "kube-system"
	configMapName      = "extension-apiserver-authentication"
	clientCAKey        = "client-ca-file"
	headerCAKey        = "requestheader-client-ca-file"
)

// reviewBackoff returns how a review that failed is tried again, by the delegating libraries.
func reviewBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 3}
}

func newAuthentication(ctx context.Context, o *Options, client kubernetes.Interface, br *breaker) (*authentication, error) {
	ttl := o.Authentication.TokenTTL
	a := &authentication{breaker: br, localTTL: ttl / localTTLPart, tokenAnswers: lru.New(maxCachedAnswers), reviewLimit: newReviewLimiter()}
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
		if _, err := os.Stat(file); file != "" && err != nil { // before anything is started that only Close ends
			return nil, fmt.Errorf("%w: %w", ErrOptions, err)
		}
	}
	of, err := publishedConfig(ctx, o, client)
	if err != nil {
		return nil, err
	}
	headers, err := a.requestHeaders(ctx, o, client, of)
	if err != nil {
		return nil, err
	}
	if headers != nil {
		if err := a.addAuthenticator(authenticatorfactory.DelegatingAuthenticatorConfig{RequestHeaderConfig: headers}); err != nil {
			return nil, err
		}
	}
	ca, err := a.clientCA(o, client, of)
	if err != nil {
		return nil, err
	}
	if ca != nil {
		if err := a.addAuthenticator(authenticatorfactory.DelegatingAuthenticatorConfig{ClientCertificateCAContentProvider: ca}); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func (a *authentication) addAuthenticator(cfg authenticatorfactory.DelegatingAuthenticatorConfig) error {
	next, _, err := cfg.New()
	if err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	a.certificates = append(a.certificates, next)
	return nil
}

// errUntrustedCertificate is returned for a request whose certificate nobody vouches for.
var errUntrustedCertificate = errors.New("the certificate is not believed")

// byCertificate returns the caller by certificate or by a front proxy's headers, and nil if the
// request has no certificate, or no CA is known to check it by. errUntrustedCertificate is returned
// for a certificate that has expired, or is of an unknown CA. kube-apiserver lets its bearer in by
// a token all the same, and as nobody else.
func (a *authentication) byCertificate(r *http.Request) (*caller, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, nil
	}
	if known, ok := r.Context().Value(identityKey{}).(*identity); ok {
		return known.caller, known.err
	}
	var refused error
	for _, c := range a.certificates {
		resp, ok, err := c.AuthenticateRequest(cloneHeaders(r))
		switch {
		case err != nil:
			refused = fmt.Errorf("%w: %w", errUntrustedCertificate, err)
		case ok && isAnonymousName(resp.User):
			refused = fmt.Errorf("%w: it is of %s", errUntrustedCertificate, user.Anonymous)
		case ok:
			return &caller{user: resp.User, certificate: true}, nil
		}
	}
	return nil, refused
}

// isAnonymousName reports whether an identity cannot be passed on: upstream, whoever comes in the
// name of system:anonymous is put into system:unauthenticated, which may allow what this one may
// not do.
func isAnonymousName(who user.Info) bool {
	return who.GetName() == user.Anonymous && !slices.Contains(who.GetGroups(), user.AllUnauthenticated)
}

// identityKey is where a request's context has the *identity of its certificate.
type identityKey struct{}

// identity is what certified has returned. It is of one request, and of one moment.
type identity struct {
	caller *caller
	err    error
}

// withIdentity returns the request with the identity of its certificate, which takes time to find,
// so that it is found once.
func (a *authentication) withIdentity(r *http.Request) *http.Request {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return r
	}
	c, err := a.byCertificate(r)
	return r.WithContext(context.WithValue(r.Context(), identityKey{}, &identity{c, err}))
}

// authenticate returns who makes the request. The caller is nil unless the verdict is yes or
// graced; no says that nobody vouches for them.
func (a *authentication) authenticate(r *http.Request, opts reviewOptions) (*caller, decision) {
	if c, _ := a.byCertificate(r); c != nil {
		return c, decisionAllow
	}
	id := tokenID(r)
	if id == ([sha256.Size]byte{}) {
		return nil, decisionDeny
	}
	if last, ok := a.answerWithin(id, a.localTTL); ok && !opts.uncached {
		return &caller{user: last}, decisionAllow
	}
	last, known := a.answerWithin(id, opts.grace)
	if known && a.breaker.open() {
		return &caller{user: last}, decisionGrace
	}
	who, d := a.review(r, id, opts)
	if d == decisionUnreachable && known {
		return &caller{user: last}, decisionGrace
	}
	return who, d
}

// unauthenticated reports whether the request shows who it is of, but in no way that could be
// believed or passed on: kube-apiserver answers it 401, and not as one of nobody.
func (a *authentication) unauthenticated(r *http.Request) bool {
	_, err := a.byCertificate(r)
	return err != nil && tokenID(r) == [sha256.Size]byte{}
}

// cloneHeaders returns a request whose headers an authenticator may change, as they do.
func cloneHeaders(r *http.Request) *http.Request {
	c := r.WithContext(r.Context())
	c.Header = r.Header.Clone()
	return c
}
