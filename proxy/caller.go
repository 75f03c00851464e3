package proxy

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	"k8s.io/streaming/pkg/httpstream/wsstream"
	"k8s.io/utils/lru"
)

// caller is who makes a request.
type caller struct {
	user user.Info
	// certified: known by a client certificate or a front proxy's headers, and so by nothing that could be passed on.
	certified bool
}

// authentication tells who makes a request. Safe for concurrent use.
type authentication struct {
	tokens       authenticator.Request
	tokensAnew   authenticator.Request   // the same, without earlier answers
	certificates []authenticator.Request // front proxies first; none: nobody is believed
	outage       *outage
	fresh        time.Duration // how long an answer about a token counts without a look at the library's
	known        *lru.Cache    // sha256 of a token to remembered, for when the upstream cannot be reached
	strangers    *strangers
	run          []func(context.Context)
	cas          []dynamiccertificates.CAContentProvider // that are followed
}

// remembered is an answer, and when it was given.
type remembered struct {
	user user.Info // of a token
	at   time.Time
}

const (
	// maxKnown bounds the answers that are remembered for Options.Grace, of either kind.
	maxKnown           = 8192
	publishedNamespace = "kube-system"
	publishedName      = "extension-apiserver-authentication"
	clientCAKey        = "client-ca-file"
	headerCAKey        = "requestheader-client-ca-file"
)

// reviewBackoff is how a review that failed is tried again, by the delegating libraries.
func reviewBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 3}
}

