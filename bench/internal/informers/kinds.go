package informers

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
)

// typedKinds makes weir's informers of the mixed population's kinds that have a Go type.
var typedKinds = map[schema.GroupVersionResource]func(*rest.Config, *spec, schema.GroupVersionResource) (informer, error){
	corev1.SchemeGroupVersion.WithResource("configmaps"):                      newWeirOf[*corev1.ConfigMap],
	corev1.SchemeGroupVersion.WithResource("events"):                          newWeirOf[*corev1.Event],
	corev1.SchemeGroupVersion.WithResource("limitranges"):                     newWeirOf[*corev1.LimitRange],
	corev1.SchemeGroupVersion.WithResource("nodes"):                           newWeirOf[*corev1.Node],
	corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"):          newWeirOf[*corev1.PersistentVolumeClaim],
	corev1.SchemeGroupVersion.WithResource("persistentvolumes"):               newWeirOf[*corev1.PersistentVolume],
	corev1.SchemeGroupVersion.WithResource("pods"):                            newWeirOf[*corev1.Pod],
	corev1.SchemeGroupVersion.WithResource("resourcequotas"):                  newWeirOf[*corev1.ResourceQuota],
	corev1.SchemeGroupVersion.WithResource("secrets"):                         newWeirOf[*corev1.Secret],
	corev1.SchemeGroupVersion.WithResource("serviceaccounts"):                 newWeirOf[*corev1.ServiceAccount],
	corev1.SchemeGroupVersion.WithResource("services"):                        newWeirOf[*corev1.Service],
	appsv1.SchemeGroupVersion.WithResource("controllerrevisions"):             newWeirOf[*appsv1.ControllerRevision],
	appsv1.SchemeGroupVersion.WithResource("daemonsets"):                      newWeirOf[*appsv1.DaemonSet],
	appsv1.SchemeGroupVersion.WithResource("deployments"):                     newWeirOf[*appsv1.Deployment],
	appsv1.SchemeGroupVersion.WithResource("replicasets"):                     newWeirOf[*appsv1.ReplicaSet],
	appsv1.SchemeGroupVersion.WithResource("statefulsets"):                    newWeirOf[*appsv1.StatefulSet],
	autoscalingv2.SchemeGroupVersion.WithResource("horizontalpodautoscalers"): newWeirOf[*autoscalingv2.HorizontalPodAutoscaler],
	batchv1.SchemeGroupVersion.WithResource("cronjobs"):                       newWeirOf[*batchv1.CronJob],
	batchv1.SchemeGroupVersion.WithResource("jobs"):                           newWeirOf[*batchv1.Job],
	coordinationv1.SchemeGroupVersion.WithResource("leases"):                  newWeirOf[*coordinationv1.Lease],
	discoveryv1.SchemeGroupVersion.WithResource("endpointslices"):             newWeirOf[*discoveryv1.EndpointSlice],
	networkingv1.SchemeGroupVersion.WithResource("ingresses"):                 newWeirOf[*networkingv1.Ingress],
	networkingv1.SchemeGroupVersion.WithResource("networkpolicies"):           newWeirOf[*networkingv1.NetworkPolicy],
	policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"):          newWeirOf[*policyv1.PodDisruptionBudget],
	rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings"):             newWeirOf[*rbacv1.ClusterRoleBinding],
	rbacv1.SchemeGroupVersion.WithResource("clusterroles"):                    newWeirOf[*rbacv1.ClusterRole],
	rbacv1.SchemeGroupVersion.WithResource("rolebindings"):                    newWeirOf[*rbacv1.RoleBinding],
	rbacv1.SchemeGroupVersion.WithResource("roles"):                           newWeirOf[*rbacv1.Role],
	storagev1.SchemeGroupVersion.WithResource("volumeattachments"):            newWeirOf[*storagev1.VolumeAttachment],
}

// newWeirOf makes weir's informer of a kind.
func newWeirOf[T weir.Object](cfg *rest.Config, s *spec, gvr schema.GroupVersionResource) (informer, error) {
	return newWeir[T](cfg, s, gvr)
}
