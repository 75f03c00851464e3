package programs

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// widgets is a custom resource. Controllers cache only the metadata of its objects.
var widgets = schema.GroupVersionResource{Group: "programs.example.com", Version: "v1", Resource: "widgets"}

var listed = []schema.GroupVersionResource{
	{Version: "v1", Resource: "configmaps"}, {Version: "v1", Resource: "pods"}, {Version: "v1", Resource: "serviceaccounts"},
	{Group: "apps", Version: "v1", Resource: "controllerrevisions"}, {Group: "apps", Version: "v1", Resource: "deployments"},
	{Group: "apps", Version: "v1", Resource: "replicasets"}, {Group: "apps", Version: "v1", Resource: "statefulsets"},
	{Group: "batch", Version: "v1", Resource: "jobs"}, {Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"},
	widgets,
}

// inventory returns sorted lines, one for each object of the resources in the variable listed. A
// line has the kind, the name, the owners and the status, without values that differ between runs.
func inventory(ctx context.Context, client dynamic.Interface, namespace string) ([]string, error) {
	var lines []string
	for _, resource := range listed {
		list, err := client.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			lines = append(lines, line(&list.Items[i]))
		}
	}
	slices.Sort(lines)
	return lines, nil
}

func line(o *unstructured.Unstructured) string {
	out := o.GetKind() + " " + steady(o, o.GetName())
	for _, owner := range o.GetOwnerReferences() {
		out += " of " + owner.Kind + " " + steady(o, owner.Name)
	}
	if o.GetDeletionTimestamp() != nil {
		out += ", ending"
	}
	return out + outcome(o)
}

// steady returns a name without random parts. It replaces a generated suffix and template hashes.
// Names of a StatefulSet's pods are unchanged, because they end with a number.
func steady(o *unstructured.Unstructured, name string) string {
	numbered := o.GetLabels()[appsv1.PodIndexLabel] != ""
	if prefix := o.GetGenerateName(); prefix != "" && name == o.GetName() && !numbered {
		name = prefix + "*"
	}
	for _, hash := range []string{"pod-template-hash", "controller.kubernetes.io/hash"} {
		if value := o.GetLabels()[hash]; value != "" {
			name = strings.ReplaceAll(name, value, "#")
		}
	}
	return name
}

// outcome returns the part of an object's status that is the same in all runs.
func outcome(o *unstructured.Unstructured) string {
	number := func(path ...string) int64 {
		n, _, _ := unstructured.NestedInt64(o.Object, path...)
		return n
	}
	switch o.GetKind() {
	case "Deployment", "StatefulSet":
		out := fmt.Sprintf(": %d of %d", number("status", "readyReplicas"), number("spec", "replicas"))
		if number("status", "observedGeneration") != o.GetGeneration() || number("status", "updatedReplicas") != number("spec", "replicas") {
			out += ", under way"
		}
		return out
	case "ReplicaSet":
		return fmt.Sprintf(": %d of %d", number("status", "readyReplicas"), number("spec", "replicas"))
	case "Pod":
		phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
		containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "containers")
		return fmt.Sprintf(": %s %v%s", containers[0].(map[string]any)["image"], phase, strings.Join(append([]string{""}, o.GetFinalizers()...), ", held by "))
	case "Job":
		out := fmt.Sprintf(": %d succeeded", number("status", "succeeded"))
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, c := range conditions {
			out += fmt.Sprint(", ", c.(map[string]any)["type"])
		}
		return out
	case "EndpointSlice":
		endpoints, _, _ := unstructured.NestedSlice(o.Object, "endpoints")
		return fmt.Sprintf(": %d endpoints", len(endpoints))
	}
	return ""
}
