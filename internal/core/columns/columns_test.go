package columns_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/core/columns"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestCells checks the rows of some kinds, without and with -o wide, and their verdicts. The
// end-to-end tests compare all kinds with kube-apiserver.
func TestCells(t *testing.T) {
	const metadata = `"metadata":{"name":"x","creationTimestamp":"2026-05-01T10:00:00Z"}`
	for _, tc := range []struct {
		gvk     schema.GroupVersionKind
		typed   any
		text    string
		headers string
		want    string
		health  string
	}{
		{appsv1.SchemeGroupVersion.WithKind("Deployment"), &appsv1.Deployment{},
			`"spec":{"replicas":3,"selector":{"matchLabels":{"a":"b"}},"template":{"spec":{"containers":[{"name":"c","image":"i"},{"name":"d","image":"j"}]}}},` +
				`"status":{"readyReplicas":2,"updatedReplicas":3,"availableReplicas":2}`,
			"Name Ready Up-to-date Available Age | Containers Images Selector", "x 2/3 3 2 120m | c,d i,j a=b", "not healthy"},
		{batchv1.SchemeGroupVersion.WithKind("Job"), &batchv1.Job{},
			`"spec":{"completions":2},"status":{"succeeded":2,"startTime":"2026-05-01T10:00:00Z","completionTime":"2026-05-01T10:00:07Z",` +
				`"conditions":[{"type":"Complete","status":"True"}]}`,
			"Name Status Completions Duration Age | Containers Images Selector", "x Complete 2/2 7s 120m |   <none>", "healthy"},
		{corev1.SchemeGroupVersion.WithKind("Service"), &corev1.Service{},
			`"spec":{"type":"LoadBalancer","clusterIPs":["10.0.0.1"],"ports":[{"port":80,"nodePort":30080,"protocol":"TCP"},{"port":53,"protocol":"UDP"}]}`,
			"Name Type Cluster-IP External-IP Port(s) Age | Selector", "x LoadBalancer 10.0.0.1 <pending> 80:30080/TCP,53/UDP 120m | <none>", "not healthy"},
		{corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), &corev1.PersistentVolumeClaim{},
			`"spec":{"volumeName":"v","volumeMode":"Block","resources":{"requests":{"storage":"1Gi"}}},` +
				`"status":{"phase":"Bound","capacity":{"storage":"2Gi"},"accessModes":["ReadWriteMany","ReadWriteOnce"]}`,
			"Name Status Volume Capacity Access Modes StorageClass VolumeAttributesClass Age | VolumeMode", "x Bound v 2Gi RWO,RWX  <unset> 120m | Block", "healthy"},
		{corev1.SchemeGroupVersion.WithKind("Event"), &corev1.Event{},
			`"involvedObject":{"kind":"Pod","name":"p"},"type":"Warning","reason":"Failed","message":" twice\nsaid ","lastTimestamp":"2026-05-01T11:59:00Z"`,
			"Last Seen Type Reason Object Message | Subobject Source First Seen Count Name", "60s Warning Failed pod/p twice... |   <unknown> 1 x", "not healthy"},
		{corev1.SchemeGroupVersion.WithKind("ServiceAccount"), &corev1.ServiceAccount{}, `"secrets":[]`, "Name Age |", "x 120m |", "no rule"},
	} {
		t.Run(tc.gvk.Kind, func(t *testing.T) {
			set := columns.Of(tc.gvk)
			for _, object := range forms(t, `{"apiVersion":"`+tc.gvk.GroupVersion().String()+`","kind":"`+tc.gvk.Kind+`",`+metadata+`,`+tc.text+`}`, tc.typed) {
				check.Equal(t, row(set.Definitions(), func(i int) string { return set.Definitions()[i].Name }), tc.headers, "%T", object)
				cells := set.Cells(object, now)
				got := row(set.Definitions(), func(i int) string { return columns.Text(cells[i]) })
				check.Equal(t, got, tc.want, "%T", object)
				check.Equal(t, verdict(set, object), tc.health, "%T", object)
			}
		})
	}
}

// verdict returns the result of Healthy as text.
func verdict(set *columns.Set, object any) string {
	switch healthy, known := set.Healthy(object); {
	case !healthy:
		return "not healthy"
	case known:
		return "healthy"
	}
	return "no rule"
}

