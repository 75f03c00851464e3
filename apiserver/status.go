package apiserver

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// statusField returns the Status field of a typed object. ok is false if it has none.
func statusField(o object) (v reflect.Value, ok bool) {
	v = reflect.ValueOf(o).Elem().FieldByName("Status")
	return v, v.IsValid()
}

// copyStatus copies the status from one object to another.
func copyStatus(to, from object) {
	if u, ok := to.(*unstructured.Unstructured); ok {
		status, found := from.(*unstructured.Unstructured).Object["status"]
		if found {
			u.Object["status"] = status
		} else {
			delete(u.Object, "status")
		}
		return
	}
	target, ok := statusField(to)
	if !ok {
		return
	}
	if source, ok := statusField(from); ok {
		target.Set(source)
	}
}

// resetStatus sets the status of a new object.
func resetStatus(o object) {
	switch o := o.(type) {
	case *unstructured.Unstructured:
		delete(o.Object, "status")
		return
	case *corev1.Node: // kubelets create it with a status
		return
	case *corev1.Pod:
		o.Status = corev1.PodStatus{Phase: corev1.PodPending}
		return
	case *corev1.Namespace:
		o.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
		return
	}
	if v, ok := statusField(o); ok {
		v.SetZero()
	}
}

// specChanged reports whether anything except metadata and the status of a Go type differs. An
// unstructured object's status counts, too: if only the status subresource can change it, it is
// equal here.
func specChanged(a, b object) bool {
	if ua, ok := a.(*unstructured.Unstructured); ok {
		return !equality.Semantic.DeepEqual(specOf(ua), specOf(b.(*unstructured.Unstructured)))
	}
	va, vb := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	for i := range va.NumField() {
		switch va.Type().Field(i).Name {
		case "TypeMeta", "ObjectMeta", "Status":
			continue
		}
		if !equality.Semantic.DeepEqual(va.Field(i).Interface(), vb.Field(i).Interface()) {
			return true
		}
	}
	return false
}

func specOf(u *unstructured.Unstructured) map[string]any {
	out := make(map[string]any, len(u.Object))
	for k, v := range u.Object {
		switch k {
		case "apiVersion", "kind", "metadata":
		default:
			out[k] = v
		}
	}
	return out
}
