package answers

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
)

// defineCustom creates the CRDs of three custom resources, and waits until they are served. One
// resource is namespaced and has two versions. The other two are cluster-scoped.
func defineCustom(ctx context.Context) error {
	client, err := dynamic.NewForConfig(shared.Config())
	if err != nil {
		return err
	}
	home := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}}}
	if _, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Create(ctx, home, metav1.CreateOptions{}); err != nil {
		return err
	}
	for _, name := range []string{kept, changed, gone} {
		if _, err := client.Resource(definitions).Create(ctx, definition(name), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	for ctx.Err() == nil {
		established, err := client.Resource(definitions).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		all := true
		for i := range established.Items {
			conditions, _, _ := unstructured.NestedSlice(established.Items[i].Object, "status", "conditions")
			all = all && len(conditions) > 1
		}
		served, err := listable()
		if err == nil && all && len(customOf(served)) == 4 {
			return nil
		}
	}
	return ctx.Err()
}

func customOf(all []*resource) (custom []*resource) {
	for _, r := range all {
		if r.custom() {
			custom = append(custom, r)
		}
	}
	return custom
}

// definition returns the CRD of the custom resource whose plural is name.
func definition(name string) *unstructured.Unstructured {
	scope, versions := "Cluster", []any{version("v1", true)}
	if name == kept {
		scope, versions = "Namespaced", append(versions, version("v2", false))
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": definitions.GroupVersion().String(), "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": name + "." + customGroup},
		"spec": map[string]any{
			"group": customGroup, "scope": scope, "versions": versions,
			"names": map[string]any{"plural": name, "kind": kindOf(name), "listKind": "ListOf" + kindOf(name)},
		},
	}}
}

func kindOf(plural string) string { return "Answer" + plural[len(prefix):] }

// version returns a version of a custom resource for its CRD. The schema has values that JSON and
// protobuf encoders could write in different ways.
func version(name string, storage bool) map[string]any {
	return map[string]any{
		"name": name, "served": true, "storage": storage, "deprecated": !storage,
		"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "description": "<&> \u2028", "properties": map[string]any{
			"spec": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true, "required": []any{}, "default": map[string]any{}},
			"size": map[string]any{"type": "number", "default": 1.50, "maximum": 1e21, "enum": []any{1.5, 2, 1e21}},
		}}},
		"additionalPrinterColumns": []any{},
	}
}

