package review

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/weirproject/weir/internal/testing/check"
)

// upstream answers reviews. The token "token-x" is x's, and allows decides what callers may do.
type upstream struct {
	mu     sync.Mutex
	asked  int
	allows func(authorizationv1.SubjectAccessReviewSpec) bool
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asked++
	w.Header().Set("Content-Type", "application/json")
	switch {
	case strings.HasSuffix(r.URL.Path, "/tokenreviews"):
		var review authenticationv1.TokenReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		name, ok := strings.CutPrefix(review.Spec.Token, "token-")
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: ok, User: authenticationv1.UserInfo{Username: name}}
		_ = json.NewEncoder(w).Encode(review)
	case strings.HasSuffix(r.URL.Path, "/subjectaccessreviews"):
		var review authorizationv1.SubjectAccessReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		review.Status.Allowed = u.allows(review.Spec)
		_ = json.NewEncoder(w).Encode(review)
	default:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusNotFound)
	}
}

func (u *upstream) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.asked
}

// startReviews starts an upstream. It returns the upstream, and an Authenticator and an Authorizer
// that ask it.
func startReviews(t *testing.T) (*upstream, *Config, *Authenticator, *Authorizer) {
	t.Helper()
	u := &upstream{allows: func(s authorizationv1.SubjectAccessReviewSpec) bool { return s.User == "jane" }}
	server := httptest.NewServer(u)
	t.Cleanup(server.Close)
	br := &Breaker{Probe: func(context.Context, time.Time) bool { return false }}
	config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	config.Wrap(br.Wrap)
	client, err := kubernetes.NewForConfig(config)
	check.NoError(t, err)
	c := &Config{
		Client: client, Timeout: time.Minute, Lookup: time.Minute, Breaker: br, Seats: newReviewSeats(time.Minute), Log: slog.New(slog.DiscardHandler),
		Trust: Trust{TokenTTL: time.Hour, AllowTTL: time.Hour, DenyTTL: time.Hour},
	}
	authn, err := NewAuthenticator(t.Context(), c)
	check.NoError(t, err)
	authz, err := NewAuthorizer(c)
	check.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { authn.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return u, c, authn, authz
}

func withToken(token string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

// TestReviews checks that the user of a token and the permissions of callers come from the
// upstream. The upstream must be asked only once about each.
func TestReviews(t *testing.T) {
	u, _, authn, authz := startReviews(t)
	before := u.count()
	for range 2 {
		if who, d := authn.Authenticate(withToken("token-jane"), Options{}); d != Allow || who.GetName() != "jane" {
			t.Errorf("%v, %d", who, d)
		}
	}
	if who, d := authn.Authenticate(withToken("made-up"), Options{}); d != Deny || who != nil {
		t.Errorf("a token that the upstream does not know: %v, %d", who, d)
	}
	jane, ok := authn.Known(TokenID(withToken("token-jane")))
	if _, other := authn.Known(TokenID(withToken("made-up"))); !ok || other || jane.GetName() != "jane" {
		t.Errorf("known: %v", jane)
	}
	list := question("list", "pods", "")
	part := question("list", "pods", "")
	part.Fields, part.FieldText = fields.ParseSelectorOrDie("spec.nodeName=a"), "spec.nodeName=a"
	joe := &user.DefaultInfo{Name: "joe"}
	for range 2 {
		if d := authz.Allows(t.Context(), jane, list, Options{}); d != Allow {
			t.Errorf("jane: %d", d)
		}
		if d := authz.Allows(t.Context(), joe, part, Options{}); d != Deny {
			t.Errorf("joe: %d", d)
		}
	}
	check.Equal(t, u.count()-before, 5, "reviews")
	if by, narrow := authz.PermissionOf(jane, part); by.FieldText != "" || narrow != part {
		t.Errorf("jane watches by %+v", by)
	}
	if by, narrow := authz.PermissionOf(joe, part); by != part || narrow != nil {
		t.Errorf("joe watches by %+v", by)
	}
	path := question("get", "", "")
	path.OfResource, path.URLPath = false, "/metrics"
	if d := authz.Allows(t.Context(), jane, path, Options{}); d != Allow {
		t.Errorf("a path: %d", d)
	}
}

// TestOwner checks that LearnOwner reviews a token once, and again after the upstream has rejected
// the token.
func TestOwner(t *testing.T) {
	u, _, authn, _ := startReviews(t)
	r := withToken("token-jane")
	id, before := TokenID(r), u.count()
	learn := func() { authn.LearnOwner(t.Context(), r, id, func(f func()) { f() }) }
	learn()
	learn()
	if who, ok := authn.Known(id); !ok || who.GetName() != "jane" || u.count() != before+1 {
		t.Errorf("%v, %d reviews", who, u.count()-before)
	}
	authn.ForgetOwner(id)
	if _, ok := authn.Known(id); ok {
		t.Error("known after the upstream has rejected it")
	}
	if learn(); u.count() != before+2 {
		t.Errorf("%d reviews", u.count()-before)
	}
	unknown := TokenID(withToken("made-up"))
	for range 2 {
		authn.LearnOwner(t.Context(), withToken("made-up"), unknown, func(f func()) { f() })
	}
	if u.count() != before+3 {
		t.Errorf("%d reviews of a token that is no user's", u.count()-before-2)
	}
}

// TestAsksUpstream checks that a recheck asks the upstream even if an answer is cached.
func TestAsksUpstream(t *testing.T) {
	u, _, authn, authz := startReviews(t)
	c := NewRechecker(time.Minute, time.Hour, time.Hour, authn, authz)
	defer c.Close()
	r := withToken("token-jane")
	jane, list := &user.DefaultInfo{Name: "jane"}, question("list", "pods", "")
	g := c.Watch(r, jane, list, nil, true, func() { t.Error("it ends") })
	defer g.Leave()
	for _, q := range g.reviews {
		for range 2 {
			before := u.count()
			if who, d := c.askUpstream(t.Context(), q, jane); d != Allow || who.GetName() != "jane" || u.count() != before+1 {
				t.Errorf("%v, %d, %d reviews", who, d, u.count()-before)
			}
		}
	}
	all := map[string]float64{}
	note := func(name, _ string, value float64, labels ...string) {
		all[strings.Join(append(labels, name), " ")] = value
	}
	if c.Metrics(note, note); len(all) != 5 || all["weir_proxy_recheck_reviews"] != 2 || len(g.reviews) != 2 {
		t.Errorf("%v of %d reviews", all, len(g.reviews))
	}
	if _, d := c.askUpstream(t.Context(), &recheckedReview{action: list, credential: credential{r: &http.Request{}}}, jane); d != Deny {
		t.Errorf("a certificate that is not trusted any more: %d", d)
	}
}

// TestMissingCAs checks that the proxy is not ready for lookupTimeout if the upstream publishes no
// CAs. It also checks that a CA file that does not exist causes ErrFile.
func TestMissingCAs(t *testing.T) {
	_, c, authn, _ := startReviews(t)
	if !authn.MissesCAs() || authn.Ready(time.Now()) || !authn.Ready(time.Now().Add(lookupTimeout)) || authn.NamesCallerUpstream("X-Remote-User") {
		t.Error("the CAs are there")
	}
	c.Trust.ClientCAFile = filepath.Join(t.TempDir(), "none")
	_, err := NewAuthenticator(t.Context(), c)
	if !errors.Is(err, ErrFile) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// TestImpersonation checks that a caller needs a permission for each part of the identity that it
// impersonates.
func TestImpersonation(t *testing.T) {
	u, _, _, authz := startReviews(t)
	var asked []string
	u.allows = func(s authorizationv1.SubjectAccessReviewSpec) bool {
		a := s.ResourceAttributes
		asked = append(asked, strings.Join([]string{a.Verb, a.Group, a.Resource, a.Subresource, a.Namespace, a.Name}, "/"))
		return a.Name != "system:masters"
	}
	carol := &user.DefaultInfo{Name: "carol"}
	h := http.Header{"Impersonate-User": {"system:serviceaccount:a:b"}, "Impersonate-Uid": {"1"}, "Impersonate-Group": {"g"}, "Impersonate-Extra-Scope": {"s"}}
	to, err := ReadImpersonation(h)
	if err != nil || !HasImpersonation(h) || CheckImpersonation(h) != nil {
		t.Fatal(err)
	}
	check.NoError(t, authz.AllowImpersonation(t.Context(), carol, to))
	slices.Sort(asked)
	want := []string{"impersonate//groups///g", "impersonate//serviceaccounts//a/b", "impersonate/authentication.k8s.io/uids///1", "impersonate/authentication.k8s.io/userextras/scope//s"}
	if !slices.Equal(asked, want) {
		t.Errorf("%q", asked)
	}
	err = authz.AllowImpersonation(t.Context(), carol, &transport.ImpersonationConfig{UserName: "joe", Groups: []string{"system:masters"}})
	if !apierrors.IsForbidden(err) {
		t.Errorf("masters: %v", err)
	}
	node := &transport.ImpersonationConfig{UserName: "system:node:a"}
	if err := authz.AllowImpersonation(t.Context(), carol, node); err != nil || !slices.Equal(node.Groups, []string{user.AllAuthenticated}) {
		t.Errorf("%v: %q", err, node.Groups)
	}
	for name, bad := range map[string]http.Header{
		"no user": {"Impersonate-Group": {"g"}}, "an extra in upper case": {"Impersonate-User": {"joe"}, "Impersonate-Extra-%53cope": {"s"}},
	} {
		if _, err := ReadImpersonation(bad); !apierrors.IsBadRequest(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if to, err := ReadImpersonation(http.Header{"Impersonate-User": {""}}); to != nil || err != nil {
		t.Errorf("the empty name: %+v, %v", to, err)
	}
	if err := CheckImpersonation(http.Header{"Impersonate-User": {"joe "}}); !apierrors.IsBadRequest(err) {
		t.Errorf("a name that a header changes: %v", err)
	}
	if DropImpersonation(h); HasImpersonation(h) || len(h) != 0 {
		t.Errorf("left: %v", h)
	}
}

// TestGroupsUpstream checks that a caller has the same groups at the upstream as at the proxy.
// kube-apiserver adds system:authenticated to an impersonated user, unless the user is in
// system:unauthenticated.
func TestGroupsUpstream(t *testing.T) {
	for _, c := range []struct {
		name      string
		has, sent []string
	}{
		{"carl", []string{"staff", user.AllAuthenticated}, []string{"staff"}},
		{"carl", []string{user.AllAuthenticated}, []string{}},
		{"carl", []string{user.AllUnauthenticated, user.AllAuthenticated}, []string{user.AllUnauthenticated, user.AllAuthenticated}},
		{"system:node:a", []string{user.AllAuthenticated}, []string{user.AllAuthenticated}},
	} {
		if to := ImpersonationOf(&user.DefaultInfo{Name: c.name, Groups: c.has}); !slices.Equal(to.Groups, c.sent) {
			t.Errorf("%q of %s go upstream as %q, not %q", c.has, c.name, to.Groups, c.sent)
		}
	}
}

// TestErrors checks that callers without a decision get kube-apiserver's errors.
func TestErrors(t *testing.T) {
	for d, want := range map[Decision]int32{Unreachable: 503, Unanswered: 503, Overloaded: 429} {
		status, ok := errors.AsType[*apierrors.StatusError](d.Err())
		if !ok || status.ErrStatus.Code != want || status.ErrStatus.Details.RetryAfterSeconds != 1 {
			t.Errorf("%d: %v", d, d.Err())
		}
	}
	for _, d := range []Decision{Allow, Grace, Deny} {
		if d.Err() != nil {
			t.Errorf("%d: %v", d, d.Err())
		}
	}
	if !apierrors.IsUnauthorized(Unauthorized()) {
		t.Error(Unauthorized())
	}
	q := question("get", "pods", "a")
	q.Subresource, q.Namespace = "log", "b"
	jane := &user.DefaultInfo{Name: "jane"}
	if err := Forbidden(Attributes(q, jane)); !strings.Contains(err.Error(), `User "jane" cannot get resource "pods/log" in API group "" in the namespace "b"`) {
		t.Error(err)
	}
	q.OfResource, q.URLPath = false, "/metrics"
	if err := Forbidden(Attributes(q, jane)); !strings.Contains(err.Error(), `User "jane" cannot get path "/metrics"`) {
		t.Error(err)
	}
}

// TestTokenID checks that a token in a header and a token in a WebSocket protocol have ids.
func TestTokenID(t *testing.T) {
	socket := httptest.NewRequest(http.MethodGet, "/", nil)
	for name, value := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Protocol": webSocketToken + "dG9rZW4"} {
		socket.Header.Set(name, value)
	}
	ids := map[[sha256.Size]byte]bool{}
	for _, r := range []*http.Request{withToken("a"), withToken("b"), socket, httptest.NewRequest(http.MethodGet, "/", nil)} {
		ids[TokenID(r)] = true
	}
	if len(ids) != 4 || !ids[[sha256.Size]byte{}] {
		t.Errorf("%d ids", len(ids))
	}
}

// TestExtraInUpperCase checks that an extra to impersonate is refused if the upstream would receive
// its key changed.
func TestExtraInUpperCase(t *testing.T) {
	h := http.Header{"Impersonate-User": {"jane"}, "Impersonate-Extra-%41": {"x"}}
	if to, err := ReadImpersonation(h); !apierrors.IsBadRequest(err) {
		t.Errorf("%+v, %v", to, err)
	}
}

// TestBreakerUnwraps checks that Kubernetes' libraries find the transport below the breaker's, to
// close its idle connections.
func TestBreakerUnwraps(t *testing.T) {
	inner := &http.Transport{}
	outer, ok := (&Breaker{}).Wrap(inner).(utilnet.RoundTripperWrapper)
	if !ok || outer.WrappedRoundTripper() != http.RoundTripper(inner) {
		t.Errorf("%+v", outer)
	}
}
