package proxy

import (
	"net/http"
	"path/filepath"
	"slices"
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/weirproject/weir/apiserver"
)

// TestOpaqueTarget: a request target in which the proxy sees no path, and the upstream might see
// one, is refused, and that is recorded. The absolute form of a path is a path.
func TestOpaqueTarget(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}, Audit: Audit{PolicyFile: writePolicy(t, auditPolicy), LogPath: path}})
	for target, refused := range map[string]bool{
		"x:https://h/api/v1/pods?watch=1": true, "https:api/v1/pods?watch=1": true, "x:*": true, "x:readyz": true,
		"https://h/api/v1/pods?resourceVersion=0": false, "x:/api/v1/pods?resourceVersion=0": false, "/api/v1/pods": false, "*": false,
	} {
		u.forwarded("")
		resp := tp.dial("http/1.1").send("GET", target, 0, "").answer()
		if (resp.StatusCode == http.StatusBadRequest) != refused {
			t.Errorf("%s: %s", target, resp.Status)
		}
		if !refused {
			continue
		}
		if passed := u.forwarded(""); len(passed) > 0 {
			t.Errorf("%s went upstream: %v", target, passed)
		}
		id := resp.Header.Get("Audit-ID")
		if !slices.ContainsFunc(auditOf(t, path), func(e auditv1.Event) bool {
			return string(e.AuditID) == id && e.Stage == "ResponseComplete" && e.ResponseStatus.Code == http.StatusBadRequest
		}) {
			t.Errorf("%s is not recorded: %+v", target, auditOf(t, path))
		}
	}
}
