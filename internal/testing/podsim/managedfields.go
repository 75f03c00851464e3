package podsim

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fields is a set of fields that a manager owns, in the form of FieldsV1.
type fields map[string]fields

func (f fields) String() string {
	raw, err := json.Marshal(f)
	if err != nil {
		panic(fmt.Sprintf("podsim: a map of maps did not marshal: %v", err))
	}
	return string(raw)
}

// FieldsV1 returns managed fields with the given text. The oldest supported apimachinery lacks
// metav1.NewFieldsV1.
func FieldsV1(text string) *metav1.FieldsV1 {
	f := new(metav1.FieldsV1)
	_ = f.UnmarshalJSON([]byte(text)) // returns an error only if f is nil
	return f
}

// managedFields returns the two entries in the metadata.managedFields of a running pod. maker is
// the manager that created the pod; it owns the fields in created. The kubelet owns the fields in
// status.
func managedFields(pod *corev1.Pod, maker, created, status string) []metav1.ManagedFieldsEntry {
	entry := func(manager, owned, subresource string, at metav1.Time) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &at,
			FieldsType: "FieldsV1", FieldsV1: FieldsV1(owned), Subresource: subresource,
		}
	}
	return []metav1.ManagedFieldsEntry{
		entry(maker, created, "", pod.CreationTimestamp), entry("kubelet", status, "status", seconds(lastUpdate(pod))),
	}
}

// fieldTemplates contains the managedFields of the first pod of New, as text. All pods of New have
// the same fields, so the method entries only replaces the values that differ. If it encoded the
// managedFields of each pod, that would take most of the time for creating the pod.
type fieldTemplates struct {
	controller, uid string // uid is the uid of the first pod's owner; controller contains it
	kubelet, podIP  string // podIP is the first pod's IP address; kubelet contains it
}

func newFieldTemplates(pod *corev1.Pod) fieldTemplates {
	return fieldTemplates{
		controller: controllerFields(pod).String(), uid: string(pod.OwnerReferences[0].UID),
		kubelet: kubeletFields(pod).String(), podIP: pod.Status.PodIP,
	}
}

// entries returns the managedFields of a pod of New.
func (t *fieldTemplates) entries(pod *corev1.Pod) []metav1.ManagedFieldsEntry {
	return managedFields(pod, "kube-controller-manager",
		strings.Replace(t.controller, t.uid, string(pod.OwnerReferences[0].UID), 1),
		strings.Replace(t.kubelet, t.podIP, pod.Status.PodIP, 1))
}

// ownEntries returns the managedFields of a pod of NewUnlike, whose fields differ from those of
// other workloads.
func ownEntries(pod *corev1.Pod) []metav1.ManagedFieldsEntry {
	maker := "kube-controller-manager"
	if len(pod.OwnerReferences) == 0 {
		maker = "kubectl-create"
	}
	return managedFields(pod, maker, makerFields(pod).String(), kubeletFields(pod).String())
}

// noiseEntries returns the managedFields of a pod of NewRandom: only a small entry for the kubelet.
func noiseEntries(pod *corev1.Pod) []metav1.ManagedFieldsEntry {
	return managedFields(pod, "", "", fields{"f:status": leaves("phase")}.String())[1:]
}

// leaf returns an empty set, the value for a field that a manager owns as a whole.
func leaf() fields { return fields{} }

// leaves returns a set with these fields, which a manager owns as a whole.
func leaves(names ...string) fields {
	out := fields{}
	for _, n := range names {
		out["f:"+n] = leaf()
	}
	return out
}

// owned returns the set for a struct, map or list item that a manager owns, with the given fields
// of it.
func owned(names ...string) fields {
	out := leaves(names...)
	out["."] = leaf()
	return out
}

// with adds a field to f and returns f.
func (f fields) with(key string, v fields) fields {
	f[key] = v
	return f
}

// item returns the key of a list item that is identified by the value of one of its fields.
func item(field, value string) string { return fmt.Sprintf("k:{%q:%q}", field, value) }

// createdFields returns the fields that the creator of a pod owns. The arguments containers and
// volumes are the owned fields inside the pod's containers and volumes.
func createdFields(pod *corev1.Pod, containers, volumes fields) fields {
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
	spec := leaves("dnsPolicy", "enableServiceLinks", "restartPolicy", "schedulerName", "securityContext",
		"serviceAccount", "serviceAccountName", "terminationGracePeriodSeconds")
	return fields{"f:metadata": metadata, "f:spec": spec.with("f:containers", containers).with("f:volumes", volumes)}
}

func controllerFields(pod *corev1.Pod) fields {
	containers := fields{}
	for i := range pod.Spec.Containers {
		containers[item("name", pod.Spec.Containers[i].Name)] = containerFields()
	}
	return createdFields(pod, containers, owned().with(item("name", "config"), owned("name").
		with("f:configMap", owned("defaultMode", "name"))))
}

// containerFields returns the fields that the creator of a pod owns in each container. It omits the
// fields inside env, ports, probes, resources and mounts, because with them the entry would be
// larger than the rest of the pod.
func containerFields() fields {
	return owned("env", "image", "imagePullPolicy", "livenessProbe", "name", "ports", "readinessProbe", "resources",
		"terminationMessagePath", "terminationMessagePolicy", "volumeMounts")
}

func kubeletFields(pod *corev1.Pod) fields {
	conditions := fields{item("type", string(corev1.PodScheduled)): leaves("observedGeneration")}
	for _, c := range pod.Status.Conditions {
		if c.Type != corev1.PodScheduled {
			conditions[item("type", string(c.Type))] =
				owned("lastProbeTime", "lastTransitionTime", "observedGeneration", "status", "type")
		}
	}
	return fields{
		"f:status": leaves("containerStatuses", "hostIP", "hostIPs", "observedGeneration", "phase", "podIP", "startTime").
			with("f:conditions", conditions).
			with("f:podIPs", owned().with(item("ip", pod.Status.PodIP), owned("ip"))),
	}
}

// makerFields returns the fields that the creator of a pod of NewUnlike owns. They differ from
// workload to workload.
func makerFields(pod *corev1.Pod) fields {
	containers, mounted := fields{}, owned()
	for i := range pod.Spec.Containers {
		containers[item("name", pod.Spec.Containers[i].Name)] = fieldsOfContainer(&pod.Spec.Containers[i])
	}
	for i := range pod.Spec.Volumes {
		mounted[item("name", pod.Spec.Volumes[i].Name)] = owned("name")
	}
	return createdFields(pod, containers, mounted)
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
