package populations

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/weirproject/weir/internal/testing/podsim"
)

// definition creates a CustomResourceDefinition with one version. Its schema has about 10 to 200
// KB.
func (m *mixed) definition(w *podsim.Words, i int) Object {
	kind := fmt.Sprintf("%s%d", w.Word(), i)
	plural, group := kind+"s", w.Word()+".example.com"
	at := moment(w).UTC().Format(time.RFC3339)
	names := map[string]any{
		"plural": plural, "singular": kind, "kind": strings.ToUpper(kind[:1]) + kind[1:], "listKind": strings.ToUpper(kind[:1]) + kind[1:] + "List",
	}
	condition := func(name, reason string) any {
		return map[string]any{"type": name, "status": "True", "reason": reason, "message": w.Text(30), "lastTransitionTime": at}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata": map[string]any{
			"name": plural + "." + group, "uid": string(podsim.UID(w.Rand)), "creationTimestamp": at, "generation": int64(1),
			"labels": map[string]any{"app.kubernetes.io/name": w.Word()},
		},
		"spec": map[string]any{
			"group": group, "names": names, "scope": podsim.Pick(w, "Namespaced", "Cluster"),
			"conversion": map[string]any{"strategy": "None"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"subresources": map[string]any{"status": map[string]any{}},
				"schema":       map[string]any{"openAPIV3Schema": definitionSchema(w)},
			}},
		},
		"status": map[string]any{
			"acceptedNames": names, "storedVersions": []any{"v1"},
			"conditions": []any{condition("NamesAccepted", "NoConflicts"), condition("Established", "InitialNamesAccepted")},
		},
	}}
}

func definitionSchema(w *podsim.Words) map[string]any {
	status := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	return map[string]any{
		"type": "object", "description": w.Text(w.Between(60, 300)),
		"properties": map[string]any{"spec": schemaOf(w, 3), "status": status},
	}
}

// schemaOf returns the schema of an object with at most depth levels of nested objects.
func schemaOf(w *podsim.Words, depth int) map[string]any {
	properties := map[string]any{}
	for _, name := range w.Several(3, 9, w.Word) {
		s := map[string]any{"description": w.Text(w.Between(40, 300))}
		switch n := w.Rand.IntN(6); {
		case depth > 0 && n < 3:
			maps.Copy(s, schemaOf(w, depth-1))
		case n == 3:
			s["type"], s["minimum"] = "integer", int64(w.Between(0, 9))
		case n == 4:
			s["type"], s["items"] = "array", map[string]any{"type": "string"}
		default:
			s["type"], s["maxLength"] = "string", int64(w.Between(10, 300))
		}
		properties[name] = s
	}
	return map[string]any{"type": "object", "properties": properties}
}
