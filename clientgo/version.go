package clientgo

import (
	"maps"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// versionOf is an object's own resourceVersion, "" if it has none.
func versionOf(value any) string {
	m, err := meta.Accessor(value)
	if err != nil {
		return ""
	}
	return m.GetResourceVersion()
}

// withVersion is a copy of an object, as shallow as can be, with another resourceVersion.
func withVersion(value any, version string) any {
	v := reflect.ValueOf(value)
	if v.Kind() != reflect.Pointer || v.IsNil() || versionOf(value) == version {
		return value
	}
	if u, ok := value.(*unstructured.Unstructured); ok {
		return unstructuredWithVersion(u, version)
	}
	c := reflect.New(v.Type().Elem())
	c.Elem().Set(v.Elem())
	m, ok := c.Interface().(metav1.ObjectMetaAccessor)
	if !ok {
		return value
	}
	m.GetObjectMeta().SetResourceVersion(version)
	return c.Interface()
}

func unstructuredWithVersion(u *unstructured.Unstructured, version string) any {
	content := maps.Clone(u.Object)
	if metadata, ok := content["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		metadata["resourceVersion"] = version
		content["metadata"] = metadata
	}
	return &unstructured.Unstructured{Object: content}
}
