package apiserver_test

import (
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/weirproject/weir/apiserver"
)

// TestNames checks which names the server accepts for kinds with special name rules, and for some
// other kinds.
func TestNames(t *testing.T) {
	const (
		inDefault    = "/api/v1/namespaces/default/"
		certificates = "/apis/certificates.k8s.io/v1/"
		addresses    = "/apis/networking.k8s.io/v1/ipaddresses"
	)
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		for _, tt := range []struct {
			path, name, signer string
			problem            string // "" if the name is valid
		}{
			{inDefault + "configmaps", "a.b", "", ""},
			{inDefault + "configmaps", "a:b", "", "a lowercase RFC 1123 subdomain must consist of"},
			{inDefault + "services", "web", "", ""},
			{inDefault + "services", "8080", "", ""},
			{inDefault + "services", "a.b", "", "must not contain dots"},
			{inDefault + "services", strings.Repeat("a", 64), "", "must be no more than 63"},
			{inDefault + "events", "Pod:started", "", ""},
			{inDefault + "events", "a%b", "", "may not contain '%'"},
			{"/apis/events.k8s.io/v1/namespaces/default/events", "Pod:started", "", "a lowercase RFC 1123 subdomain must consist of"},
			{"/apis/apps/v1/namespaces/default/statefulsets", "a.b", "", "must not contain dots"},
			{"/apis/batch/v1/namespaces/default/cronjobs", strings.Repeat("a", 53), "", "must be no more than 52 characters"},
			{"/apis/policy/v1/namespaces/default/poddisruptionbudgets", "A_b", "", ""},
			{"/apis/rbac.authorization.k8s.io/v1/clusterroles", "system:Node", "", ""},
			{"/apis/rbac.authorization.k8s.io/v1/clusterroles", "a/b", "", "may not contain '/'"},
			{addresses, "10.0.0.1", "", ""},
			{addresses, "fd00::1", "", ""},
			{addresses, "fd00:0::1", "", `must be in canonical form ("fd00::1")`},
			{addresses, "a", "", "must be a valid IP address"},
			{certificates + "certificatesigningrequests", "Node:a", "", ""},
			{certificates + "clustertrustbundles", "mine", "", ""},
			{certificates + "clustertrustbundles", "example.com:name:x", "", `ClusterTrustBundle without signer name must not have ":" in its name`},
			{certificates + "clustertrustbundles", "example.com:name:x", "example.com/name", ""},
			{certificates + "clustertrustbundles", "mine", "example.com/name",
				"ClusterTrustBundle for signerName example.com/name must be named with prefix example.com:name:"},
			{certificates + "clustertrustbundles", "example.com:name:X", "example.com/name", "a lowercase RFC 1123 subdomain must consist of"},
		} {
			o := &unstructured.Unstructured{Object: map[string]any{}}
			o.SetName(tt.name)
			if tt.signer != "" {
				o.Object["spec"] = map[string]any{"signerName": tt.signer}
			}
			a := ts.do(http.MethodPost, tt.path, o.Object)
			switch {
			case tt.problem == "" && a.code != http.StatusCreated:
				t.Errorf("%s %q: %d: %s", tt.path, tt.name, a.code, a.body)
			case tt.problem == "":
				if a := ts.get(tt.path+"/"+tt.name, nil); a.code != http.StatusOK {
					t.Errorf("%s %q: GET: %d: %s", tt.path, tt.name, a.code, a.body)
				}
			case a.code != http.StatusUnprocessableEntity || !strings.Contains(a.status(t).Message, tt.problem):
				t.Errorf("%s %q: %d, want %s: %s", tt.path, tt.name, a.code, tt.problem, a.body)
			}
		}
	})
}
