package apiserver

import (
	"errors"
	"net/http"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/serve/watchcache"
)

// Scale contains the field paths of a scale subresource, such as "spec.replicas".
type Scale struct {
	SpecReplicas   string
	StatusReplicas string
	// Selector is the path of a field that contains a label selector as text. "" means that there is
	// none.
	Selector string
}

// builtinScale contains the paths for the built-in kinds. Their selector is a JSON object, not
// text.
var builtinScale = &Scale{SpecReplicas: "spec.replicas", StatusReplicas: "status.replicas", Selector: "spec.selector"}

// pathOf splits the path of a field.
func pathOf(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }

// serveScale answers a GET, a PUT or a PATCH of the scale subresource.
func (s *Server) serveScale(w http.ResponseWriter, r *http.Request, res *servedResource, q request.Path) error {
	change, err := res.scaleChange(w, r, q)
	if err != nil {
		return err
	}
	_, o, err := res.current(q)
	if err != nil {
		return err
	}
	if change != nil {
		raw, err := s.update(res, q, dryRun(r), change)
		if err != nil {
			return err
		}
		if o, err = res.unmarshal(raw); err != nil {
			return apierrors.NewInternalError(err)
		}
	}
	scale, err := res.scaleOf(o)
	if err != nil {
		return err
	}
	watchcache.WriteValue(w, r, http.StatusOK, scaleSubresource.typeMeta(), scale)
	return nil
}

// scaleChange returns a function that applies a PUT or a PATCH of the scale subresource to the
// object, for example to a Deployment. It returns nil for a GET.
func (res *servedResource) scaleChange(w http.ResponseWriter, r *http.Request, q request.Path) (func(object) (object, error), error) {
	var edit func(*autoscalingv1.Scale) (object, error)
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return nil, nil
	case http.MethodPut:
		wanted, err := scaleSubresource.fromRequest(w, r)
		if err != nil {
			return nil, err
		}
		edit = func(*autoscalingv1.Scale) (object, error) { return wanted, nil }
	case http.MethodPatch:
		apply, err := scaleSubresource.patcher(w, r)
		if err != nil {
			return nil, err
		}
		edit = func(scale *autoscalingv1.Scale) (object, error) { return scaleSubresource.patched(scale, apply, false) }
	default:
		return nil, errMethod()
	}
	return func(o object) (object, error) {
		scale, err := res.scaleOf(o)
		if err != nil {
			return nil, err
		}
		wanted, err := edit(scale)
		if err != nil {
			return nil, err
		}
		return res.withScale(o, wanted.(*autoscalingv1.Scale), q)
	}, nil
}

func (res *servedResource) scaleOf(o object) (*autoscalingv1.Scale, error) {
	u, err := res.toUnstructured(o)
	if err != nil {
		return nil, err
	}
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{
		Name: o.GetName(), Namespace: o.GetNamespace(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
		CreationTimestamp: o.GetCreationTimestamp(),
	}}
	replicas := func(path string) int32 {
		n, _, _ := unstructured.NestedInt64(u.Object, pathOf(path)...)
		return int32(n)
	}
	scale.Spec.Replicas, scale.Status.Replicas = replicas(res.Scale.SpecReplicas), replicas(res.Scale.StatusReplicas)
	if res.Scale.Selector == "" {
		return scale, nil
	}
	value, _, _ := unstructured.NestedFieldNoCopy(u.Object, pathOf(res.Scale.Selector)...)
	scale.Status.Selector, err = selectorText(value)
	return scale, err
}

// selectorText returns a label selector as text. value may be text, a LabelSelector as decoded JSON
// or, as in a ReplicationController, a map of labels.
func selectorText(value any) (string, error) {
	switch value := value.(type) {
	case string:
		return value, nil
	case map[string]any:
		if value["matchLabels"] == nil && value["matchExpressions"] == nil {
			set := labels.Set{}
			for name, v := range value {
				set[name], _ = v.(string)
			}
			return set.String(), nil
		}
		var selector metav1.LabelSelector
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(value, &selector); err != nil {
			return "", apierrors.NewInternalError(err)
		}
		parsed, err := metav1.LabelSelectorAsSelector(&selector)
		if err != nil {
			return "", apierrors.NewInternalError(err)
		}
		return parsed.String(), nil
	}
	return "", nil
}

func (res *servedResource) withScale(o object, scale *autoscalingv1.Scale, q request.Path) (object, error) {
	switch {
	case scale.Name != "" && scale.Name != q.Name:
		return nil, apierrors.NewBadRequest("the name of the object (" + scale.Name + ") does not match the name on the URL (" + q.Name + ")")
	case scale.UID != "" && scale.UID != o.GetUID(), scale.ResourceVersion != "" && scale.ResourceVersion != o.GetResourceVersion():
		return nil, apierrors.NewConflict(res.groupResource(), q.Name, errors.New(modifiedMessage))
	case scale.Spec.Replicas < 0:
		return nil, apierrors.NewInvalid(scaleSubresource.gvk.GroupKind(), q.Name, field.ErrorList{
			field.Invalid(field.NewPath("spec", "replicas"), scale.Spec.Replicas, "must be greater than or equal to 0")})
	}
	u, err := res.toUnstructured(o)
	if err != nil {
		return nil, err
	}
	if err := unstructured.SetNestedField(u.Object, int64(scale.Spec.Replicas), pathOf(res.Scale.SpecReplicas)...); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	text, err := u.MarshalJSON()
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return res.fromJSON(text, false)
}

func (b *bodyReader) toUnstructured(o object) (*unstructured.Unstructured, error) {
	text, err := b.toJSON(o)
	u := &unstructured.Unstructured{}
	if err == nil {
		err = u.UnmarshalJSON(text)
	}
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return u, nil
}
