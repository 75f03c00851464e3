package clientgo

import (
	"maps"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/wire"
)

// withResourceVersion returns a shallow copy of value, with the given resourceVersion. It returns
// value itself if value already has this version, if a shallow copy would share the metadata, or if
// the version cannot be set.
func withResourceVersion(value any, version string) any {
	v := reflect.ValueOf(value)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return value
	}
	if id, err := wire.IdentityOf(value); err == nil && id.ResourceVersion == version {
		return value
	}
	if u, ok := value.(*unstructured.Unstructured); ok {
		content := maps.Clone(u.Object)
		if metadata, ok := content["metadata"].(map[string]any); ok {
			metadata = maps.Clone(metadata)
			metadata["resourceVersion"] = version
			content["metadata"] = metadata
		}
		return &unstructured.Unstructured{Object: content}
	}
	c := reflect.New(v.Type().Elem())
	c.Elem().Set(v.Elem())
	if !ownsMetadata(c.Interface(), value) || !codec.SetResourceVersion(c.Interface(), version) {
		return value
	}
	return c.Interface()
}

// ownsMetadata reports whether a copy of a value certainly does not share the value's metadata.
func ownsMetadata(duplicate, value any) (owns bool) {
	defer func() { _ = recover() }() // GetObjectMeta panics if an embedded interface is nil
	of, ok := value.(metav1.ObjectMetaAccessor)
	if !ok {
		return false
	}
	was, is := reflect.ValueOf(of.GetObjectMeta()), reflect.ValueOf(duplicate.(metav1.ObjectMetaAccessor).GetObjectMeta())
	return was.Kind() == reflect.Pointer && is.Kind() == reflect.Pointer && was.Pointer() != is.Pointer()
}
