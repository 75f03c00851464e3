package proxy

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/proxy/internal/review"
)

// TestIdentities checks that the proxy forwards a token unchanged, and the identity of a
// certificate by impersonation. It does not forward identity headers that the caller sent.
func TestIdentities(t *testing.T) {
	u, tp := start(t, apiserver.Options{}, Options{})
	last := func() asked {
		t.Helper()
		passed := u.forwarded("/version")
		if len(passed) != 1 {
			t.Fatalf("%d requests upstream", len(passed))
		}
		return passed[0]
	}
	tp.get("jane", "/version", "X-Remote-User", "root", "X-Remote-Group", "system:masters", "Impersonate-User", "joe", "X-Custom", "kept")
	h := last().header
	if h.Get("Authorization") != "Bearer token-jane" || h.Get("X-Remote-User") != "" || h.Get("X-Remote-Group") != "" ||
		h.Get("Impersonate-User") != "joe" || h.Get("X-Custom") != "kept" || h.Get("X-Forwarded-For") != "127.0.0.1" {
		t.Errorf("a token: %v", h)
	}

	certified := tp.http1(tp.authCA.Issue(t, "carol", "staff"))
	tp.open(certified, http.MethodGet, "/version", "Authorization", "Bearer token-jane", "X-Remote-User", "root",
		"Connection", "Impersonate-User, Impersonate-Group")
	h = last().header
	if h.Get("Authorization") != "Bearer "+ownToken || h.Get("Impersonate-User") != "carol" ||
		!slices.Equal(h.Values("Impersonate-Group"), []string{"staff"}) || h.Get("X-Remote-User") != "" {
		t.Errorf("a certificate: %v", h)
	}

	anonymous := tp.clientWith(tp.authCA.Issue(t, "system:anonymous", "system:unauthenticated", "staff"))
	tp.open(anonymous, http.MethodGet, "/version")
	h = last().header
	if h.Get("Impersonate-User") != "system:anonymous" || !slices.Equal(h.Values("Impersonate-Group"), []string{"staff", "system:unauthenticated"}) {
		t.Errorf("the certificate of system:anonymous: %v", h)
	}

	foreign := tp.clientWith(newAuthority(t).Issue(t, "carol", "system:masters"))
	tp.open(foreign, http.MethodGet, "/version", "Authorization", "Bearer token-jane")
	if h = last().header; h.Get("Authorization") != "Bearer token-jane" || review.HasImpersonation(h) {
		t.Errorf("a certificate of an unknown CA: %v", h)
	}
	tp.open(tp.client, http.MethodGet, "/version")
	if h = last().header; h.Get("Authorization") != "" || review.HasImpersonation(h) {
		t.Errorf("without credentials: %v", h)
	}
}

// TestTraceContext checks that the proxy forwards the headers of W3C Trace Context unchanged, for
// each sort of credentials and of request. The proxy's own requests, such as the review of the
// caller that a request causes, have none of these headers.
func TestTraceContext(t *testing.T) {
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}, TrustCache: []string{"pods"}})
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	states := []string{"rojo=00f067aa0ba902b7", "congo=t61rcWkgMzE"}
	trace := []string{"Traceparent", parent, "Tracestate", states[0], "Tracestate", states[1]}
	clients := map[string]*http.Client{"Bearer token-jane": tp.client, "": tp.http1(tp.authCA.Issue(t, "carol", "staff"))}
	for token, client := range clients {
		for method, path := range map[string]string{
			http.MethodGet:    "/api/v1/nodes?watch=1&timeoutSeconds=1",
			http.MethodDelete: "/api/v1/namespaces/mine/configmaps/missing",
		} {
			caller := []string{"Connection", "traceparent"} // HTTP/2 has no such header
			if token != "" {
				caller = []string{"Authorization", token}
			}
			tp.open(client, method, path, append(caller, trace...)...)
			sent := u.forwarded("/api/v1/")
			if len(sent) != 1 || sent[0].header.Get("Traceparent") != parent || !slices.Equal(sent[0].header.Values("Tracestate"), states) {
				t.Errorf("%s %s with %q: forwarded as %+v", method, path, token, sent)
			}
		}
	}

	tp.want(http.StatusOK, "new", "/api/v1/pods?resourceVersion=0", trace...)
	own := 0
	u.set(func() {
		for _, q := range u.requests {
			if own++; !ofProxy(q.header) || q.header.Get("Traceparent") != "" || len(q.header.Values("Tracestate")) > 0 {
				t.Errorf("a read from the cache caused %+v", q)
			}
		}
	})
	if own == 0 {
		t.Error("the caller was not reviewed")
	}
}

