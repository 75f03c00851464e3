package proxy

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
	"github.com/weirproject/weir/proxy"
)

// TestWaysIn sends requests for many paths, as a user who may read only one namespace. It checks
// that the proxy answers each of them with the same status code and the same objects as
// kube-apiserver. It also checks that no answer has an object of another namespace.
func TestWaysIn(t *testing.T) {
	ctx := begin(t)
	admin := clientFor(t, shared.Config())
	for _, name := range []string{"mine", "yours"} {
		ns, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		check.NoError(t, err)
		t.Cleanup(func() {
			if err := admin.CoreV1().Namespaces().Delete(context.WithoutCancel(ctx), ns.Name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
		p := newPod("of-" + name)
		p.Namespace = name
		if _, err := admin.CoreV1().Pods(name).Create(ctx, p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// Use the role from which kube-controller-manager fills the role view. Without
	// kube-controller-manager, the role view is empty.
	_, err := admin.RbacV1().RoleBindings("mine").Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "view"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:aggregate-to-view"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "reader"}},
	}, metav1.CreateOptions{})
	check.NoError(t, err)
	cached := []string{"pods", "namespaces", "nodes", "clusterroles.rbac.authorization.k8s.io"}
	s := start(t, ctx, proxy.Options{Resources: cached, TrustCache: cached})
	through, direct := as(t, s, "reader"), mustConfig(t, "reader")
	testenv.Eventually(t, ctx, "the permission has come", func() bool {
		code, _ := read(t, ctx, through, "/api/v1/namespaces/mine/pods?resourceVersion=0")
		return code == http.StatusOK
	})
	before := metric(t, ctx, s, "weir_proxy_served_total{")
	for _, path := range []string{
		"/api/v1/namespaces/mine/namespaces", "/api/v1/namespaces/mine/namespaces/kube-system", "/api/v1/namespaces/mine/namespaces/mine",
		"/api/v1/namespaces/mine/nodes", "/api/v1/namespaces/mine/nodes/none", "/api/v1/namespaces/mine/status", "/api/v1/namespaces/mine",
		"/api/v1/namespaces/yours", "/api/v1/namespaces", "/api/v1/namespaces/", "/api/v1/namespaces/mine/", "/api/v1/nodes", "/api/v1/pods",
		"/api/v1/namespaces/mine/pods", "/api/v1/namespaces/mine/pods/", "/api/v1/namespaces/yours/pods", "/api/v1/namespaces/mine/pods/of-yours",
		"/api/v1/namespaces/mine/pods/of-mine", "/api/v1/namespaces/mine/pods/of-mine/status", "/api/v1/pods/of-yours",
		"/api/v1/watch/namespaces/mine/pods", "/api/v1/watch/namespaces/mine/namespaces", "/api/v1/watch/namespaces", "/api/v1/watch/namespaces/mine",
		"//api/v1/namespaces/mine/pods", "/api//v1/namespaces/mine/pods", "/api/v1/namespaces//pods", "/api/v1//namespaces/mine/pods",
		"/api/v1/namespaces/mine%2Fpods", "/api/v1/namespaces/mine%2Fnamespaces", "/api/v1/namespaces/yours%2Fpods%2Fof-yours",
		"/api/v1/namespaces/mine%2F..%2Fyours/pods", "/api/v1/namespaces/mine/../yours/pods", "/api/v1/namespaces/mine/pods/..",
		"/api/v1/namespaces/mine/pods/../../yours/pods", "/api/v1/namespaces/mine/%70ods", "/api/v1/namespaces/mine;x/pods",
		"/api/v1/namespaces/mine/pods%2F..%2F..%2Fyours%2Fpods", "/api/v2/namespaces/mine/pods", "/apis/v1/namespaces/mine/pods",
		"/apis/rbac.authorization.k8s.io/v1/namespaces/mine/clusterroles", "/apis/rbac.authorization.k8s.io/v1/clusterroles",
		"/apis/rbac.authorization.k8s.io/v1/namespaces/mine/clusterroles/cluster-admin", "/apis/rbac.authorization.k8s.io/v1/namespaces/mine",
	} {
		for _, query := range []string{
			"resourceVersion=0", "resourceVersion=0&watch=1", "", "fieldSelector=metadata.namespace%3Dyours",
			"fieldSelector=metadata.name%3Dyours", "fieldSelector=metadata.name%3Dof-yours", "resourceVersion=0&limit=500&unheardOf=1",
		} {
			target := path + "?timeoutSeconds=1&" + query // a deprecated path may be a watch, which must end
			code, shown := read(t, ctx, through, target)
			wantCode, wantShown := read(t, ctx, direct, target)
			if code != wantCode || !slices.Equal(shown, wantShown) {
				t.Errorf("%s is answered %d with %v, and by kube-apiserver %d with %v", target, code, shown, wantCode, wantShown)
			}
			if slices.ContainsFunc(shown, func(key string) bool { return key != "mine/of-mine" && key != "/mine" }) {
				t.Errorf("%s shows %v to who may see only what is in mine", target, shown)
			}
		}
	}
	if metric(t, ctx, s, "weir_proxy_served_total{") == before {
		t.Error("nothing was answered from what the proxy caches")
	}
}

// read sends a GET of exactly this path and query. It returns the sorted keys of the objects in the
// answer.
func read(t *testing.T, ctx context.Context, cfg *rest.Config, target string) (code int, keys []string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, cfg.Host, nil)
	check.NoError(t, err)
	path, query, _ := strings.Cut(target, "?")
	req.URL.Opaque, req.URL.RawQuery = "//"+req.URL.Host+path, query
	client := cluster.HTTPClient(t, cfg)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	check.NoError(t, err)
	defer resp.Body.Close()
	type object struct {
		Kind     string
		Metadata struct{ Namespace, Name string }
	}
	for d := json.NewDecoder(resp.Body); ; {
		var answer struct {
			object
			Items  []object
			Object object
		}
		if err := d.Decode(&answer); err != nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			break // end of the body, or not JSON
		}
		for _, o := range append(answer.Items, answer.object, answer.Object) {
			if o.Kind != "Status" && o.Metadata.Name != "" {
				keys = append(keys, o.Metadata.Namespace+"/"+o.Metadata.Name)
			}
		}
	}
	slices.Sort(keys)
	return resp.StatusCode, keys
}

// TestGroupThatHeadersChange checks that the proxy rejects a certificate whose group starts or ends
// with a space or a tab. HTTP strips spaces and tabs from both ends of a header, which would turn
// the group into system:masters. The test includes requests that the proxy would forward over
// HTTP/1.1.
func TestGroupThatHeadersChange(t *testing.T) {
	ctx := begin(t)
	s := start(t, ctx, proxy.Options{Resources: []string{"pods"}})
	for _, group := range []string{"system:masters ", " system:masters", "system:masters\t"} {
		cfg := through(t, s, issue(t, callers, "mallory", group))
		cfg.NextProtos = []string{"http/1.1"}
		client := cluster.HTTPClient(t, cfg)
		for _, upgrade := range []bool{false, true} {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+"/api/v1/secrets", nil)
			check.NoError(t, err)
			if upgrade {
				req.Header.Set("Connection", "Upgrade")
				req.Header.Set("Upgrade", "x")
			}
			resp, err := client.Do(req)
			check.NoError(t, err)
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusUnauthorized {
				t.Errorf("%q, upgrade %t: %s: %.200s", group, upgrade, resp.Status, body)
			}
		}
	}
}

