package apiserver

import (
	"cmp"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// applyWriteOnly applies and clears the fields of an object that clients can write but not read,
// such as a Secret's stringData. It also sets fields that duplicate each other to the same value.
// kube-apiserver does both when it converts the built-in kinds.
func applyWriteOnly(o object) {
	if secret, ok := o.(*corev1.Secret); ok && len(secret.StringData) > 0 {
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		for name, text := range secret.StringData {
			secret.Data[name] = []byte(text)
		}
		secret.StringData = nil
		return
	}
	annotations, spec := podOf(o)
	if spec == nil {
		return
	}
	spec.ServiceAccountName = cmp.Or(spec.ServiceAccountName, spec.DeprecatedServiceAccount)
	spec.DeprecatedServiceAccount = spec.ServiceAccountName
	maps.DeleteFunc(annotations, func(name, _ string) bool { return slices.Contains(initContainerAnnotations, name) })
}

// initContainerAnnotations are annotations that contained the init containers of pods before
// Kubernetes 1.8. kube-apiserver removes these annotations.
var initContainerAnnotations = []string{
	"pod.beta.kubernetes.io/init-containers", "pod.alpha.kubernetes.io/init-containers",
	"pod.beta.kubernetes.io/init-container-statuses", "pod.alpha.kubernetes.io/init-container-statuses",
}

// podOf returns the annotations and the spec of a pod, or of the pod template in an object.
func podOf(o object) (map[string]string, *corev1.PodSpec) {
	var t *corev1.PodTemplateSpec
	switch o := o.(type) {
	case *corev1.Pod:
		return o.Annotations, &o.Spec
	case *corev1.PodTemplate:
		t = &o.Template
	case *corev1.ReplicationController:
		t = o.Spec.Template // may be nil
	case *appsv1.DaemonSet:
		t = &o.Spec.Template
	case *appsv1.Deployment:
		t = &o.Spec.Template
	case *appsv1.ReplicaSet:
		t = &o.Spec.Template
	case *appsv1.StatefulSet:
		t = &o.Spec.Template
	case *batchv1.Job:
		t = &o.Spec.Template
	case *batchv1.CronJob:
		t = &o.Spec.JobTemplate.Spec.Template
	}
	if t == nil {
		return nil, nil
	}
	return t.Annotations, &t.Spec
}
