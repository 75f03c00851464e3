package proxyfuzz

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// caller is a client with credentials. Some callers' credentials are invalid.
type caller struct {
	name string
	cert *tls.Certificate // nil: no certificate
	// token is the bearer token. If it is empty, the caller sends none.
	token string
	// front makes the caller send the X-Remote headers of a front proxy, with or without a front
	// proxy's certificate.
	front bool
	// good says that kube-apiserver accepts the credentials. Most requests are from good callers,
	// because other callers can read little.
	good bool
	// admin says that the caller may do everything. Its answers contain objects in every round.
	admin bool
}

// pickCaller returns a random caller. Three quarters of the calls consider only good callers.
func pickCaller(d dice, all []caller) caller {
	if good := slices.DeleteFunc(slices.Clone(all), func(c caller) bool { return !c.good }); d.percent(75) {
		return pick(d, good...)
	}
	return pick(d, all...)
}

// people and groups are the users and groups that occur in permissions, in the headers of front
// proxies, and in impersonation.
var (
	people    = []string{"ann", "bob", "eve", "carl", "dora", "system:anonymous", "system:serviceaccount:mine:robot", "system:serviceaccount:yours:robot"}
	groups    = []string{"staff", "guests", "system:authenticated", "system:unauthenticated", "system:serviceaccounts", "system:serviceaccounts:mine"}
	constrain = "constrained" // user who may always use constrained impersonation
)

// newCallers returns all callers, with valid or with invalid credentials.
func newCallers(t *testing.T, ctx context.Context, w *world, ca, fronts, foreign *testenv.Authority, tokens *minter) []caller {
	t.Helper()
	var out []caller
	for _, name := range []string{"ann", "bob", "eve", "weir-admin"} {
		cfg := w.cluster.Config()
		if name != "weir-admin" {
			var err error
			if cfg, err = w.cluster.ConfigFor(name); err != nil {
				t.Fatal(err)
			}
		}
		out = append(out, caller{name: "the token of " + name, token: cfg.BearerToken, good: true, admin: name == "weir-admin"})
	}
	annToken := out[0].token
	var robots []*corev1.ServiceAccount
	for _, ns := range []string{"mine", "yours"} {
		robot, err := w.client.CoreV1().ServiceAccounts(ns).Get(ctx, "robot", metav1.GetOptions{})
		check.NoError(t, err)
		robots = append(robots, robot)
		out = append(out, caller{name: "the ServiceAccount " + ns + "/robot", token: tokens.mint(t, robot, nil), good: true})
	}
	past := time.Now().Add(-time.Hour).Unix()
	stranger := robots[0].DeepCopy()
	stranger.Name = "stranger"
	renewed := robots[0].DeepCopy()
	renewed.UID = "b7e6d6c0-0000-4000-8000-000000000000"
	for name, token := range map[string]string{
		"an expired token of mine/robot":             tokens.mint(t, robots[0], map[string]any{"exp": past}),
		"a token of mine/robot for later":            tokens.mint(t, robots[0], map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}),
		"a token of mine/robot for another audience": tokens.mint(t, robots[0], map[string]any{"aud": []string{"another"}}),
		"a token of another issuer":                  tokens.mint(t, robots[0], map[string]any{"iss": "https://nowhere"}),
		"a token of a ServiceAccount that is not":    tokens.mint(t, stranger, nil),
		"a token of a ServiceAccount that was":       tokens.mint(t, renewed, nil),
		"a token that is cut off":                    tokens.mint(t, robots[0], nil)[:100],
		"junk":                                       "junk",
		"a token with a comma":                       annToken + ",x",
	} {
		out = append(out, caller{name: name, token: token})
	}
	const admin = "system:masters"
	for name, cert := range map[string]*tls.Certificate{
		"the certificate of carl":                      ca.Issue(t, "carl", "staff"),
		"the certificate of dora":                      ca.Issue(t, "dora"),
		"the certificate of ann":                       ca.Issue(t, "ann", "guests"),
		"the certificate of an admin":                  ca.Issue(t, "root", admin),
		"the certificate of who may impersonate a bit": ca.Issue(t, constrain),
		"an expired certificate of an admin":           ca.IssueWith(t, expired, "root", admin),
		"a certificate of an admin for later":          ca.IssueWith(t, early, "root", admin),
		"a certificate of an admin for servers":        ca.IssueWith(t, forServers, "root", admin),
		"an admin's certificate of another authority":  foreign.Issue(t, "root", admin),
		"a certificate without a name":                 ca.Issue(t, ""),
	} {
		out = append(out, caller{name: name, cert: cert, good: strings.HasPrefix(name, "the certificate"), admin: name == "the certificate of an admin"}, caller{name: name + " and the token of ann", cert: cert, token: annToken},
			caller{name: name + " and junk", cert: cert, token: "junk"})
	}
	for name, cert := range map[string]*tls.Certificate{
		"a front proxy":                           fronts.Issue(t, "front"),
		"a front proxy of another name":           fronts.Issue(t, "back"),
		"an expired front proxy":                  fronts.IssueWith(t, expired, "front"),
		"a front proxy of another authority":      foreign.Issue(t, "front"),
		"a front proxy of the callers' authority": ca.Issue(t, "front"),
	} {
		out = append(out, caller{name: name, cert: cert, front: true, good: name == "a front proxy"}, caller{name: name + " and the token of bob", cert: cert, token: out[1].token, front: true})
	}
	return append(sorted(out), caller{name: "no credentials", good: true}, caller{name: "no credentials, pretends to be a front proxy", front: true})
}