// TestCertificateRefused checks that a client with only an invalid certificate is not anonymous,
// and gets kube-apiserver's 401. A client whose valid certificate has an identity that forwarding
// would change also gets 401, even with a token, because kube-apiserver would prefer the
// certificate.
func TestCertificateRefused(t *testing.T) {
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}, TrustCache: []string{"pods"}})
	page := tp.continueToken()
	// The upstream would reject this continue token, because the proxy issued it.
	ours := "/api/v1/pods?limit=1&continue=" + page
	expired := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
	for name, tt := range map[string]struct {
		cert  *tls.Certificate
		token int // the code of the answer if the client also sends a token
	}{
		"expired": {tp.authCA.IssueWith(t, expired, "carol", "staff"), http.StatusOK},
		"foreign": {newAuthority(t).Issue(t, "carol", "system:masters"), http.StatusOK},
		// The upstream would add a group to this identity.
		"anonymous": {tp.authCA.Issue(t, "system:anonymous", "staff"), http.StatusUnauthorized},
		// A header would change these values, because it trims whitespace.
		"a group with whitespace": {tp.authCA.Issue(t, "carol", "system:masters "), http.StatusUnauthorized},
		"whitespace for a name":   {tp.authCA.Issue(t, " "), http.StatusUnauthorized},
		"a name of two lines":     {tp.authCA.Issue(t, "carol\nsmith"), http.StatusUnauthorized},
	} {
		for _, client := range []*http.Client{tp.clientWith(tt.cert), tp.http1(tt.cert)} {
			for _, path := range []string{"/api/v1/pods?resourceVersion=0", "/api/v1/nodes", "/version", "/metrics", ours} {
				resp := tp.open(client, http.MethodGet, path)
				var status metav1.Status
				if err := json.NewDecoder(resp.Body).Decode(&status); err != nil || resp.StatusCode != http.StatusUnauthorized || status.Reason != metav1.StatusReasonUnauthorized {
					t.Errorf("%s: %s: %s, %+v, %v", name, path, resp.Status, status, err)
				}
				// None of these values is a token.
				for _, other := range []string{"Basic amFuZTpzZWNyZXQ=", "Bearer ", "bearer", "Bearer  token-jane"} {
					tp.opens(http.StatusUnauthorized, client, http.MethodGet, path, "Authorization", other)
				}
				tp.opens(http.StatusUnauthorized, client, http.MethodGet, path, "Sec-WebSocket-Protocol", "base64url.bearer.authorization.k8s.io."+"dG9rZW4tamFuZQ")
				tp.opens(tt.token, client, http.MethodGet, path, "Authorization", "Bearer token-jane")
			}
		}
	}
	for _, q := range u.forwarded("/") {
		if q.header.Get("Authorization") != "Bearer token-jane" {
			t.Errorf("%s went upstream as %v", q.uri, q.header)
		}
	}
}