// row joins texts of columns: those of priority 0, "|", and the others.
func row(definitions []metav1.TableColumnDefinition, text func(i int) string) string {
	var first, wide []string
	for i, d := range definitions {
		if d.Priority > 0 {
			wide = append(wide, text(i))
		} else {
			first = append(first, text(i))
		}
	}
	return strings.TrimSpace(strings.Join(first, " ") + " | " + strings.Join(wide, " "))
}

// TestCustom checks the cells of a custom resource for values of each type.
func TestCustom(t *testing.T) {
	set := columns.Custom([]columns.Definition{
		{Name: "Text", Type: "string", JSONPath: ".spec.text"},
		{Name: "Map", Type: "string", JSONPath: ".spec.map", Priority: 1},
		{Name: "Whole", Type: "integer", JSONPath: ".spec.number"},
		{Name: "Number", Type: "number", JSONPath: ".spec.number"},
		{Name: "Flag", Type: "boolean", JSONPath: ".spec.flag"},
		{Name: "Ready", Type: "string", JSONPath: `.status.conditions[?(@.type=="Ready")].status`},
		{Name: "Since", Type: "date", JSONPath: ".spec.when"},
		{Name: "Invalid", Type: "date", JSONPath: ".spec.text"},
		{Name: "Other", Type: "integer", JSONPath: ".spec.text"},
		{Name: "Absent", Type: "string", JSONPath: ".spec.absent.field"},
		{Name: "Broken", Type: "string", JSONPath: ".spec["},
		{Name: "After", Type: "string", JSONPath: ".spec.text"},
	})
	check.Equal(t, len(set.Definitions()), 11, "columns up to the broken one")
	u := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "x"},
		"spec":     map[string]any{"text": "a", "map": map[string]any{"k": "v"}, "number": 2.5, "flag": true, "when": "2026-05-01T11:00:00Z"},
		"status":   map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "False"}}},
	}}
	var got []string
	for _, cell := range set.Cells(u, now) {
		got = append(got, fmt.Sprint(cell))
	}
	check.Equal(t, strings.Join(got, " "), `x a {"k":"v"} 2 2.5 true False 60m <invalid> <nil> <nil>`, "cells")

	check.Equal(t, verdict(set, u), "not healthy", "Ready is False")

	plain := columns.Custom(nil)
	deleted := &unstructured.Unstructured{Object: map[string]any{}}
	check.Equal(t, verdict(plain, deleted), "no rule", "without conditions")
	deleted.SetDeletionTimestamp(&metav1.Time{Time: now})
	check.Equal(t, verdict(plain, deleted), "not healthy", "being deleted")
	check.Equal(t, row(plain.Definitions(), func(i int) string { return plain.Definitions()[i].Name }), "Name Age |", "without definitions")

	// client-go's jsonpath panics for some ranges, and a range changes the parsed path.
	for _, path := range []string{"{range .a}{end}", "@}{range .a?}{range", "}{range .a1.5[9223372036854775807]}{[0][?(@.b<=@.a)]", "range"} {
		set := columns.Custom([]columns.Definition{{Name: "Range", Type: "string", JSONPath: path}})
		check.Equal(t, len(set.Cells(u, now)), 1, "columns up to the path %s", path)
	}
}

// TestReadsOnly checks that Cells does not modify an object: a quantity stores its text when it is
// formatted.
func TestReadsOnly(t *testing.T) {
	hpa := &autoscalingv2.HorizontalPodAutoscaler{}
	hpa.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{
		Target: autoscalingv2.MetricTarget{AverageValue: resource.NewQuantity(1<<30, resource.BinarySI)},
	}}}
	before := hpa.DeepCopy()
	check.Equal(t, columns.Of(autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler")).Cells(hpa, now)[2].(string), "<unknown>/1Gi", "targets")
	if !reflect.DeepEqual(hpa, before) {
		t.Errorf("%v", hpa)
	}
}

// TestText checks that text is kept on one line.
func TestText(t *testing.T) {
	for _, tc := range []struct {
		cell any
		want string
	}{{nil, ""}, {int64(3), "3"}, {true, "true"}, {"a\nb", "a..."}, {"\rb", "..."}, {"a\tb", "a\tb"}} {
		check.Equal(t, columns.Text(tc.cell), tc.want, "%v", tc.cell)
	}
}
