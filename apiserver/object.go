package apiserver

import (
	"reflect"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/request"
)

// object is an object of a write request: a pointer to a Go type of the scheme, or an
// *unstructured.Unstructured.
type object interface {
	metav1.Object
	runtime.Object
}

func copyOf(o object) object { return o.DeepCopyObject().(object) } // a copy has the same type

// marshal encodes an object for the store. In an unstructured object, it first sets the kind and
// the apiVersion. Stored objects have the same apiVersion for all versions of the resource.
func (res *servedResource) marshal(o object) ([]byte, error) {
	if u, ok := o.(*unstructured.Unstructured); ok {
		u.SetAPIVersion(res.storage.apiVersion)
		u.SetKind(res.Kind)
	}
	return codec.Marshal(res.storage.encoding, o)
}

// unmarshal decodes stored bytes. In an unstructured object, it sets the apiVersion of the served
// version.
func (res *servedResource) unmarshal(raw []byte) (object, error) {
	value, err := res.values.Decode(raw, nil)
	if err != nil {
		return nil, err
	}
	o := value.(object) // every type in the store implements object
	if u, ok := o.(*unstructured.Unstructured); ok {
		u.SetAPIVersion(res.GroupVersion().String())
	}
	return o, nil
}

// current returns the stored object that a path names, both as bytes and decoded. It returns a 404
// if the object does not exist.
func (res *servedResource) current(q request.Path) (raw []byte, o object, err error) {
	raw, ok, err := res.storage.get(key(q.Namespace, q.Name))
	switch {
	case err != nil:
		return nil, nil, apierrors.NewInternalError(err)
	case !ok:
		return nil, nil, apierrors.NewNotFound(res.groupResource(), q.Name)
	}
	if o, err = res.unmarshal(raw); err != nil {
		return nil, nil, apierrors.NewInternalError(err)
	}
	return raw, o, nil
}

// statusField returns the Status field of a typed object. ok is false if it has none.
func statusField(o object) (v reflect.Value, ok bool) {
	v = reflect.ValueOf(o).Elem().FieldByName("Status")
	return v, v.IsValid()
}

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

// resetStatus sets the initial status of a new object.
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

// specChanged reports whether two objects differ outside metadata and status. For unstructured
// objects, it also compares the status, because a status without a subresource counts as spec. If
// there is a status subresource, the caller must have copied the status from one object to the
// other first.
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

// builtinScheme contains the Go types of the built-in kinds, each in one version. client-go's
// scheme contains all versions, twice as many types, and would link all of them. builtinScheme
// omits storagemigration.k8s.io/v1, which the oldest supported k8s.io/api does not have.
var builtinScheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	groups := runtime.NewSchemeBuilder(
		admissionregistrationv1.AddToScheme, appsv1.AddToScheme, authenticationv1.AddToScheme, authorizationv1.AddToScheme,
		autoscalingv1.AddToScheme, autoscalingv2.AddToScheme, batchv1.AddToScheme, certificatesv1.AddToScheme,
		coordinationv1.AddToScheme, corev1.AddToScheme, discoveryv1.AddToScheme, eventsv1.AddToScheme,
		flowcontrolv1.AddToScheme, networkingv1.AddToScheme, nodev1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme,
		resourcev1.AddToScheme, schedulingv1.AddToScheme, storagev1.AddToScheme,
	)
	utilruntime.Must(groups.AddToScheme(s)) // a test creates every built-in kind from it
	return s
}()