// TestImpersonation checks that the proxy reviews an impersonation by a caller with a certificate,
// with a review for each part of the impersonated identity.
func TestImpersonation(t *testing.T) {
	u, tp := startReady(t, apiserver.Options{}, Options{Resources: []string{"pods"}})
	client := tp.clientWith(tp.authCA.Issue(t, "carol"))
	whole := []string{"Impersonate-User", "system:serviceaccount:ns:sa", "Impersonate-Group", "g", "Impersonate-Uid", "u", "Impersonate-Extra-Acme.com%2fscope", "s"}
	resp := tp.open(client, http.MethodGet, "/api/v1/pods?resourceVersion=0", whole...)
	passed := u.forwarded("/api/v1/pods")
	if resp.StatusCode != http.StatusOK || len(passed) != 1 {
		t.Fatalf("%s, %d upstream", resp.Status, len(passed))
	}
	h := passed[0].header
	if h.Get("Impersonate-User") != "system:serviceaccount:ns:sa" || h.Get("Impersonate-Group") != "g" || h.Get("Impersonate-Uid") != "u" ||
		h.Get("Impersonate-Extra-Acme.com%2fscope") != "s" || h.Get("Authorization") != "Bearer "+ownToken {
		t.Errorf("%v", h)
	}
	for _, what := range []string{"serviceaccounts", "groups", "uids", "userextras"} {
		u.deny(func(s authorizationv1.SubjectAccessReviewSpec) bool {
			return s.User == "carol" && s.ResourceAttributes.Verb == "impersonate" && s.ResourceAttributes.Resource == what
		})
		tp.opens(http.StatusForbidden, client, http.MethodGet, "/api/v1/pods?resourceVersion=0", whole...)
	}
	tp.opens(http.StatusBadRequest, client, http.MethodGet, "/version", "Impersonate-Group", "g")
	if len(u.forwarded("/api/v1/pods")) != 0 {
		t.Error("a denied impersonation went upstream")
	}
}

// TestUpgrade checks that an upgraded connection carries bytes in both directions, even if the
// request is recorded in the audit log.
func TestUpgrade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	u, tp := start(t, apiserver.Options{}, Options{Audit: Audit{PolicyFile: writePolicy(t, auditPolicy), LogPath: path}})
	echo := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "echo/1" || r.Header.Get("Impersonate-User") != "carol" {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo/1\r\n\r\n")
		line, _ := rw.ReadString('\n')
		fmt.Fprint(conn, "echo "+line)
	}))
	defer echo.Close()
	// Send the proxy's forwarded requests to the echo server.
	cfg := rest.CopyConfig(u.config)
	cfg.Host, cfg.TLSClientConfig = echo.URL, rest.TLSClientConfig{Insecure: true}
	up, err := newUpstream(cfg, &tp.server.opts)
	check.NoError(t, err)
	was := tp.server.upstream
	was.close()
	up.refuse, up.onAccepted, up.onMissed, up.onDenied, up.isFrontProxyHeader = was.refuse, was.onAccepted, was.onMissed, was.onDenied, was.isFrontProxyHeader
	tp.server.upstream = up
	carol := tp.http1(tp.authCA.Issue(t, "carol"))
	for _, headers := range [][]string{nil, {"Impersonate-User", "carol", "Audit-ID", "exec"}} {
		resp := tp.open(carol, http.MethodPost, "/api/v1/namespaces/n/pods/p/exec", append(headers, "Connection", "Upgrade", "Upgrade", "echo/1")...)
		if resp.StatusCode != http.StatusSwitchingProtocols {
			t.Fatal(resp.Status)
		}
		both := resp.Body.(io.ReadWriteCloser)
		fmt.Fprint(both, "hello\n")
		if line, err := bufio.NewReader(both).ReadString('\n'); line != "echo hello\n" {
			t.Errorf("%q, %v", line, err)
		}
		both.Close()
	}
	tp.until("the end is recorded", func() bool { return len(stages(auditOf(t, path), "exec")) == 3 })
	for _, e := range auditOf(t, path) {
		if code := e.ResponseStatus; e.Stage != "RequestReceived" && (code == nil || code.Code != http.StatusSwitchingProtocols) {
			t.Errorf("recorded %+v", e)
		}
	}
}