// sorted sorts the callers by name. The order must be the same in every run, because a seed selects
// callers by their index.
func sorted(all []caller) []caller {
	slices.SortStableFunc(all, func(a, b caller) int { return strings.Compare(a.name, b.name) })
	return all
}

// credentials writes the caller's credentials into the headers of a request, sometimes in an
// unusual or invalid form.
func (c *caller) credentials(d dice, h http.Header) {
	if c.token != "" {
		c.bearer(d, h)
	} else if d.percent(3) {
		h.Set("Authorization", pick(d, "Bearer", "Bearer ", "Basic YTpi", "bearer  ", "Negotiate x"))
	}
	if c.front || d.percent(2) {
		c.remote(d, h)
	}
}

func (c *caller) bearer(d dice, h http.Header) {
	switch n := d.IntN(100); {
	case n < 85:
		h.Set("Authorization", "Bearer "+c.token)
	case n < 90:
		h.Set("Authorization", pick(d, "bearer ", "BEARER ", "Bearer  ", "Token ", "Bearer\t", "bEaReR ")+c.token)
	case n < 94:
		h["Authorization"] = []string{"Bearer " + c.token, "Bearer junk"}
	case n < 97:
		h["Authorization"] = []string{"Bearer junk", "Bearer " + c.token}
	default:
		h.Set("Connection", "Upgrade")
		h.Set("Upgrade", "websocket")
		h.Set("Sec-WebSocket-Version", "13")
		h.Set("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
		token := base64.RawURLEncoding.EncodeToString([]byte(c.token))
		h.Set("Sec-WebSocket-Protocol", "base64url.bearer.authorization.k8s.io."+token+", base64.binary.k8s.io")
	}
}

// named returns the users that a front proxy may name: people without system:anonymous. If a front
// proxy names a user, the proxy forwards the request by impersonation. For an impersonated
// system:anonymous, kube-apiserver adds the group system:unauthenticated. It does not add this
// group if a front proxy names system:anonymous.
func named() []string {
	return slices.DeleteFunc(slices.Clone(people), func(name string) bool { return name == "system:anonymous" })
}

// remote writes random headers of a front proxy.
func (c *caller) remote(d dice, h http.Header) {
	if d.percent(95) {
		h.Set("X-Remote-User", pick(d, append(named(), "", "root")...))
	}
	for range d.IntN(3) {
		h.Add("X-Remote-Group", pick(d, append(groups, "", "system:masters")...))
	}
	if d.percent(10) {
		h.Set("X-Remote-Uid", "7")
	}
	if d.percent(20) {
		h.Add("X-Remote-Extra-"+pick(d, "scopes", "Acme.com%2Fproject", "odd%zz"), pick(d, "view", "é", ""))
	}
}

// impersonation writes random headers to impersonate another user.
func impersonation(d dice, h http.Header) {
	if d.percent(92) {
		h.Set("Impersonate-User", pick(d, append(people, "", "root", "system:node:node-0", "system:serviceaccount:x", "system:serviceaccount:mine:robot:x", "é")...))
	}
	for range d.IntN(3) {
		h.Add("Impersonate-Group", pick(d, append(groups, "", "system:masters")...))
	}
	if d.percent(8) {
		h.Set("Impersonate-Uid", pick(d, "7", "8"))
	}
	for range d.IntN(5) / 3 {
		h.Add("Impersonate-Extra-"+pick(d, "scopes", "Scopes", "acme.com%2Fproject", "odd%zz", ""), pick(d, "view", "edit", ""))
	}
	if d.percent(3) {
		h.Set(pick(d, "Impersonate-Nonsense", "Impersonate-", "impersonate-user"), "x")
	}
}

// minter signs tokens of ServiceAccounts with a key that kube-apiserver trusts. It can sign tokens
// that kube-apiserver would not issue.
type minter struct {
	key    *ecdsa.PrivateKey
	issuer string
}

// newMinter creates a minter, and writes its public key to file, from which kube-apiserver reads
// the key.
func newMinter(t *testing.T, file string) *minter {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.NoError(t, err)
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	check.NoError(t, err)
	check.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600))
	return &minter{key: key}
}

// mint returns a token of a ServiceAccount that is valid for an hour. The map other contains claims
// that replace the usual ones.
func (m *minter) mint(t *testing.T, of *corev1.ServiceAccount, other map[string]any) string {
	t.Helper()
	now := time.Now()
	claims := map[string]any{
		"iss": m.issuer, "aud": []string{m.issuer}, "sub": "system:serviceaccount:" + of.Namespace + ":" + of.Name,
		"iat": now.Add(-2 * time.Hour).Unix(), "nbf": now.Add(-2 * time.Hour).Unix(), "exp": now.Add(time.Hour).Unix(),
		"kubernetes.io": map[string]any{
			"namespace": of.Namespace, "serviceaccount": map[string]any{"name": of.Name, "uid": of.UID},
		},
	}
	maps.Copy(claims, other)
	body, err := json.Marshal(claims)
	check.NoError(t, err)
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256","typ":"JWT"}`)) + "." + base64.RawURLEncoding.EncodeToString(body)
	digest := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, m.key, digest[:])
	check.NoError(t, err)
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// expired makes a certificate expire an hour ago.
func expired(c *x509.Certificate) {
	c.NotBefore, c.NotAfter = time.Now().Add(-24*time.Hour), time.Now().Add(-time.Hour)
}

// early makes a certificate become valid in an hour.
func early(c *x509.Certificate) {
	c.NotBefore, c.NotAfter = time.Now().Add(time.Hour), time.Now().Add(24*time.Hour)
}

// forServers makes a certificate invalid for clients.
func forServers(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }
