package proxy

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testca"
)

const publishedPath = "/api/v1/namespaces/" + configMapNamespace + "/configmaps/" + configMapName

// publish has the upstream publish a CA of callers and one of front proxies.
func (u *fakeUpstream) publish(clients, frontProxies *testca.Authority) {
	u.t.Helper()
	data := map[string]string{"requestheader-username-headers": `["X-Remote-User"]`, "requestheader-allowed-names": `["front-proxy"]`}
	for key, ca := range map[string]*testca.Authority{clientCAKey: clients, headerCAKey: frontProxies} {
		raw, err := os.ReadFile(ca.File)
		if err != nil {
			u.t.Fatal(err)
		}
		data[key] = string(raw)
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: configMapName, Namespace: configMapNamespace}, Data: data}
	if _, err := u.writer().CoreV1().ConfigMaps(configMapNamespace).Create(u.t.Context(), cm, metav1.CreateOptions{}); err != nil {
		u.t.Fatal(err)
	}
}

// forbid has the upstream refuse a path, or none.
func (u *fakeUpstream) forbid(path string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.forbidden = path
}

// TestPublishedLater: an upstream that has just started publishes its CAs late, or lets the proxy
// read them late. The proxy is not ready so long, but not for ever, and trusts them from then on.
func TestPublishedLater(t *testing.T) {
	for _, late := range []string{"published", "permitted"} {
		t.Run(late, func(t *testing.T) {
			u := startUpstream(t, apiserver.Options{})
			clients, frontProxies := newAuthority(t), newAuthority(t)
			if late == "permitted" {
				u.publish(clients, frontProxies)
				u.forbid(publishedPath)
			}
			wait := defaultTimeouts
			wait.lookup = 5 * time.Millisecond
			tp := startWith(t, u, Options{timeouts: wait}, clients)
			if code, body := tp.get("jane", "/readyz?verbose"); code != http.StatusServiceUnavailable || !strings.Contains(body, "[-]authentication") {
				t.Errorf("before: %d %s", code, body)
			}
			if a := tp.server.authn; a.ready(time.Now()) || !a.ready(time.Now().Add(lookupTimeout)) {
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
