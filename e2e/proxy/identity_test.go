package proxy

import (
	"io"
	"net/http"
	"slices"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/proxy"
)

// TestGroupThatHeadersChange: no caller is in a group that HTTP headers would change into
// system:masters, also if the request is forwarded by HTTP/1.1.
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

// TestNodeByName: a caller that is forwarded under a node's name, and in no group, is in no group
// of nodes, although the proxy's permissions would allow it to be a node.
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
