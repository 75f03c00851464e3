package proxy

import (
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// The namespace, name and keys of the ConfigMap in which the upstream publishes CAs.
const (
	publishedNamespace = "kube-system"
	publishedName      = "extension-apiserver-authentication"
	publishedClientCA  = "client-ca-file"
	publishedHeaderCA  = "requestheader-client-ca-file"
)

const publishedPath = "/api/v1/namespaces/" + publishedNamespace + "/configmaps/" + publishedName

// publish makes the upstream publish a CA of client certificates and a CA of front proxies.
func (u *fakeUpstream) publish(clients, frontProxies *testenv.Authority) {
	u.t.Helper()
	data := map[string]string{"requestheader-username-headers": `["X-Remote-User"]`, "requestheader-allowed-names": `["front-proxy"]`}
	for key, ca := range map[string]*testenv.Authority{publishedClientCA: clients, publishedHeaderCA: frontProxies} {
		raw, err := os.ReadFile(ca.File)
		check.NoError(u.t, err)
		data[key] = string(raw)
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: publishedName, Namespace: publishedNamespace}, Data: data}
	if _, err := u.writer().CoreV1().ConfigMaps(publishedNamespace).Create(u.t.Context(), cm, metav1.CreateOptions{}); err != nil {
		u.t.Fatal(err)
	}
}

// forbid makes the upstream refuse requests of this path; empty: none.
func (u *fakeUpstream) forbid(path string) {
	u.set(func() { u.forbidden = path })
}

// TestPublishedLater starts the proxy before the upstream publishes its CAs, or before the proxy
// may read them. The proxy is not ready until it can read the CAs, or until a few seconds have
// passed. When it can read the CAs, it trusts them.
func TestPublishedLater(t *testing.T) {
	for _, late := range []string{"published", "permitted"} {
		t.Run(late, func(t *testing.T) {
			u := startUpstream(t, apiserver.Options{})
			clients, frontProxies := newAuthority(t), newAuthority(t)
			if late == "permitted" {
				u.publish(clients, frontProxies)
				u.forbid(publishedPath)
			}
			wait := timing(func(w *timeouts) { w.lookup = 5 * time.Millisecond })
			tp := startWith(t, u, Options{timeouts: wait}, clients)
			tp.says(http.StatusServiceUnavailable, "[-]authentication", "jane", "/readyz?verbose")
			if a := tp.server.authn; a.Ready(time.Now()) || !a.Ready(time.Now().Add(6*time.Second)) {
				t.Error("it is ready at once, or never")
			}
			if late == "permitted" {
				u.forbid("")
			} else {
				u.publish(clients, frontProxies)
			}
			for want, client := range map[string]*http.Client{
				"carol": tp.clientWith(clients.Issue(t, "carol")), "dora": tp.clientWith(frontProxies.Issue(t, "front-proxy")),
			} {
				tp.until(want+" is known", func() bool {
					u.forwarded("")
					resp := tp.open(client, http.MethodGet, "/version", "X-Remote-User", "dora")
					defer resp.Body.Close()
					passed := u.forwarded("/version")
					return len(passed) == 1 && passed[0].header.Get("Impersonate-User") == want
				})
			}
			tp.ready()
		})
	}
}

// TestPublishedHeaders checks that the proxy never forwards a header that the upstream publishes as
// a header of front proxies, even if an option sets the CA of front proxies. This includes headers
// that the upstream publishes only later. No caller gains access through these headers.
func TestPublishedHeaders(t *testing.T) {
	u := startUpstream(t, apiserver.Options{})
	given, published := newAuthority(t), newAuthority(t)
	data := map[string]string{
		"requestheader-username-headers": `["X-Corp-User"]`, "requestheader-uid-headers": `["x-corp-uid"]`, "requestheader-group-headers": `["X-Corp-Group", "X-Team"]`,
		"requestheader-extra-headers-prefix": `["X-Corp-Extra-"]`, "requestheader-allowed-names": `[]`,
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: publishedName, Namespace: publishedNamespace}, Data: data}
	maps := u.writer().CoreV1().ConfigMaps(publishedNamespace)
	must(t)(maps.Create(t.Context(), cm, metav1.CreateOptions{}))
	tp := startWith(t, u, Options{Authentication: Authentication{ClientCAFile: given.File, RequestHeaderCAFile: published.File}}, given)
	passed := func(client *http.Client, headers ...string) http.Header {
		t.Helper()
		u.forwarded("")
		resp := tp.open(client, http.MethodGet, "/version", append([]string{"Authorization", "Bearer token-jane"}, headers...)...)
		defer resp.Body.Close()
		all := u.forwarded("/version")
		if len(all) != 1 {
			t.Fatalf("%d requests: %s", len(all), resp.Status)
		}
		return all[0].header
	}
	attempts := []string{
		"X-Corp-User", "system:admin", "X-CORP-UID", "0", "x-corp-group", "system:masters", "X-Team", "system:masters", "X-Corp-Extra-Scopes", "all",
		"X-Remote-User", "root", "X-Corp-Color", "blue",
	}
	for who, client := range map[string]*http.Client{"token": tp.client, "certificate": tp.clientWith(given.Issue(t, "carol"))} {
		h := passed(client, attempts...)
		for name := range h {
			if lower := strings.ToLower(name); lower == "x-team" || strings.HasPrefix(lower, "x-corp-") && lower != "x-corp-color" || strings.HasPrefix(lower, "x-remote-") {
				t.Errorf("%s: %s is forwarded", who, name)
			}
		}
		if h.Get("X-Corp-Color") != "blue" {
			t.Errorf("%s: another header is not", who)
		}
	}
	cm.Data["requestheader-username-headers"] = `["X-Corp-User", "X-Later"]`
	must(t)(maps.Update(t.Context(), cm, metav1.UpdateOptions{}))
	tp.until("a header that was published later is not forwarded", func() bool { return passed(tp.client, "X-Later", "root").Get("X-Later") == "" })
}

// TestUnknownHeaders checks a proxy that has a client certificate for the upstream, and cannot yet
// read which headers the upstream trusts from front proxies. Until the proxy can read them, it does
// not forward requests of callers with certificates. Because of the proxy's certificate, the
// upstream might take the proxy for a front proxy, and trust one of these headers in a caller's
// request.
func TestUnknownHeaders(t *testing.T) {
	u := startUpstream(t, apiserver.Options{})
	clients := newAuthority(t)
	u.publish(clients, clients)
	u.forbid(publishedPath)
	own := clients.Issue(t, "front-proxy")
	key, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	check.NoError(t, err)
	u.config.CertData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]})
	u.config.KeyData = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
	wait := timing(func(w *timeouts) { w.lookup = 5 * time.Millisecond })
	tp := startWith(t, u, Options{Authentication: Authentication{ClientCAFile: clients.File}, timeouts: wait}, clients)
	carol := tp.clientWith(clients.Issue(t, "carol"))
	u.forwarded("")
	resp := tp.open(carol, http.MethodGet, "/version", "X-Remote-User", "root")
	resp.Body.Close()
	if n := len(u.forwarded("/version")); resp.StatusCode != http.StatusServiceUnavailable || n > 0 {
		t.Errorf("%s, %d requests upstream", resp.Status, n)
	}
	tp.want(http.StatusOK, "jane", "/version")
	u.forbid("")
	tp.until("they are known", func() bool {
		resp := tp.open(carol, http.MethodGet, "/version")
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}