// putCustom creates or updates the objects of the custom resources, with random values. It also
// changes an annotation of a CRD.
func putCustom(ctx context.Context, seed int64, names ...string) error {
	client, err := dynamic.NewForConfig(shared.Config())
	if err != nil {
		return err
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"seed":"%d"}}}`, seed)
	if _, err := client.Resource(definitions).Patch(ctx, changed+"."+customGroup, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	d := rand.New(rand.NewPCG(uint64(seed), 0))
	return eachCustom(func(r *resource, of dynamic.ResourceInterface) error {
		for _, name := range names {
			o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"any": anyJSON(d, 4)}}}
			o.SetAPIVersion(r.GroupVersion().String())
			o.SetKind(r.kind)
			o.SetName(name)
			o.SetAnnotations(map[string]string{"seed": fmt.Sprint(seed)})
			was, err := of.Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				_, err = of.Create(ctx, o, metav1.CreateOptions{})
			} else if err == nil {
				o.SetResourceVersion(was.GetResourceVersion())
				_, err = of.Update(ctx, o, metav1.UpdateOptions{})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// anyJSON returns a random JSON value. depth bounds the nesting of lists and objects.
func anyJSON(d *rand.Rand, depth int) any {
	n := d.IntN(9)
	if depth == 0 {
		n = d.IntN(6)
	}
	switch n {
	case 0:
		return nil
	case 1:
		return d.IntN(2) == 0
	case 2:
		return d.Int64() - math.MaxInt64/2
	case 3:
		return []any{0.5, 1.0, 1e21, 1e20, 1e-7, 0.0, math.MaxFloat64}[d.IntN(7)]
	case 4, 5:
		return []string{"", "<a href=\"&\">", "\u2028\u2029", "\t\n\\", "é漢字\U0001f600", "\x00\x1f", "\ufffd"}[d.IntN(7)]
	case 6:
		list := []any{}
		for range d.IntN(4) {
			list = append(list, anyJSON(d, depth-1))
		}
		return list
	}
	object := map[string]any{}
	for range d.IntN(5) {
		object[[]string{"z", "a", "A", "<", "é", "kind", "apiVersion", "metadata", ""}[d.IntN(9)]] = anyJSON(d, depth-1)
	}
	return object
}

// deleteCustom deletes the object with the given name of each custom resource, if it exists.
func deleteCustom(ctx context.Context, name string) error {
	return eachCustom(func(r *resource, of dynamic.ResourceInterface) error {
		err := of.Delete(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// eachCustom calls f for the storage version (v1) of each custom resource. It returns the first
// error.
func eachCustom(f func(r *resource, of dynamic.ResourceInterface) error) error {
	client, err := dynamic.NewForConfig(shared.Config())
	if err != nil {
		return err
	}
	for _, r := range customOf(served) {
		if r.Version != "v1" {
			continue
		}
		of := dynamic.ResourceInterface(client.Resource(r.GroupVersionResource))
		if r.namespaced {
			of = client.Resource(r.GroupVersionResource).Namespace(namespace)
		}
		if err := f(r, of); err != nil {
			return err
		}
	}
	return nil
}

// queries are the queries of the LISTs that TestEnvelopes compares. {N} is replaced by a
// resourceVersion.
var queries = []string{
	"resourceVersion=0", "resourceVersion=0&limit=2", "resourceVersion={N}", "resourceVersion={N}&resourceVersionMatch=NotOlderThan",
	"resourceVersion={N}&resourceVersionMatch=Exact", "resourceVersion={N}&resourceVersionMatch=Exact&limit=1",
	"resourceVersion={N}&resourceVersionMatch=Exact&limit=2", "resourceVersion={N}&resourceVersionMatch=Exact&limit=3",
	"resourceVersion={N}&resourceVersionMatch=Exact&limit=500", "resourceVersion={N}&limit=1",
	"resourceVersion=0&fieldSelector=metadata.name%3Dnothing", "resourceVersion=0&labelSelector=nothing",
	"resourceVersion={N}&resourceVersionMatch=Exact&limit=1&labelSelector=!nothing",
	"resourceVersion={N}&resourceVersionMatch=Exact&limit=1&fieldSelector=metadata.name!%3Dnothing",
	"resourceVersion=0&fieldSelector=metadata.name%3D" + kept,
}

// TestEnvelopes compares empty lists, lists of one page and lists of several pages. It deletes
// three objects of each resource one after the other, and repeats the comparison after each
// deletion.
func TestEnvelopes(t *testing.T) {
	ctx := shared.Begin(t, deadline)
	c := newComparison(t, ctx)
	fill(t, ctx, fixedSeed, kept, changed, gone)
	remaining := []string{kept, changed, gone}
	pages := 0
	for _, name := range []string{made, gone, changed, kept} {
		if name != made { // another test may have created it
			remaining = remaining[:len(remaining)-1]
		}
		remove(t, ctx, name)
		for _, r := range served {
			if !r.custom() && r.Resource != "configmaps" && r.Resource != "statefulsets" && r.Resource != "clusterroles" {
				continue
			}
			version := c.listed(t, ctx, r, remaining...)
			for _, query := range queries {
				for _, accept := range []string{jsonType, jsonType + metadataList, jsonType + metadataList + "beta1"} {
					pages += c.pages(t, ctx, r, r.path()+"?"+strings.ReplaceAll(query, "{N}", version), accept)
				}
			}
		}
	}
	if pages < 100 {
		t.Errorf("%d pages follow others", pages)
	}
}

// pages compares a LIST and its further pages. It returns the number of further pages.
func (c *comparison) pages(t *testing.T, ctx context.Context, r *resource, target, accept string) (n int) {
	t.Helper()
	first, _, _ := strings.Cut(target, "resourceVersion=")
	_, limit, _ := strings.Cut(target, "&limit=")
	for ours, theirs := target, target; ; n++ {
		a, err := c.ours.ask(ctx, ours, accept, 0)
		check.NoError(t, err)
		b, err := c.theirs.ask(ctx, theirs, accept, 0)
		check.NoError(t, err)
		if a.code != http.StatusOK || b.code != http.StatusOK || !a.cached {
			t.Errorf("%s as %s: the proxy answers %d, from its cache: %v; kube-apiserver %d: %.200s", ours, accept, a.code, a.cached, b.code, b.parts[0])
			return n
		}
		if text := difference(cluster.ComparableList(a.parts[0]), cluster.ComparableList(b.parts[0])); text != "" {
			c.fault(t, "page "+strings.Trim(target, "0123456789"), r, accept, "%s: %s", target, text)
			return n
		}
		next, other := tokenOf(t, a), tokenOf(t, b)
		if next == "" || other == "" {
			return n
		}
		ours, theirs = first+"limit="+limit+"&continue="+next, first+"limit="+limit+"&continue="+other
	}
}

func tokenOf(t *testing.T, a *answer) string {
	t.Helper()
	var list struct{ Metadata struct{ Continue string } }
	check.NoError(t, json.Unmarshal(a.parts[0], &list))
	return list.Metadata.Continue
}
