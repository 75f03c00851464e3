package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// followers contains a function for each kind that is watched as protobuf: the kinds of which
// clusters usually have many objects. All other kinds are watched as JSON. If the output contains
// objects, all kinds are watched as JSON.
var followers = map[schema.GroupVersionKind]func(context.Context, *watch) error{
	corev1.SchemeGroupVersion.WithKind("Pod"):                   follow[*corev1.Pod],
	corev1.SchemeGroupVersion.WithKind("Node"):                  follow[*corev1.Node],
	corev1.SchemeGroupVersion.WithKind("Service"):               follow[*corev1.Service],
	corev1.SchemeGroupVersion.WithKind("ConfigMap"):             follow[*corev1.ConfigMap],
	corev1.SchemeGroupVersion.WithKind("Secret"):                follow[*corev1.Secret],
	corev1.SchemeGroupVersion.WithKind("ServiceAccount"):        follow[*corev1.ServiceAccount],
	corev1.SchemeGroupVersion.WithKind("Namespace"):             follow[*corev1.Namespace],
	corev1.SchemeGroupVersion.WithKind("Event"):                 follow[*corev1.Event],
	corev1.SchemeGroupVersion.WithKind("PersistentVolume"):      follow[*corev1.PersistentVolume],
	corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"): follow[*corev1.PersistentVolumeClaim],
	corev1.SchemeGroupVersion.WithKind("ReplicationController"): follow[*corev1.ReplicationController],
	corev1.SchemeGroupVersion.WithKind("ResourceQuota"):         follow[*corev1.ResourceQuota],
	corev1.SchemeGroupVersion.WithKind("LimitRange"):            follow[*corev1.LimitRange],
	appsv1.SchemeGroupVersion.WithKind("Deployment"):            follow[*appsv1.Deployment],
	appsv1.SchemeGroupVersion.WithKind("ReplicaSet"):            follow[*appsv1.ReplicaSet],
	appsv1.SchemeGroupVersion.WithKind("StatefulSet"):           follow[*appsv1.StatefulSet],
	appsv1.SchemeGroupVersion.WithKind("DaemonSet"):             follow[*appsv1.DaemonSet],
	appsv1.SchemeGroupVersion.WithKind("ControllerRevision"):    follow[*appsv1.ControllerRevision],
	batchv1.SchemeGroupVersion.WithKind("Job"):                  follow[*batchv1.Job],
	batchv1.SchemeGroupVersion.WithKind("CronJob"):              follow[*batchv1.CronJob],
	coordinationv1.SchemeGroupVersion.WithKind("Lease"):         follow[*coordinationv1.Lease],
	discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"):    follow[*discoveryv1.EndpointSlice],
	eventsv1.SchemeGroupVersion.WithKind("Event"):               follow[*eventsv1.Event],
	networkingv1.SchemeGroupVersion.WithKind("Ingress"):         follow[*networkingv1.Ingress],
	networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"):   follow[*networkingv1.NetworkPolicy],
	policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"): follow[*policyv1.PodDisruptionBudget],
	rbacv1.SchemeGroupVersion.WithKind("Role"):                  follow[*rbacv1.Role],
	rbacv1.SchemeGroupVersion.WithKind("RoleBinding"):           follow[*rbacv1.RoleBinding],
	rbacv1.SchemeGroupVersion.WithKind("ClusterRole"):           follow[*rbacv1.ClusterRole],
	rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"):    follow[*rbacv1.ClusterRoleBinding],
	storagev1.SchemeGroupVersion.WithKind("VolumeAttachment"):   follow[*storagev1.VolumeAttachment],
}

// follow follows the resource as its Go type, if followers has one. If the output contains objects,
// it follows the resource as JSON, because the Go type lacks the fields of newer Kubernetes
// versions.
func (w *watch) follow(ctx context.Context) error {
	if typed, ok := followers[w.resource.Kind]; ok && !w.printsObjects() {
		return typed(ctx, w)
	}
	return follow[*unstructured.Unstructured](ctx, w)
}
