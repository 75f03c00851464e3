package wire

import (
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestEveryListIsLaidOutAlike checks what the protobuf readers assume about every kind that can be
// listed. The kind of the list ends in List. Field 1 of the list is its metadata, and field 2 its
// items. Field 1 of each item is its metadata.
func TestEveryListIsLaidOutAlike(t *testing.T) {
	lists := 0
	for gvk, typ := range apiScheme.AllKnownTypes() {
		items, ok := typ.FieldByName("Items")
		meta, hasMeta := typ.FieldByName("ListMeta")
		if !ok || !hasMeta || meta.Type != reflect.TypeFor[metav1.ListMeta]() {
			continue
		}
		item := items.Type.Elem()
		objectMeta, ok := item.FieldByName("ObjectMeta")
		if !ok {
			// a v1 List, whose items are of any kind, or a type without metadata that only the API server
			// uses
			continue
		}
		if _, tagged := FieldNumber(objectMeta); !tagged {
			continue // an internal version
		}
		lists++
		if !strings.HasSuffix(gvk.Kind, "List") {
			t.Errorf("%v does not end in List", gvk)
		}
		for _, c := range []struct {
			field reflect.StructField
			want  uint32
		}{{meta, listMetadata}, {items, listItems}, {objectMeta, protoMetadata}} {
			if n, _ := FieldNumber(c.field); n != c.want {
				t.Errorf("%v: %s is field %d, want %d", gvk, c.field.Name, n, c.want)
			}
		}
	}
	if lists < 100 {
		t.Errorf("only %d lists seen", lists)
	}
}
