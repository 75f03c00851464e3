package apiserver_test

import (
	"net/url"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// servedKind is a kind in discovery.
type servedKind struct {
	schema.GroupVersion
	metav1.APIResource
}

// everyKind asks discovery for all kinds that can be created.
func (ts *testServer) everyKind() []servedKind {
	ts.t.Helper()
	_, lists, err := ts.typed.Discovery().ServerGroupsAndResources()
	check.NoError(ts.t, err)
	var out []servedKind
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"create", "list"}}, lists) {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		check.NoError(ts.t, err)
		for _, r := range list.APIResources {
			out = append(out, servedKind{gv, r})
		}
	}
	if len(out) < 60 {
		ts.t.Errorf("only %d kinds", len(out))
	}
	return out
}

// object returns an object of the kind with only a name.
func (k servedKind) object() *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(k.WithKind(k.Kind))
	o.SetName("a")
	if k.Kind == "IPAddress" {
		o.SetName("fd00::1")
	}
	return o
}

// path returns the path of all objects of the kind.
func (k servedKind) path() string {
	if k.GroupVersion.Group == "" {
		return "/api/v1/" + k.Name
	}
	return "/apis/" + k.GroupVersion.String() + "/" + k.Name
}

// collection returns the path of the objects in namespace default, or of the cluster.
func (k servedKind) collection() string {
	if !k.Namespaced {
		return k.path()
	}
	return strings.TrimSuffix(k.path(), k.Name) + "namespaces/default/" + k.Name
}

// TestEveryKind creates, reads, lists, watches and deletes one object of each kind in discovery.
func TestEveryKind(t *testing.T) {
	withTestServer(t, apiserver.Options{}, func(t *testing.T, ts *testServer) {
		for _, k := range ts.everyKind() {
			if k.Kind != "CustomResourceDefinition" { // has a test of its own
				ts.liveThrough(k)
			}
		}
	})
}

func (ts *testServer) liveThrough(k servedKind) {
	ts.t.Helper()
	client := ts.dynamic.Resource(k.WithResource(k.Name)).Namespace("")
	if k.Namespaced {
		client = ts.dynamic.Resource(k.WithResource(k.Name)).Namespace("default")
	}
	name := k.object().GetName()
	selected := "fieldSelector=metadata.name%3D" + url.QueryEscape(name)
	created, err := client.Create(ctx, k.object(), metav1.CreateOptions{})
	if err != nil {
		ts.t.Errorf("%s: %v", k.Name, err)
		return
	}
	got, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil || got.GetKind() != k.Kind || got.GetUID() != created.GetUID() {
		ts.t.Errorf("%s: got %v, %v", k.Name, got, err)
	}
	partial, err := ts.metadata.Resource(k.WithResource(k.Name)).List(ctx, metav1.ListOptions{LabelSelector: "x!=y"})
	if err != nil || partial.Items[0].GetName() != name {
		ts.t.Errorf("%s: listed %v, %v", k.Name, partial, err)
	}
	a := ts.do("GET", k.path()+"?"+selected, nil, "Accept", "application/vnd.kubernetes.protobuf")
	// The oldest k8s.io/api lacks storagemigration.k8s.io/v1 and some other kinds.
	switch hasType := scheme.Scheme.Recognizes(k.WithKind(k.Kind)) && k.GroupVersion.Group != "storagemigration.k8s.io"; {
	case !hasType && a.code != 406:
		ts.t.Errorf("%s: protobuf without a Go type: %d", k.Name, a.code)
	case hasType && (a.code != 200 || a.header.Get("Content-Type") != "application/vnd.kubernetes.protobuf"):
		ts.t.Errorf("%s: protobuf: %d", k.Name, a.code)
	}
	w := ts.watch(k.path() + "?watch=1&" + selected)
	defer w.close()
	check.Equal(ts.t, w.next(), "ADDED "+name+"@"+created.GetResourceVersion(), "%s", k.Name)
	if err := client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		ts.t.Errorf("%s: %v", k.Name, err)
	}
}