func newAuthentication(ctx context.Context, o *Options, client kubernetes.Interface, out *outage) (*authentication, error) {
	ttl := o.Authentication.TokenTTL
	a := &authentication{outage: out, fresh: ttl / freshPart, known: lru.New(maxKnown), strangers: newStrangers()}
	for to, cacheTTL := range map[*authenticator.Request]time.Duration{&a.tokens: ttl - ttl/freshPart, &a.tokensAnew: 0} {
		tokens, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
			TokenAccessReviewClient:  client.AuthenticationV1(),
			TokenAccessReviewTimeout: o.patience.review,
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
	of, err := published(ctx, o, client)
	if err != nil {
		return nil, err
	}
	headers, err := a.requestHeaders(ctx, o, client, of)
	if err != nil {
		return nil, err
	}
	if headers != nil {
		if err := a.add(authenticatorfactory.DelegatingAuthenticatorConfig{RequestHeaderConfig: headers}); err != nil {
			return nil, err
		}
	}
	ca, err := a.clientCA(o, client, of)
	if err != nil {
		return nil, err
	}
	if ca != nil {
		if err := a.add(authenticatorfactory.DelegatingAuthenticatorConfig{ClientCertificateCAContentProvider: ca}); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func (a *authentication) add(cfg authenticatorfactory.DelegatingAuthenticatorConfig) error {
	next, _, err := cfg.New()
	if err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	a.certificates = append(a.certificates, next)
	return nil
}

// published is what the upstream publishes for servers behind it; nil if that is nothing, or may not be read.
func published(ctx context.Context, o *Options, client kubernetes.Interface) (map[string]string, error) {
	if o.Authentication.SkipLookup {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, o.patience.review)
	defer cancel()
	cm, err := client.CoreV1().ConfigMaps(publishedNamespace).Get(ctx, publishedName, metav1.GetOptions{})
	switch {
	case err == nil:
		return cm.Data, nil
	case apierrors.IsForbidden(err) || apierrors.IsNotFound(err):
		o.Log.Warn("the upstream publishes no CAs that the proxy may read: certificates are believed only by a CA that is given", "error", err)
		return nil, nil
	}
	return nil, fmt.Errorf("proxy: the upstream's CAs: %w", err)
}

// publishedCA follows a published CA while the server runs.
func (a *authentication) publishedCA(client kubernetes.Interface, key string) (dynamiccertificates.CAContentProvider, error) {
	ca, err := dynamiccertificates.NewDynamicCAFromConfigMapController(key, publishedNamespace, publishedName, key, client)
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	a.run = append(a.run, func(ctx context.Context) { ca.Run(ctx, 1) })
	a.cas = append(a.cas, ca)
	return ca, nil
}

// ready says whether every CA that is followed has been read: before, its callers are not known.
func (a *authentication) ready() bool {
	return !slices.ContainsFunc(a.cas, func(ca dynamiccertificates.CAContentProvider) bool { return len(ca.CurrentCABundleContent()) == 0 })
}

// clientCA is the CA of client certificates; nil: none is believed.
func (a *authentication) clientCA(o *Options, client kubernetes.Interface, of map[string]string) (dynamiccertificates.CAContentProvider, error) {
	if file := o.Authentication.ClientCAFile; file != "" {
		ca, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", file)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrOptions, err)
		}
		a.run = append(a.run, func(ctx context.Context) { ca.Run(ctx, 1) })
		return ca, nil
	}
	if of[clientCAKey] == "" {
		return nil, nil
	}
	return a.publishedCA(client, clientCAKey)
}

// requestHeaders is how front proxies are believed; nil: they are not.
func (a *authentication) requestHeaders(ctx context.Context, o *Options, client kubernetes.Interface, of map[string]string) (
	*authenticatorfactory.RequestHeaderConfig, error) {
	c := &o.Authentication
	if file := c.RequestHeaderCAFile; file != "" {
		ca, err := dynamiccertificates.NewDynamicCAContentFromFile("request-header", file)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrOptions, err)
		}
		a.run = append(a.run, func(ctx context.Context) { ca.Run(ctx, 1) })
		return &authenticatorfactory.RequestHeaderConfig{
			CAContentProvider:   ca,
			AllowedClientNames:  headerrequest.StaticStringSlice(c.RequestHeaderNames),
			UsernameHeaders:     headerrequest.StaticStringSlice(c.UserHeaders),
			UIDHeaders:          headerrequest.StaticStringSlice(c.UIDHeaders),
			GroupHeaders:        headerrequest.StaticStringSlice(c.GroupHeaders),
			ExtraHeaderPrefixes: headerrequest.StaticStringSlice(c.ExtraPrefixes),
		}, nil
	}
	if of[headerCAKey] == "" {
		return nil, nil
	}
	names := headerrequest.NewRequestHeaderAuthRequestController(publishedName, publishedNamespace, client, "requestheader-username-headers",
		"requestheader-uid-headers", "requestheader-group-headers", "requestheader-extra-headers-prefix", "requestheader-allowed-names")
	if err := names.RunOnce(ctx); err != nil {
		return nil, fmt.Errorf("proxy: the upstream's front proxies: %w", err)
	}
	a.run = append(a.run, func(ctx context.Context) { names.Run(ctx, 1) })
	ca, err := a.publishedCA(client, headerCAKey)
	if err != nil {
		return nil, err
	}
	return &authenticatorfactory.RequestHeaderConfig{
		CAContentProvider:   ca,
		AllowedClientNames:  headerrequest.StringSliceProviderFunc(names.AllowedClientNames),
		UsernameHeaders:     headerrequest.StringSliceProviderFunc(names.UsernameHeaders),
		UIDHeaders:          headerrequest.StringSliceProviderFunc(names.UIDHeaders),
		GroupHeaders:        headerrequest.StringSliceProviderFunc(names.GroupHeaders),
		ExtraHeaderPrefixes: headerrequest.StringSliceProviderFunc(names.ExtraHeaderPrefixes),
	}, nil
}

// errCertificate is returned for a request whose certificate nobody vouches for.
var errCertificate = errors.New("the certificate is not believed")

// certified returns the caller by certificate or by a front proxy's headers, and nil if the request has no certificate, or no CA is known
// to check it by. errCertificate is returned for a certificate that has expired, or is of an unknown CA. kube-apiserver lets its
// bearer in by a token all the same, and as nobody else.
func (a *authentication) certified(r *http.Request) (*caller, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, nil
	}
	if known, ok := r.Context().Value(identityKey{}).(*identity); ok {
		return known.caller, known.err
	}
	var refused error
	for _, c := range a.certificates {
		resp, ok, err := c.AuthenticateRequest(scratch(r))
		switch {
		case err != nil:
			refused = fmt.Errorf("%w: %w", errCertificate, err)
		case ok && unnameable(resp.User):
			refused = fmt.Errorf("%w: it is of %s", errCertificate, user.Anonymous)
		case ok:
			return &caller{user: resp.User, certified: true}, nil
		}
	}
	return nil, refused
}

