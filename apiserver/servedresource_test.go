package apiserver_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/weirproject/weir/apiserver"
)

// TestEveryKind creates, reads, lists, watches and deletes one object of each kind that discovery
// tells of.
func TestEveryKind(t *testing.T) {
	inCluster(t, apiserver.Options{}, func(t *testing.T, c *cluster) {
		_, lists, err := c.typed.Discovery().ServerGroupsAndResources()
		if err != nil {
			t.Fatal(err)
		}
		kinds := 0
		for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"create", "list"}}, lists) {
			gv, err := schema.ParseGroupVersion(list.GroupVersion)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range list.APIResources {
				if r.Kind != "CustomResourceDefinition" { // has a test of its own
					kinds++
					c.liveThrough(gv, r)
				}
			}
		}
		if kinds < 60 {
			t.Errorf("only %d kinds", kinds)
		}
	})
}

func (c *cluster) liveThrough(gv schema.GroupVersion, r metav1.APIResource) {
	c.t.Helper()
	client := c.dynamic.Resource(gv.WithResource(r.Name)).Namespace("")
	if r.Namespaced {
		client = c.dynamic.Resource(gv.WithResource(r.Name)).Namespace("default")
	}
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(gv.WithKind(r.Kind))
	o.SetName("a")
	created, err := client.Create(ctx, o, metav1.CreateOptions{})
	if err != nil {
		c.t.Errorf("%s: %v", r.Name, err)
		return
	}
	got, err := client.Get(ctx, "a", metav1.GetOptions{})
	if err != nil || got.GetKind() != r.Kind || got.GetUID() != created.GetUID() {
		c.t.Errorf("%s: got %v, %v", r.Name, got, err)
	}
	partial, err := c.metadata.Resource(gv.WithResource(r.Name)).List(ctx, metav1.ListOptions{LabelSelector: "x!=y"})
	if err != nil || partial.Items[0].GetName() != "a" {
		c.t.Errorf("%s: listed %v, %v", r.Name, partial, err)
	}
	path := "/apis/" + gv.String() + "/" + r.Name
	if gv.Group == "" {
		path = "/api/v1/" + r.Name
	}
	a := c.do("GET", path+"?fieldSelector=metadata.name%3Da", nil, "Accept", "application/vnd.kubernetes.protobuf")
	// storagemigration.k8s.io/v1 is not in the oldest k8s.io/api, which lacks some other kinds as well.
	switch hasType := scheme.Scheme.Recognizes(gv.WithKind(r.Kind)) && gv.Group != "storagemigration.k8s.io"; {
	case !hasType && a.code != 406:
		c.t.Errorf("%s: protobuf without a Go type: %d", r.Name, a.code)
	case hasType && (a.code != 200 || a.header.Get("Content-Type") != "application/vnd.kubernetes.protobuf"):
		c.t.Errorf("%s: protobuf: %d", r.Name, a.code)
	}
	w := c.watch(path + "?watch=1&fieldSelector=metadata.name%3Da")
	defer w.close()
	if e, want := w.next(), "ADDED a@"+created.GetResourceVersion(); e != want {
		c.t.Errorf("%s: %s, want %s", r.Name, e, want)
	}
	if err := client.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		c.t.Errorf("%s: %v", r.Name, err)
	}
}
