package apiserver_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

var (
	widgets     = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	betaWidgets = schema.GroupVersionResource{Group: "example.com", Version: "v1beta1", Resource: "widgets"}
	crds        = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

func widgetDefinition() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata":   map[string]any{"name": "widgets.example.com"},
		"spec": map[string]any{
			"group": "example.com",
			"scope": "Namespaced",
			"names": map[string]any{"plural": "widgets", "kind": "Widget", "shortNames": []any{"wd"}},
			"versions": []any{
				map[string]any{"name": "v1beta1", "served": true, "storage": false},
				map[string]any{"name": "v1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
					"selectableFields": []any{map[string]any{"jsonPath": ".spec.color"}},
					"additionalPrinterColumns": []any{
						map[string]any{"name": "Colour", "type": "string", "jsonPath": ".spec.color"},
						map[string]any{"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": int64(1)},
					}},
				map[string]any{"name": "v0", "served": false, "storage": false},
			},
		},
	}}
}

func widget(name, color string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1",
		"kind":       "Widget",
		"metadata":   map[string]any{"name": name},
		"spec":       map[string]any{"color": color, "size": int64(1 << 60)},
		"status":     map[string]any{"ready": true},
	}}
}

// defineWidgets defines the resource widgets, and returns a client for it. It creates one widget
// per name.
func defineWidgets(t *testing.T, ts *testServer, names ...string) dynamic.ResourceInterface {
	t.Helper()
	crd, err := ts.dynamic.Resource(crds).Create(ctx, widgetDefinition(), metav1.CreateOptions{})
	check.NoError(t, err)
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	if len(conditions) != 2 || conditions[1].(map[string]any)["type"] != "Established" {
		t.Errorf("conditions: %v", conditions)
	}
	client := ts.dynamic.Resource(widgets).Namespace("default")
	for _, name := range names {
		if _, err := client.Create(ctx, widget(name, name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return client
}

// TestPrinterColumns checks that Tables of custom resources have the columns that the version
// defines, and Name and Age if it defines none.
func TestPrinterColumns(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		defineWidgets(t, ts, "blue")
		for version, want := range map[string]string{"v1": "Name blue, Colour blue, Size 1152921504606846976, ", "v1beta1": "Name blue, Age 0s, "} {
			var table metav1.Table
			d := json.NewDecoder(bytes.NewReader(ts.do(http.MethodGet, "/apis/example.com/"+version+"/widgets", nil, "Accept", acceptTable).body))
			d.UseNumber()
			check.NoError(t, d.Decode(&table))
			got := ""
			for i, d := range table.ColumnDefinitions {
				got += fmt.Sprintf("%s %v, ", d.Name, table.Rows[0].Cells[i])
			}
			check.Equal(t, got, want, "%s", version)
			if version == "v1" {
				check.Equal(t, table.ColumnDefinitions[2].Priority, 1, "priority of Size")
			}
		}
	})
}

func TestCustomResources(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		client := defineWidgets(t, ts, "blue")
		w, err := client.Create(ctx, widget("red", "red"), metav1.CreateOptions{})
		check.NoError(t, err)
		if _, ok := w.Object["status"]; ok || w.GetGeneration() != 1 || w.GetUID() == "" {
			t.Errorf("created: %v", w.Object)
		}
		if size, _, _ := unstructured.NestedInt64(w.Object, "spec", "size"); size != 1<<60 {
			t.Errorf("the size became %d", size)
		}
		w.Object["status"] = map[string]any{"ready": true}
		unstructured.SetNestedField(w.Object, "green", "spec", "color")
		if w, err = client.UpdateStatus(ctx, w, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		color, _, _ := unstructured.NestedString(w.Object, "spec", "color")
		ready, _, _ := unstructured.NestedBool(w.Object, "status", "ready")
		if color != "red" || !ready || w.GetGeneration() != 1 {
			t.Errorf("status updated: %v", w.Object)
		}
		red, err := client.List(ctx, metav1.ListOptions{FieldSelector: "spec.color=red"})
		if err != nil || len(red.Items) != 1 || red.Items[0].GetName() != "red" {
			t.Errorf("by color: %v %v", err, red)
		}
		w.SetResourceVersion("")
		if _, err := client.Update(ctx, w, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("update without a resourceVersion: %v", err)
		}
	})
}

