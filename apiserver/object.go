package apiserver

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weirproject/weir/internal/core/codec"
)

// object is an object being written: a pointer to a Go type of the scheme, or an
// *unstructured.Unstructured.
type object interface {
	metav1.Object
	runtime.Object
}

func copyOf(o object) object { return o.DeepCopyObject().(object) } // a copy has the same type

// marshal encodes an object for the store. It sets the stored apiVersion in an unstructured one.
func (res *servedResource) marshal(o object) ([]byte, error) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		u.SetAPIVersion(res.storage.apiVersion)
		u.SetKind(res.Kind)
	}
	return codec.Marshal(o)
}

// unmarshal decodes stored bytes. It sets the served apiVersion in an unstructured object.
func (res *servedResource) unmarshal(raw []byte) (object, error) {
	value, err := res.values.Decode(raw)
	if err != nil {
		return nil, err
	}
	o := value.(object) // as new objects are
	if u, ok := o.(*unstructured.Unstructured); ok {
		u.SetAPIVersion(res.GroupVersion().String())
	}
	return o, nil
}
