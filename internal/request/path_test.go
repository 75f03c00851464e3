package request

import "testing"

// TestCollectionOf finds collections below other paths, as a server behind a gateway has them.
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
