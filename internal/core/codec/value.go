package codec

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirproject/weir/internal/core/wire"
)

// Copy returns a deep copy of a value, made by the value's DeepCopyObject. ok is false if the value
// has no such method, or if the method panics or returns nil. client-go does not copy objects, so a
// type may work with client-go although its DeepCopyObject panics.
func Copy(value any) (duplicate any, ok bool) {
	object, ok := value.(runtime.Object)
	if !ok {
		return nil, false
	}
	defer func() {
		if recover() != nil {
			duplicate, ok = nil, false
		}
	}()
	made := object.DeepCopyObject()
	if v := reflect.ValueOf(made); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, false
	}
	return made, true
}

// SetIdentity sets the metadata fields that identify a version of a value. It returns false if the
// value has no metadata, or if a setter panics.
func SetIdentity(value any, id wire.Identity) (ok bool) {
	return setMeta(value, func(m metav1.Object) {
		m.SetNamespace(id.Namespace)
		m.SetName(id.Name)
		m.SetUID(types.UID(id.UID))
		m.SetResourceVersion(id.ResourceVersion)
	})
}

// SetResourceVersion sets the resourceVersion of a value. It returns false in the same cases as
// SetIdentity.
func SetResourceVersion(value any, version string) (ok bool) {
	return setMeta(value, func(m metav1.Object) { m.SetResourceVersion(version) })
}

func setMeta(value any, set func(metav1.Object)) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	m, err := meta.Accessor(value)
	if err != nil {
		return false
	}
	set(m)
	return true
}