// unnameable reports whether an identity cannot be passed on: upstream, whoever comes in the name of system:anonymous is put into
// system:unauthenticated, which may allow what this one may not do.
func unnameable(who user.Info) bool {
	return who.GetName() == user.Anonymous && !slices.Contains(who.GetGroups(), user.AllUnauthenticated)
}

// identityKey is where a request's context has the *identity of its certificate.
type identityKey struct{}

// identity is what certified has returned. It is of one request, and of one moment.
type identity struct {
	caller *caller
	err    error
}

// identified returns the request with the identity of its certificate, which takes time to find, so that it is found once.
func (a *authentication) identified(r *http.Request) *http.Request {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return r
	}
	c, err := a.certified(r)
	return r.WithContext(context.WithValue(r.Context(), identityKey{}, &identity{c, err}))
}

// caller returns who makes the request. The caller is nil unless the verdict is yes or graced; no says that nobody vouches for them.
func (a *authentication) caller(r *http.Request, t terms) (*caller, verdict) {
	if c, _ := a.certified(r); c != nil {
		return c, yes
	}
	id := tokenID(r)
	if id == ([sha256.Size]byte{}) {
		return nil, no
	}
	if last, ok := a.lastAnswer(id, a.fresh); ok && !t.anew {
		return &caller{user: last}, yes
	}
	last, known := a.lastAnswer(id, t.grace)
	if known && a.outage.on() {
		return &caller{user: last}, graced
	}
	who, v := a.review(r, id, t)
	if v == unreached && known {
		return &caller{user: last}, graced
	}
	return who, v
}

// review asks the upstream whose token it is.
func (a *authentication) review(r *http.Request, id [sha256.Size]byte, t terms) (*caller, verdict) {
	if _, met := a.known.Get(id); !met && !t.anew {
		if !a.strangers.enter(r.Context()) {
			return nil, crowded
		}
		defer a.strangers.leave()
	}
	tokens := a.tokens
	if t.anew {
		tokens = a.tokensAnew
	}
	begun := a.outage.begin()
	resp, ok, err := tokens.AuthenticateRequest(scratch(r))
	v := no
	switch {
	case err != nil:
		v = begun.failed(r.Context(), err)
	case ok:
		a.known.Add(id, remembered{resp.User, time.Now()})
		return &caller{user: resp.User}, yes
	}
	if v == no {
		a.known.Remove(id)
	}
	return nil, v
}

// lastAnswer is whom a token was last said to be of, if that was not longer ago.
func (a *authentication) lastAnswer(id [sha256.Size]byte, within time.Duration) (user.Info, bool) {
	last, ok := a.known.Get(id)
	if !ok || time.Since(last.(remembered).at) >= within {
		return nil, false
	}
	return last.(remembered).user, true
}

// unauthorized reports whether the request shows who it is of, but in no way that could be believed or passed on: kube-apiserver answers it
// 401, and not as one of nobody.
func (a *authentication) unauthorized(r *http.Request) bool {
	_, err := a.certified(r)
	return err != nil && tokenID(r) == [sha256.Size]byte{}
}

// scratch is a request whose headers an authenticator may change, as they do.
func scratch(r *http.Request) *http.Request {
	c := r.WithContext(r.Context())
	c.Header = r.Header.Clone()
	return c
}

const webSocketToken = "base64url.bearer.authorization.k8s.io."

// tokenID stands for the token of a request. It is zero for one that has none in any of the two places where kube-apiserver looks for it: an
// Authorization header that says bearer, or, in a request for a web socket, one of its protocols.
func tokenID(r *http.Request) (id [sha256.Size]byte) {
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
	return sha256.Sum256([]byte(auth + "\n" + protocols)) // no header has a line's end
}
