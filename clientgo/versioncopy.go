package clientgo

import (
	"maps"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/wire"
)

// resourceVersionOf returns the resourceVersion that an object states, or "" if it has none.
func resourceVersionOf(value any) string {
	id, err := wire.IdentityOf(value)
	if err != nil {
		return ""
	}
	return id.ResourceVersion
}

// withResourceVersion returns a shallow copy of value, with the given resourceVersion. It returns
// value itself if value already has this version, if a shallow copy would share the metadata, or if
// the version cannot be set.
func withResourceVersion(value any, version string) any {
	v := reflect.ValueOf(value)
	if v.Kind() != reflect.Pointer || v.IsNil() || resourceVersionOf(value) == version {
		return value
	}
	if u, ok := value.(*unstructured.Unstructured); ok {
		return unstructuredWithResourceVersion(u, version)
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
	defer func() {
		if recover() != nil { // GetObjectMeta panicked: an embedded interface is nil
			owns = false
		}
	}()
	of, ok := value.(metav1.ObjectMetaAccessor)
	if !ok {
		return false
	}
	was, is := reflect.ValueOf(of.GetObjectMeta()), reflect.ValueOf(duplicate.(metav1.ObjectMetaAccessor).GetObjectMeta())
	return was.Kind() == reflect.Pointer && is.Kind() == reflect.Pointer && was.Pointer() != is.Pointer()
}

func unstructuredWithResourceVersion(u *unstructured.Unstructured, version string) any {
	content := maps.Clone(u.Object)
	if metadata, ok := content["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		metadata["resourceVersion"] = version
		content["metadata"] = metadata
	}
	return &unstructured.Unstructured{Object: content}
}