// TestContinue checks that the proxy serves all pages of a list. If the proxy cannot resume one of
// its own continue tokens, the client gets 410, never the upstream's 400.
func TestContinue(t *testing.T) {
	u, tp := startReady(t, apiserver.Options{Pods: 5}, Options{Resources: []string{"pods"}, TrustCache: []string{"pods"}})
	seen, token := 0, ""
	for {
		code, body := tp.get("jane", "/api/v1/pods?limit=2&continue="+token)
		if code != http.StatusOK {
			t.Fatalf("%d %.300s", code, body)
		}
		seen += strings.Count(body, `"uid":"`) - strings.Count(body, `"ownerReferences"`)
		_, rest, more := strings.Cut(body[:min(len(body), 400)], `"continue":"`)
		if !more {
			break
		}
		token, _, _ = strings.Cut(rest, `"`)
	}
	if passed := u.forwarded("/api/v1/pods"); seen != 5 || len(passed) != 0 {
		t.Errorf("%d pods, requests upstream: %v", seen, passed)
	}
	tp.says(http.StatusGone, `"reason":"Expired"`, "jane", "/api/v1/nodes?limit=2&continue="+token)
}

// TestContinueAtAnotherReplica checks that a replica serves a continue token whose state is newer
// than the last change that the replica received. The replica asks the upstream for its newest
// resourceVersion, and learns from the answer that its own cache has reached that state.
func TestContinueAtAnotherReplica(t *testing.T) {
	t.Parallel()
	u := startUpstream(t, provable)
	older, newer := startProxy(t, u, Options{Resources: []string{"pods"}, timeouts: patient()}), startProxy(t, u, Options{Resources: []string{"pods"}, timeouts: patient()})
	older.ready()
	newer.ready()
	u.namespace("other")
	code, body := newer.get("jane", consistentList+"?limit=150")
	_, rest, more := strings.Cut(body[:min(len(body), 400)], `"continue":"`)
	if code != http.StatusOK || !more {
		t.Fatalf("%d %.300s", code, body)
	}
	token, _, _ := strings.Cut(rest, `"`)
	if code, body := older.get("jane", consistentList+"?limit=150&continue="+token); code != http.StatusOK {
		t.Errorf("%d %.300s", code, body)
	}
	if code, body := older.get("jane", consistentList+"?limit=150&continue="+tokenOf(u.t, 1<<40)); code != http.StatusGatewayTimeout {
		t.Errorf("of a state that never was: %d %.300s", code, body)
	}
}

// tokenOf returns a continue token of a proxy for the state at rv.
func tokenOf(t *testing.T, rv uint64) string {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"v": "meta.k8s.io/v1", "rv": rv, "start": "a/b", "by": "weir.dev"})
	check.NoError(t, err)
	return base64.RawURLEncoding.EncodeToString(raw)
}

// TestHostile checks that the server disconnects or refuses clients that send too much or too
// slowly, and continues to serve other clients.
func TestHostile(t *testing.T) {
	_, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}})
	resp := tp.open(tp.http1(nil), http.MethodGet, "/api/v1/pods?resourceVersion=0", "Authorization", "Bearer token-jane", "X-Large", strings.Repeat("x", 1<<20+4096))
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a large header: %s", resp.Status)
	}
	// These selectors have the maximum size. Many distinct selectors fill only the bounded caches of
	// libraries.
	for i := range 15 {
		selector := fmt.Sprintf("k%d+in+(%s)", i, strings.TrimSuffix(strings.Repeat("v,", 20_000), ","))
		tp.want(http.StatusOK, "jane", "/api/v1/pods?resourceVersion=0&labelSelector="+selector)
	}
	for _, path := range []string{
		"/api/v1/pods?resourceVersion=0&labelSelector=" + strings.Repeat("(", 50_000),
		"/api/v1/pods?resourceVersion=0&limit=-1&continue=%00",
		"/api/v1/pods?resourceVersion=99999999999999999999999",
		"/api/v1/pods?watch=maybe&resourceVersion=-1",
		"/api//v1///pods?resourceVersion=0", "/apis/////", "/api/v1/namespaces//pods/..%2f..?resourceVersion=0",
	} {
		if code, _ := tp.get("jane", path); code >= 500 {
			t.Errorf("%.60s: %d", path, code)
		}
	}
	addr := strings.TrimPrefix(tp.server.URL(), "https://")
	// None of these texts is TLS.
	for _, text := range []string{"", "GET /api/v1/pods HTTP/1.1\r\n", "\x00\x00\x00\x00"} {
		conn, err := net.Dial("tcp", addr)
		check.NoError(t, err)
		fmt.Fprint(conn, text)
		conn.Close()
	}
	body := strings.NewReader(strings.Repeat("x", 1<<20)) // the body of a GET, which needs none
	req, err := http.NewRequestWithContext(tp.ctx, http.MethodGet, tp.server.URL()+"/api/v1/pods?resourceVersion=0", body)
	check.NoError(t, err)
	req.Header.Set("Authorization", "Bearer token-jane")
	if resp, err := tp.client.Do(req); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("a body on a GET: %v", err)
	} else {
		resp.Body.Close()
	}
}

