package podsim

import (
	"bytes"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fields is a set of owned fields in FieldsV1's form.
type fields map[string]fields

// fieldTemplates contains the managedFields of all pods, which have the same fields. Each is split
// where the pod's own value is inserted.
type fieldTemplates struct {
	controller [2]string // around the owner's uid
	kubelet    [2]string // around the pod's address
}

func newFieldTemplates(pod *corev1.Pod) fieldTemplates {
	var t fieldTemplates
	t.controller = cut(controllerFields(pod), string(pod.OwnerReferences[0].UID))
	t.kubelet = cut(kubeletFields(pod), pod.Status.PodIP)
	return t
}

func cut(f fields, at string) [2]string {
	raw, err := json.Marshal(f)
	if err != nil {
		panic(fmt.Sprintf("podsim: a map of maps did not marshal: %v", err))
	}
	before, after, found := bytes.Cut(raw, []byte(at))
	if !found {
		panic("podsim: no " + at + " in the fields")
	}
	return [2]string{string(before), string(after)}
}

// entries returns the managedFields entries of the two managers that every running pod has:
// kube-controller-manager and the kubelet.
func (t *fieldTemplates) entries(pod *corev1.Pod) []metav1.ManagedFieldsEntry {
	entry := func(manager string, parts [2]string, value string, at metav1.Time) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager:    manager,
			Operation:  metav1.ManagedFieldsOperationUpdate,
			APIVersion: "v1",
			Time:       &at,
			FieldsType: "FieldsV1",
			FieldsV1:   metav1.NewFieldsV1(parts[0] + value + parts[1]),
		}
	}
	kubelet := entry("kubelet", t.kubelet, pod.Status.PodIP, seconds(lastUpdate(pod)))
	kubelet.Subresource = "status"
	return []metav1.ManagedFieldsEntry{
		entry("kube-controller-manager", t.controller, string(pod.OwnerReferences[0].UID), pod.CreationTimestamp),
		kubelet,
	}
}

// leaf returns the value of a field that is owned as a whole: an empty set.
func leaf() fields { return fields{} }

// leaves returns a set of fields, each of which is owned as a whole.
func leaves(names ...string) fields {
	out := fields{}
	for _, n := range names {
		out["f:"+n] = leaf()
	}
	return out
}

// owned returns the fields of a struct, map or list item that is owned itself, together with these
// fields of it.
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

// item returns the key of a list item that is identified by one of its fields.
func item(field, value string) string { return fmt.Sprintf("k:{%q:%q}", field, value) }

func controllerFields(pod *corev1.Pod) fields {
	labels, annotations := owned(), owned()
	for k := range pod.Labels {
		labels["f:"+k] = leaf()
	}
	for k := range pod.Annotations {
		annotations["f:"+k] = leaf()
	}
	containers := fields{}
	for i := range pod.Spec.Containers {
		containers[item("name", pod.Spec.Containers[i].Name)] = containerFields()
	}
	volumes := owned().with(item("name", "config"), owned("name").
		with("f:configMap", owned("defaultMode", "name")))

	return fields{
		"f:metadata": leaves("generateName").
			with("f:annotations", annotations).
			with("f:labels", labels).
			with("f:ownerReferences", owned().with(item("uid", string(pod.OwnerReferences[0].UID)), leaf())),
		"f:spec": leaves("dnsPolicy", "enableServiceLinks", "restartPolicy", "schedulerName", "securityContext",
			"serviceAccount", "serviceAccountName", "terminationGracePeriodSeconds").
			with("f:containers", containers).
			with("f:volumes", volumes),
	}
}

// containerFields returns the fields of a container, without those inside env, ports, probes,
// resources and mounts. With them, the entry would be larger than the rest of the pod.
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
