package answers

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// defineCustom makes the custom resources: one with namespaces and two versions, and two without.
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

// customOf returns those of the resources that are custom.
func customOf(all []*resource) (custom []*resource) {
	for _, r := range all {
		if r.custom() {
			custom = append(custom, r)
		}
	}
	return custom
}

// definition returns the definition of a resource with this name.
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

// version returns a version of a custom resource. Its schema has values that JSON and protobuf may
// represent differently.
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

// putCustom sets random values in the custom resources' objects, and creates missing ones. It also
// changes a definition.
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

// anyJSON draws a JSON value that is nested up to a depth.
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

// deleteCustom deletes an object of the custom resources, if it exists.
func deleteCustom(ctx context.Context, name string) error {
	return eachCustom(func(r *resource, of dynamic.ResourceInterface) error {
		err := of.Delete(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// eachCustom calls f for each custom resource, in the version in which it is stored.
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