// TestIgnoredImpersonationHeaders checks that a request with an empty Impersonate-User, or with an
// unknown impersonation header, does not impersonate: the proxy forwards it as the caller.
func TestIgnoredImpersonationHeaders(t *testing.T) {
	u, tp := start(t, apiserver.Options{}, Options{})
	carol := tp.clientWith(tp.authCA.Issue(t, "carol", "staff"))
	for _, name := range []string{"Impersonate-User", "Impersonate-Nonsense"} {
		tp.open(carol, http.MethodGet, "/version", name, "")
		passed := u.forwarded("/version")
		if len(passed) != 1 || passed[0].header.Get("Impersonate-User") != "carol" {
			t.Errorf("%s: %v", name, passed)
		}
	}
}

// TestRobotsGroups checks a caller whose certificate has the name of a ServiceAccount. When
// kube-apiserver impersonates a ServiceAccount without groups, it adds the groups of
// ServiceAccounts. The caller must not get these groups.
func TestRobotsGroups(t *testing.T) {
	u, tp := start(t, apiserver.Options{}, Options{})
	robot := tp.clientWith(tp.authCA.Issue(t, "system:serviceaccount:mine:robot"))
	tp.open(robot, http.MethodGet, "/version")
	passed := u.forwarded("/version")
	if len(passed) != 1 || !slices.Equal(passed[0].header.Values("Impersonate-Group"), []string{"system:authenticated"}) {
		t.Errorf("%v", passed)
	}
}

// TestPageInAnotherForm sends requests with a continue token of the proxy. Their Accept headers
// allow only a representation that the proxy does not have. The proxy forwards the requests.
// kube-apiserver then serves them, or answers 406.
func TestPageInAnotherForm(t *testing.T) {
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}, TrustCache: []string{"pods"}})
	page := tp.continueToken()
	for _, accept := range []string{"application/json;as=Table;v=v1;g=meta.k8s.io", "text/csv"} {
		u.forwarded("")
		tp.get("jane", "/api/v1/pods?limit=1&continue="+page, "Accept", accept)
		u.wantForwarded(1, "/api/v1/pods")
	}
}

// TestForeignPage checks that a list with a continue token of another resource gets 410, or is
// forwarded if the caller may not list.
func TestForeignPage(t *testing.T) {
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}, TrustCache: []string{"pods"}})
	page := tp.continueToken()
	u.deny(func(s authorizationv1.SubjectAccessReviewSpec) bool { return s.User == "joe" })
	for user, want := range map[string]int{"jane": 0, "joe": 1} {
		u.forwarded("")
		code, _ := tp.get(user, "/api/v1/nodes?limit=1&continue="+page)
		if n := len(u.forwarded("/api/v1/nodes")); n != want || want == 0 && code != http.StatusGone {
			t.Errorf("%s is answered %d, after %d requests upstream", user, code, n)
		}
	}
}