// TestVersions checks that all versions of a resource serve the same objects, each version with its
// own apiVersion.
func TestVersions(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		client := defineWidgets(t, ts, "blue", "red")
		beta := ts.dynamic.Resource(betaWidgets).Namespace("default")
		all, err := beta.List(ctx, metav1.ListOptions{})
		if err != nil || len(all.Items) != 2 || all.Items[0].GetAPIVersion() != "example.com/v1beta1" || all.GetKind() != "WidgetList" {
			t.Fatalf("v1beta1: %v %v", err, all)
		}
		old := widget("old", "grey")
		old.SetAPIVersion("example.com/v1beta1")
		if old, err = beta.Create(ctx, old, metav1.CreateOptions{}); err != nil || old.GetAPIVersion() != "example.com/v1beta1" {
			t.Fatal(err, old)
		}
		if got, err := client.Get(ctx, "old", metav1.GetOptions{}); err != nil || got.GetAPIVersion() != "example.com/v1" {
			t.Errorf("v1: %v %v", err, got)
		}
		for accept, code := range map[string]int{"application/vnd.kubernetes.protobuf": 406, "text/html": 406, "application/*": 200} {
			if a := ts.do(http.MethodGet, "/apis/example.com/v1/widgets", nil, "Accept", accept); a.code != code {
				t.Errorf("%s: answered %d", accept, a.code)
			}
		}
		partial, err := ts.metadata.Resource(widgets).List(ctx, metav1.ListOptions{})
		if err != nil || len(partial.Items) != 3 {
			t.Errorf("metadata: %v", err)
		}
	})
}

// TestUndefined checks that creating a definition adds its resource, and that deleting the
// definition removes the resource and its objects.
func TestUndefined(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		client := ts.dynamic.Resource(widgets).Namespace("default")
		if _, err := client.List(ctx, metav1.ListOptions{}); !apierrors.IsNotFound(err) {
			t.Fatalf("before its definition: %v", err)
		}
		defineWidgets(t, ts, "blue", "red", "old")
		watch := ts.watch("/apis/example.com/v1/widgets?watch=1&resourceVersion=" + fmt.Sprint(ts.server.ResourceVersion()))
		defer watch.close()
		check.NoError(t, ts.dynamic.Resource(crds).Delete(ctx, "widgets.example.com", metav1.DeleteOptions{}))
		got := strings.Join(watch.until(func(string) bool { return false }), " ")
		if strings.Count(got, "DELETED") != 3 || !strings.HasSuffix(got, "EOF") {
			t.Errorf("watchers saw %s", got)
		}
		if _, err := client.List(ctx, metav1.ListOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("after its definition: %v", err)
		}
		defineWidgets(t, ts)
		if all, err := client.List(ctx, metav1.ListOptions{}); err != nil || len(all.Items) != 0 {
			t.Errorf("defined again: %v %v", err, all)
		}
	})
}

func TestDefinitionChanges(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		definitions := ts.dynamic.Resource(crds)
		crd, err := definitions.Create(ctx, widgetDefinition(), metav1.CreateOptions{})
		check.NoError(t, err)
		if _, err := ts.dynamic.Resource(widgets).Namespace("default").Create(ctx, widget("red", "red"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		versions[0].(map[string]any)["served"] = false
		unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions")
		if crd, err = definitions.Update(ctx, crd, metav1.UpdateOptions{}); err != nil || crd.GetGeneration() != 2 {
			t.Fatal(err, crd.GetGeneration())
		}
		if _, err := ts.dynamic.Resource(betaWidgets).List(ctx, metav1.ListOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("a version that is no longer served: %v", err)
		}
		if all, err := ts.dynamic.Resource(widgets).List(ctx, metav1.ListOptions{}); err != nil || len(all.Items) != 1 {
			t.Errorf("the other one: %v", err)
		}
	})
}