// TestNodeByName sends requests that the proxy forwards, from callers that impersonate a user with
// a node's name. It checks that this user is not in the group system:nodes, although the proxy has
// the permission to impersonate that group.
func TestNodeByName(t *testing.T) {
	ctx := begin(t)
	s := start(t, ctx, proxy.Options{Resources: []string{"pods"}})
	granted(t, ctx, "stranger", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"users"}, Verbs: []string{"impersonate"}})
	for name, cfg := range map[string]*rest.Config{"token": as(t, s, "stranger"), "certificate": through(t, s, issue(t, callers, "stranger"))} {
		cfg.Impersonate = rest.ImpersonationConfig{UserName: "system:node:n1"}
		review, err := clientFor(t, cfg).AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if who := review.Status.UserInfo; who.Username != "system:node:n1" || !slices.Equal(who.Groups, []string{"system:authenticated"}) {
			t.Errorf("%s: %v", name, who)
		}
	}
}

// issue returns a client configuration whose only credential is a client certificate. The parameter
// by is the authority that signs the certificate.
func issue(t *testing.T, by *testenv.Authority, name string, groups ...string) *rest.Config {
	t.Helper()
	cert := by.Issue(t, name, groups...)
	key, err := x509.MarshalECPrivateKey(cert.PrivateKey.(*ecdsa.PrivateKey))
	check.NoError(t, err)
	return &rest.Config{TLSClientConfig: rest.TLSClientConfig{
		CertData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}),
		KeyData:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key}),
	}}
}
