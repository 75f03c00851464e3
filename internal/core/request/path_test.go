package request

import (
	"net/url"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestCollectionOf checks that CollectionOf accepts the path of a collection, also behind a prefix.
// It must not accept the path of an object, a subresource, a namespace or a legacy watch.
func TestCollectionOf(t *testing.T) {
	for path, want := range map[string]Path{
		"/api/v1/pods":               {Version: "v1", Resource: "pods"},
		"/api/v1/namespaces":         {Version: "v1", Resource: "namespaces"},
		"/api/v1/namespaces/n/pods/": {Version: "v1", Resource: "pods", Namespace: "n"},
		"/k8s/clusters/c/apis/apps/v1/namespaces/n/deployments": {Group: "apps", Version: "v1", Resource: "deployments", Namespace: "n"},
		"/api/x/apis/apps/v1/deployments":                       {Group: "apps", Version: "v1", Resource: "deployments"},
	} {
		if got, ok := CollectionOf(path); !ok || got != want {
			t.Errorf("%s: %+v, %v", path, got, ok)
		}
	}
	for _, path := range []string{"", "/", "api", "/api/v1", "/apis/apps/v1", "/api/v1/namespaces/n", "/api/v1/namespaces/n/pods/p", "/api/v1/watch/pods",
		"/api/v1/namespaces/n/pods/p/log", "/api//pods"} {
		if got, ok := CollectionOf(path); ok {
			t.Errorf("%s: %+v", path, got)
		}
	}
}

// TestStrictPaths checks that Strict accepts the usual path of a collection or an object. It must
// return nil for a path that kube-apiserver does not read as a collection or an object, and for a
// spelling that another server may read differently.
func TestStrictPaths(t *testing.T) {
	for path, strict := range map[string]bool{
		"/api/v1/pods": true, "/api/v1/namespaces/n/pods/P_x:1": true, "/apis/apps/v1/namespaces/n/deployments": true, "/api/v1/namespaces/n": true,
		"/api/v1/namespaces/n/watch/p": false, "/api/v1/namespaces/n/proxy": false, "/api/v1/namespaces/n/status": false, "/api/v1/status/p": false,
		"/api/v1/finalize": false, "/api/v1/namespaces/n/namespaces": false, "/api/v1/namespaces/n/namespaces/n": false, "/apis/apps/v1/namespaces": false,
		"/apis/apps/v1/namespaces/n": false, "/api/v1/watch/pods": false, "/api/v1/proxy/nodes/n": false, "/api/v1/namespaces/n/pods/p/log": false,
		"/api/v1/pods/": false, "//api/v1/pods": false, "/api/v1//pods": false, "/api/v1/namespaces//pods": false, "/apis//v1/pods": false,
		"/api/v1/%70ods": false, "/api/v1/namespaces%2Fn/pods": false, "/api/v1/pods/..": false, "/api/v1/./pods": false, "/api/v1/Pods": false,
		"/api/v1/nodes/a;b": false, "/api/v1/namespaces/N/pods": false, "/apis/apps_x/v1/deployments": false, "/api/V1/pods": false, "/api/v1": false,
	} {
		at, err := url.ParseRequestURI(path)
		check.NoError(t, err)
		if rq := Strict(get(at)); (rq != nil) != strict {
			t.Errorf("%s: %+v", path, rq)
		}
	}
}
