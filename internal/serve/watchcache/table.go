package watchcache

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1beta3 "k8s.io/api/flowcontrol/v1beta3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/columns"
	"github.com/weirproject/weir/internal/core/wire"
)

// row returns the table row of one object.
func (rep *representation) row(raw []byte) (metav1.TableRow, error) {
	p, err := rep.partialMetadata(raw)
	if err != nil {
		return metav1.TableRow{}, err
	}
	row := metav1.TableRow{}
	object := any(p)
	if rep.resource.Columns != nil {
		if object, err = rep.codec.DecodeShared(raw, nil); err != nil {
			return row, err
		}
	}
	row.Cells = rep.resource.columns().Cells(object, time.Now())
	switch rep.rowObject {
	case metav1.IncludeNone:
	case metav1.IncludeObject:
		object, err := rep.whole(raw)
		if err != nil {
			return row, err
		}
		row.Object = runtime.RawExtension{Raw: object}
	default:
		p.ManagedFields = nil // no table shows them
		row.Object = runtime.RawExtension{Object: p}
	}
	return row, nil
}

// whole returns an object as JSON, with its apiVersion and kind.
func (rep *representation) whole(raw []byte) ([]byte, error) {
	whole := representation{resource: rep.resource, codec: rep.codec, stored: rep.stored}
	whole.Encoding = wire.JSON
	object, err := whole.object(raw)
	if err != nil {
		return nil, err
	}
	return wire.AppendObject(nil, wire.JSON, rep.resource.typeMeta(), object), nil
}

// columns returns the columns of the resource, by default Name and Age.
func (r *Resource) columns() *columns.Set {
	if r.Columns == nil {
		return columns.Of(schema.GroupVersionKind{})
	}
	return r.Columns
}

func (rep *representation) newTable() *metav1.Table {
	tm := rep.typeMeta()
	return &metav1.Table{
		TypeMeta:          metav1.TypeMeta{APIVersion: tm.APIVersion, Kind: tm.Kind},
		ColumnDefinitions: rep.resource.columns().Definitions(),
		Rows:              []metav1.TableRow{},
	}
}

// appendTable appends a table that contains one object.
func (rep *representation) appendTable(dst, raw []byte) ([]byte, error) {
	row, err := rep.row(raw)
	if err != nil {
		return dst, err
	}
	var m wire.Meta
	if err := wire.ReadMeta(rep.stored, raw, &m); err != nil {
		return dst, err
	}
	t := rep.newTable()
	t.ResourceVersion = string(m.ResourceVersion)
	t.Rows = append(t.Rows, row)
	text, err := codec.Marshal(wire.JSON, t)
	return append(dst, text...), err
}

// For every response, kube-apiserver converts an object from its internal form to one of its
// versions, or to only its metadata. This conversion changes the object. The code below makes the
// same changes where they are missing in the protobuf form of the object.

// convertedAnnotations are the annotations in which an API version stores fields that it does not
// have itself. The internal version has these fields, so kube-apiserver's responses with only
// metadata lack the annotations.
var convertedAnnotations = map[schema.GroupVersionKind][]string{
	appsv1.SchemeGroupVersion.WithKind("DaemonSet"):  {appsv1.DeprecatedTemplateGeneration},
	appsv1.SchemeGroupVersion.WithKind("Deployment"): {appsv1.DeprecatedRollbackTo},
	autoscalingv1.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"): {
		"autoscaling.alpha.kubernetes.io/metrics", "autoscaling.alpha.kubernetes.io/current-metrics",
		"autoscaling.alpha.kubernetes.io/conditions", "autoscaling.alpha.kubernetes.io/behavior",
	},
	flowcontrolv1beta3.SchemeGroupVersion.WithKind("PriorityLevelConfiguration"): {flowcontrolv1beta3.PriorityLevelPreserveZeroConcurrencySharesKey},
}

// conversion says how the objects of a resource must be changed for a response.
type conversion struct {
	// annotations are removed from responses with only metadata.
	annotations []string
	// typeMeta is the start of a stored JSON object of a built-in kind: its kind and apiVersion.
	// Responses contain them in events and GETs, but not in the items of lists. So the cache removes
	// them from stored objects, and adds them where they belong. nil: the cache does not remove them.
	typeMeta []byte
}

func newConversion(r *Resource, enc wire.Encoding) conversion {
	c := conversion{annotations: convertedAnnotations[r.GroupVersionKind()]}
	if enc == wire.JSON && !r.Custom {
		const rest = `"metadata":`
		object := wire.AppendObject(nil, wire.JSON, r.typeMeta(), []byte("{"+rest+"{}}"))
		c.typeMeta = object[:bytes.Index(object, []byte(rest))]
	}
	return c
}

// cutTypeMeta returns the rest of a JSON object after its apiVersion and kind. ok is false if the
// object does not start with them.
func (c *conversion) cutTypeMeta(object []byte) (rest []byte, ok bool) {
	if c.typeMeta == nil {
		return nil, false
	}
	return bytes.CutPrefix(object, c.typeMeta)
}

// removeAnnotations removes the annotations that a response with only metadata must not contain.
func (c *conversion) removeAnnotations(p *metav1.PartialObjectMetadata) {
	maps.DeleteFunc(p.Annotations, func(name, _ string) bool { return slices.Contains(c.annotations, name) })
}

// emptyObject returns an object of a built-in kind that has only metadata, for a bookmark.
func (r *Resource) emptyObject(p *metav1.PartialObjectMetadata) any {
	if r.Type == nil {
		return p
	}
	object := reflect.New(r.Type).Interface()
	m, ok := object.(metav1.Object)
	if !ok {
		return p
	}
	m.SetResourceVersion(p.ResourceVersion)
	m.SetAnnotations(p.Annotations)
	// In kube-apiserver's internal form, these fields are not pointers, so they are always set.
	switch o := object.(type) {
	case *appsv1.DaemonSet:
		annotations := map[string]string{appsv1.DeprecatedTemplateGeneration: "0"}
		maps.Copy(annotations, p.Annotations)
		m.SetAnnotations(annotations)
	case *appsv1.Deployment:
		o.Spec.Replicas = new(int32)
	case *appsv1.ReplicaSet:
		o.Spec.Replicas = new(int32)
	case *appsv1.StatefulSet:
		o.Spec.Replicas = new(int32)
	}
	return object
}

// customBookmark returns a custom object that has only metadata, for a bookmark.
func (r *Resource) customBookmark(p *metav1.PartialObjectMetadata) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(r.GroupVersionKind())
	u.SetResourceVersion(p.ResourceVersion)
	if len(p.Annotations) > 0 {
		u.SetAnnotations(p.Annotations)
	}
	return u
}

// withNestedKinds returns a decoded object in which nested objects state their kinds. JSON requires
// these kinds, and protobuf does not store them. withNestedKinds does not modify parts that the
// object may share.
func withNestedKinds(object any) any {
	set, ok := object.(*appsv1.StatefulSet)
	if !ok || len(set.Spec.VolumeClaimTemplates) == 0 {
		return object
	}
	whole := *set
	whole.Spec.VolumeClaimTemplates = slices.Clone(set.Spec.VolumeClaimTemplates)
	for i := range whole.Spec.VolumeClaimTemplates {
		whole.Spec.VolumeClaimTemplates[i].TypeMeta = metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "PersistentVolumeClaim"}
	}
	return &whole
}
