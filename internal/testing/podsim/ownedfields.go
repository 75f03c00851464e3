package podsim

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ownEntries returns the managedFields of a pod whose fields differ from all other workloads': the
// entry of the manager that created the pod, and that of the kubelet.
func ownEntries(pod *corev1.Pod) []metav1.ManagedFieldsEntry {
	maker := "kube-controller-manager"
	if len(pod.OwnerReferences) == 0 {
		maker = "kubectl-create"
	}
	kubelet := ownEntry("kubelet", kubeletFields(pod), seconds(lastUpdate(pod)))
	kubelet.Subresource = "status"
	return []metav1.ManagedFieldsEntry{ownEntry(maker, makerFields(pod), pod.CreationTimestamp), kubelet}
}

// noiseEntries returns the managedFields of a pod of NewRandom: only the kubelet's entry, as small
// as possible.
func noiseEntries(pod *corev1.Pod) []metav1.ManagedFieldsEntry {
	kubelet := ownEntry("kubelet", fields{"f:status": leaves("phase")}, seconds(lastUpdate(pod)))
	kubelet.Subresource = "status"
	return []metav1.ManagedFieldsEntry{kubelet}
}

func ownEntry(manager string, f fields, at metav1.Time) metav1.ManagedFieldsEntry {
	raw, err := json.Marshal(f)
	if err != nil {
		panic(fmt.Sprintf("podsim: a map of maps did not marshal: %v", err))
	}
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
		Time: &at, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(raw)),
	}
}

// makerFields returns the fields that the creator of the pod owns.
func makerFields(pod *corev1.Pod) fields {
	labels, annotations := owned(), owned()
	for k := range pod.Labels {
		labels["f:"+k] = leaf()
	}
	for k := range pod.Annotations {
		annotations["f:"+k] = leaf()
	}
	metadata := leaves("generateName").with("f:annotations", annotations).with("f:labels", labels)
	for i := range pod.OwnerReferences {
		metadata.with("f:ownerReferences", owned().with(item("uid", string(pod.OwnerReferences[i].UID)), leaf()))
	}
	containers, mounted := fields{}, owned()
	for i := range pod.Spec.Containers {
		containers[item("name", pod.Spec.Containers[i].Name)] = fieldsOfContainer(&pod.Spec.Containers[i])
	}
	for i := range pod.Spec.Volumes {
		mounted[item("name", pod.Spec.Volumes[i].Name)] = owned("name")
	}
	spec := leaves("dnsPolicy", "enableServiceLinks", "restartPolicy", "schedulerName", "securityContext",
		"serviceAccount", "serviceAccountName", "terminationGracePeriodSeconds")
	return fields{
		"f:metadata": metadata,
		"f:spec":     spec.with("f:containers", containers).with("f:volumes", mounted),
	}
}

func fieldsOfContainer(c *corev1.Container) fields {
	env := owned()
	for i := range c.Env {
		env[item("name", c.Env[i].Name)] = owned("name")
	}
	f := owned("image", "imagePullPolicy", "name", "resources", "terminationMessagePath", "terminationMessagePolicy").with("f:env", env)
	for name, set := range map[string]bool{
		"args": len(c.Args) > 0, "command": len(c.Command) > 0, "lifecycle": c.Lifecycle != nil, "livenessProbe": c.LivenessProbe != nil,
		"readinessProbe": c.ReadinessProbe != nil, "startupProbe": c.StartupProbe != nil, "securityContext": c.SecurityContext != nil,
	} {
		if set {
			f["f:"+name] = leaf()
		}
	}
	return f
}
