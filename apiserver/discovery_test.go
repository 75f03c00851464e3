package apiserver_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestDiscovery checks that the aggregated discovery document and the separate documents of older
// clients have equal contents.
func TestDiscovery(t *testing.T) {
	widgetResource := apiserver.Resource{GroupVersionResource: widgets, Kind: "Widget", Namespaced: true, ShortNames: []string{"wd"}}
	withTestServer(t, apiserver.Options{Resources: []apiserver.Resource{widgetResource}}, func(t *testing.T, ts *testServer) {
		client, err := rest.HTTPClientFor(ts.config)
		check.NoError(t, err)
		var docs [2]string
		for i := range docs {
			d, err := discovery.NewDiscoveryClientForConfigAndClient(ts.config, client)
			check.NoError(t, err)
			d.UseLegacyDiscovery = i == 0
			groups, resources, err := d.ServerGroupsAndResources()
			check.NoError(t, err)
			docs[i] = describe(groups, resources)
		}
		if docs[0] != docs[1] {
			t.Errorf("legacy:\n%s\naggregated:\n%s", docs[0], docs[1])
		}
		for _, want := range []string{
			"v1 pods pod Pod true [po] [all] create,delete,deletecollection,get,list,patch,update,watch\n",
			"v1 pods/status  Pod true [] [] get,patch,update\n",
			"apps/v1 deployments deployment Deployment true [deploy] [all]",
			"example.com/v1 widgets widget Widget true [wd] []",
			"rbac.authorization.k8s.io/v1 clusterroles clusterrole ClusterRole false [] []",
			"apiextensions.k8s.io/v1 customresourcedefinitions customresourcedefinition CustomResourceDefinition false [crd crds]",
		} {
			if !strings.Contains(docs[0], want) {
				t.Errorf("no %q in:\n%s", want, docs[0])
			}
		}
		d, err := discovery.NewDiscoveryClientForConfigAndClient(ts.config, client)
		check.NoError(t, err)
		v, err := d.ServerVersion()
		if err != nil || v.Major != "1" || v.Minor != "37" {
			t.Errorf("version %v, %v", v, err)
		}
		groups, err := restmapper.GetAPIGroupResources(d)
		check.NoError(t, err)
		mapping, err := restmapper.NewDiscoveryRESTMapper(groups).ResourceFor(widgets)
		if err != nil || mapping != widgets {
			t.Errorf("mapped to %v, %v", mapping, err)
		}
	})
}

func describe(groups []*metav1.APIGroup, lists []*metav1.APIResourceList) string {
	var lines []string
	for _, g := range groups {
		lines = append(lines, "group "+g.Name+" "+g.PreferredVersion.GroupVersion)
	}
	for _, l := range lists {
		for _, r := range l.APIResources {
			// client-go fills in the singular name of a subresource only if it reads the aggregated
			// document.
			if strings.Contains(r.Name, "/") {
				r.SingularName = ""
			}
			lines = append(lines, fmt.Sprintf("%s %s %s %s %v %v %v %s", l.GroupVersion, r.Name, r.SingularName, r.Kind, r.Namespaced,
				r.ShortNames, r.Categories, strings.Join(r.Verbs, ",")))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

func TestOtherPaths(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		for path, want := range map[string]string{
			"/healthz": "ok", "/livez": "ok", "/readyz": "ok", "/metrics": "apiserver_request_total{",
			"/":                            `"/version"`,
			"/apis/apps":                   `"preferredVersion":{"groupVersion":"apps/v1"`,
			"/api":                         `"versions":["v1"]`,
			"/openapi/v3":                  `"/openapi/v3/apis/apps/v1"`,
			"/openapi/v3/apis/apps/v1":     `"name":"fieldValidation"`,
			"/openapi/v3/api/v1":           `"/api/v1/namespaces/{namespace}/pods/{name}"`,
			"/api/v1/namespaces/default":   `"phase":"Active"`,
			"/api/v1/namespaces?limit=500": `"kind":"NamespaceList"`,
		} {
			if a := ts.get(path, nil); a.code != 200 || !strings.Contains(string(a.body), want) {
				t.Errorf("%s: %d %s", path, a.code, a.body)
			}
		}
		for _, path := range []string{"/apis/no.such", "/apis/apps/v9", "/api/v9", "/logs", "/openapi/v3/apis/x/v1", "/openapi/v3/x", "/a/b/c/d"} {
			if a := ts.get(path, nil); a.code != 404 {
				t.Errorf("%s: %d", path, a.code)
			} else if a.status(t).Reason != metav1.StatusReasonNotFound {
				t.Errorf("%s: %s", path, a.body)
			}
		}
	})
}
