package proxy

import (
	"net/http"
	"path/filepath"
	"testing"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestOpaqueTarget checks that the proxy refuses, and records, a request target in which the proxy
// finds no path but the upstream might find one. A target in absolute form has a path and is not
// refused.
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
		u.wantForwarded(0, "")
		check.Equal(t, completed(t, path, resp.Header.Get("Audit-ID")).ResponseStatus.Code, http.StatusBadRequest, "%s: recorded", target)
	}
}