// TestDryDefinition checks that creating a definition with dryRun defines nothing.
func TestDryDefinition(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		definitions := ts.dynamic.Resource(crds)
		crd, err := definitions.Create(ctx, widgetDefinition(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		check.NoError(t, err)
		if conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions"); len(conditions) != 2 || crd.GetUID() == "" {
			t.Errorf("answered %v", crd.Object)
		}
		if _, err := definitions.Get(ctx, crd.GetName(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the definition: %v", err)
		}
		if _, err := ts.dynamic.Resource(widgets).List(ctx, metav1.ListOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("what it would define: %v", err)
		}
		if a := ts.get("/apis", nil); a.code != http.StatusOK || strings.Contains(string(a.body), widgets.Group) {
			t.Errorf("discovery: %d %s", a.code, a.body)
		}
		if a := ts.get("/apis/"+widgets.GroupVersion().String(), nil); a.code != http.StatusNotFound {
			t.Errorf("discovery of its group: %d %s", a.code, a.body)
		}
	})
}

// TestDefinitionWithoutChange checks that watches continue if a write of the definition does not
// change the served resource.
func TestDefinitionWithoutChange(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		definitions := ts.dynamic.Resource(crds)
		crd, err := definitions.Create(ctx, widgetDefinition(), metav1.CreateOptions{})
		check.NoError(t, err)
		w := ts.watch("/apis/example.com/v1/widgets?watch=1&resourceVersion=" + fmt.Sprint(ts.server.ResourceVersion()))
		defer w.close()
		crd.SetAnnotations(map[string]string{"a": "b"})
		if crd, err = definitions.Update(ctx, crd, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		unstructured.SetNestedField(crd.Object, "True", "status", "seen")
		if crd, err = definitions.UpdateStatus(ctx, crd, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := ts.dynamic.Resource(widgets).Namespace("default").Create(ctx, widget("red", "red"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if e := w.next(); !strings.HasPrefix(e, "ADDED red@") {
			t.Errorf("the watch saw %s", e)
		}
		unstructured.SetNestedStringSlice(crd.Object, []string{"wdg"}, "spec", "names", "shortNames")
		if _, err = definitions.Update(ctx, crd, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		check.Equal(t, w.next(), "EOF", "after a change the watch saw")
	})
}

func TestBadDefinitions(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		for name, spoil := range map[string]func(*unstructured.Unstructured){
			"another name":      func(u *unstructured.Unstructured) { u.SetName("gadgets.example.com") },
			"no group":          func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "group") },
			"no kind":           func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "names", "kind") },
			"no scope":          func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "scope") },
			"no versions":       func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "versions") },
			"no spec":           func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec") },
			"a built-in kind":   func(u *unstructured.Unstructured) { as(u, "deployments", "apps") },
			"definitions":       func(u *unstructured.Unstructured) { as(u, crds.Resource, crds.Group) },
			"built-in, version": func(u *unstructured.Unstructured) { as(u, "deployments", "apps"); versions(u, "v9") },
			"other definitions": func(u *unstructured.Unstructured) { as(u, crds.Resource, crds.Group); versions(u, "v2") },
			"names of no names": func(u *unstructured.Unstructured) { unstructured.SetNestedField(u.Object, "x", "spec", "names") },
		} {
			u := widgetDefinition()
			spoil(u)
			_, err := ts.dynamic.Resource(crds).Create(ctx, u, metav1.CreateOptions{})
			if !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func as(u *unstructured.Unstructured, plural, group string) {
	u.SetName(plural + "." + group)
	unstructured.SetNestedField(u.Object, group, "spec", "group")
	unstructured.SetNestedField(u.Object, plural, "spec", "names", "plural")
}

// versions replaces the versions of a definition by one version.
func versions(u *unstructured.Unstructured, name string) {
	unstructured.SetNestedSlice(u.Object, []any{map[string]any{"name": name, "served": true, "storage": true}}, "spec", "versions")
}

func TestRegister(t *testing.T) {
	widgetResource := apiserver.Resource{GroupVersionResource: widgets, Kind: "Widget", SelectableFields: []string{"spec.color"}}
	withTestServer(t, apiserver.Options{Resources: []apiserver.Resource{widgetResource}}, func(t *testing.T, ts *testServer) {
		client := ts.dynamic.Resource(widgets)
		for _, name := range []string{"red", "blue"} {
			if _, err := client.Create(ctx, widget(name, name), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		w := ts.watch("/apis/example.com/v1/widgets?watch=1&fieldSelector=spec.color%3Dblue")
		defer w.close()
		if e := w.next(); !strings.HasPrefix(e, "ADDED blue@") {
			t.Error(e)
		}
		// If the resource is registered again, its watches must end and its objects must remain.
		widgetResource.SelectableFields = nil
		check.NoError(t, ts.server.Register(widgetResource))
		if e := w.next(); e != "EOF" {
			t.Error(e)
		}
		if all, err := client.List(ctx, metav1.ListOptions{}); err != nil || len(all.Items) != 2 {
			t.Errorf("%v %v", err, all)
		}
		if _, err := client.List(ctx, metav1.ListOptions{FieldSelector: "spec.color=red"}); !apierrors.IsBadRequest(err) {
			t.Errorf("a field that is no longer selectable: %v", err)
		}
		for _, bad := range []apiserver.Resource{
			{},
			{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Kind: "Pod"},
			{GroupVersionResource: schema.GroupVersionResource{Group: "apps", Version: "v9", Resource: "deployments"}, Kind: "Deployment"},
			{GroupVersionResource: widgets, Kind: "Widget", SelectableFields: []string{"a[["}},
			{GroupVersionResource: crds, Kind: "CustomResourceDefinition"},
			{GroupVersionResource: crds.GroupResource().WithVersion("v2"), Kind: "CustomResourceDefinition"},
		} {
			if err := ts.server.Register(bad); err == nil {
				t.Errorf("registered %+v", bad)
			}
		}
		if ts.server.Unregister(schema.GroupVersionResource{Version: "v1", Resource: "pods"}) || ts.server.Unregister(crds) || !ts.server.Unregister(widgets) {
			t.Error("unregistered the wrong one")
		}
	})
}

// TestConcurrentDefineAndDelete deletes a CustomResourceDefinition while another request creates
// it. It checks that none of the defined resources is served afterwards.
func TestConcurrentDefineAndDelete(t *testing.T) {
	const rounds, versions = 200, 40
	s, err := apiserver.New(apiserver.Options{})
	check.NoError(t, err)
	defer s.Close()
	do := func(method, path string, body []byte) int {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(method, path, bytes.NewReader(body)))
		return w.Code
	}
	crd := widgetDefinition()
	var all []any // enough versions to make the creation slow
	for i := range versions {
		all = append(all, map[string]any{"name": fmt.Sprintf("v%d", i+1), "served": true, "storage": i == 0})
	}
	check.NoError(t, unstructured.SetNestedSlice(crd.Object, all, "spec", "versions"))
	definition, err := json.Marshal(crd.Object)
	check.NoError(t, err)
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	for round := range rounds {
		var both sync.WaitGroup
		both.Go(func() {
			check.Equal(t, do(http.MethodPost, path, definition), http.StatusCreated, "POST")
		})
		both.Go(func() {
			for do(http.MethodDelete, path+"/widgets.example.com", nil) == http.StatusNotFound {
			}
		})
		both.Wait()
		if code := do(http.MethodGet, "/apis/example.com", nil); code != http.StatusNotFound {
			t.Fatalf("round %d: discovery without a definition: %d", round, code)
		}
	}
}
