package clientgo

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hasWireForm reports whether objects of a pointer's type can be decoded from servers' responses.
// It is false for internal types, which have no json tag at their ObjectMeta: their client's codec
// converts them from a version of the API.
func hasWireForm(t reflect.Type) bool {
	for _, f := range reflect.VisibleFields(t.Elem()) {
		if f.Type != reflect.TypeFor[metav1.ObjectMeta]() && f.Type != reflect.TypeFor[*metav1.ObjectMeta]() {
			continue
		}
		if _, tagged := f.Tag.Lookup("json"); !tagged {
			return false
		}
	}
	return true
}
