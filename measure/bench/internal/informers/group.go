package informers

import (
	"context"
	"errors"
	"time"

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/testing/populations"

	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// group contains several informers of one program, which are measured together.
type group []informer

// manyKinds reports whether the measurement has an informer for each kind of the population.
func (s *spec) manyKinds() bool { return s.Verb == "sync" && s.Population == podsim.Mixed }

// kinds returns the resources of the informers: all resources of the population, or only pods.
func (s *spec) kinds() []schema.GroupVersionResource {
	if !s.manyKinds() {
		return []schema.GroupVersionResource{podsResource}
	}
	p := figures.Must(populations.New(s.Population, 1, 0)) // the kinds do not depend on the size
	var all []schema.GroupVersionResource
	for i := range p.Kinds {
		all = append(all, p.Kinds[i].GroupVersionResource)
	}
	return all
}

// newGroup returns an informer of each kind. Informers of kinds without a Go type are unstructured,
// for weir and for client-go.
func newGroup(cfg *rest.Config, s *spec) informer {
	if s.Side == sideClientgo || s.DropIn {
		return newSharedGroup(cfg, s)
	}
	var g group
	for _, gvr := range s.kinds() {
		make := newWeir[*unstructured.Unstructured]
		if typed, ok := typedKinds[gvr]; ok && !s.Unstructured {
			make = typed
		}
		g = append(g, make(cfg, s, gvr))
	}
	return g
}

// newSharedGroup returns informers from two factories, like in a program: a typed factory, and a
// dynamic one for kinds without a Go type.
func newSharedGroup(cfg *rest.Config, s *spec) informer {
	typed, dynamic := newFactory(inProtobuf(cfg), s), newDynamicFactory(cfg, s)
	var g group
	for _, gvr := range s.kinds() {
		of := dynamic.ForResource(gvr)
		if _, ok := typedKinds[gvr]; ok && !s.Unstructured {
			of = figures.Must(typed.ForResource(gvr))
		}
		g = append(g, shared(s, of.Informer(), lookAt[metav1.Object]))
	}
	return g
}

// each calls f for every informer, even after an error, and returns all errors.
func (g group) each(f func(informer) error) error {
	var all []error
	for _, inf := range g {
		all = append(all, f(inf))
	}
	return errors.Join(all...)
}

func (g group) handle(resync time.Duration, h handler) error {
	return g.each(func(inf informer) error { return inf.handle(resync, h) })
}

func (g group) run(ctx context.Context) {
	for _, inf := range g {
		inf.run(ctx)
	}
}

func (g group) waitSync(ctx context.Context) error {
	return g.each(func(inf informer) error { return inf.waitSync(ctx) })
}

func (g group) stop() error { return g.each(informer.stop) }

func (g group) len() (n int) {
	for _, inf := range g {
		n += inf.len()
	}
	return n
}

// resourceVersion returns "", because each informer has a different one.
func (g group) resourceVersion() string { return "" }

// typedKinds contains functions that return weir's informers, for the kinds of the mixed population
// that have a Go type.
var typedKinds = map[schema.GroupVersionResource]func(*rest.Config, *spec, schema.GroupVersionResource) informer{
	corev1.SchemeGroupVersion.WithResource("configmaps"):                      newWeir[*corev1.ConfigMap],
	corev1.SchemeGroupVersion.WithResource("events"):                          newWeir[*corev1.Event],
	corev1.SchemeGroupVersion.WithResource("limitranges"):                     newWeir[*corev1.LimitRange],
	corev1.SchemeGroupVersion.WithResource("nodes"):                           newWeir[*corev1.Node],
	corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"):          newWeir[*corev1.PersistentVolumeClaim],
	corev1.SchemeGroupVersion.WithResource("persistentvolumes"):               newWeir[*corev1.PersistentVolume],
	corev1.SchemeGroupVersion.WithResource("pods"):                            newWeir[*corev1.Pod],
	corev1.SchemeGroupVersion.WithResource("resourcequotas"):                  newWeir[*corev1.ResourceQuota],
	corev1.SchemeGroupVersion.WithResource("secrets"):                         newWeir[*corev1.Secret],
	corev1.SchemeGroupVersion.WithResource("serviceaccounts"):                 newWeir[*corev1.ServiceAccount],
	corev1.SchemeGroupVersion.WithResource("services"):                        newWeir[*corev1.Service],
	appsv1.SchemeGroupVersion.WithResource("controllerrevisions"):             newWeir[*appsv1.ControllerRevision],
	appsv1.SchemeGroupVersion.WithResource("daemonsets"):                      newWeir[*appsv1.DaemonSet],
	appsv1.SchemeGroupVersion.WithResource("deployments"):                     newWeir[*appsv1.Deployment],
	appsv1.SchemeGroupVersion.WithResource("replicasets"):                     newWeir[*appsv1.ReplicaSet],
	appsv1.SchemeGroupVersion.WithResource("statefulsets"):                    newWeir[*appsv1.StatefulSet],
	autoscalingv2.SchemeGroupVersion.WithResource("horizontalpodautoscalers"): newWeir[*autoscalingv2.HorizontalPodAutoscaler],
	batchv1.SchemeGroupVersion.WithResource("cronjobs"):                       newWeir[*batchv1.CronJob],
	batchv1.SchemeGroupVersion.WithResource("jobs"):                           newWeir[*batchv1.Job],
	coordinationv1.SchemeGroupVersion.WithResource("leases"):                  newWeir[*coordinationv1.Lease],
	discoveryv1.SchemeGroupVersion.WithResource("endpointslices"):             newWeir[*discoveryv1.EndpointSlice],
	networkingv1.SchemeGroupVersion.WithResource("ingresses"):                 newWeir[*networkingv1.Ingress],
	networkingv1.SchemeGroupVersion.WithResource("networkpolicies"):           newWeir[*networkingv1.NetworkPolicy],
	policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"):          newWeir[*policyv1.PodDisruptionBudget],
	rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings"):             newWeir[*rbacv1.ClusterRoleBinding],
	rbacv1.SchemeGroupVersion.WithResource("clusterroles"):                    newWeir[*rbacv1.ClusterRole],
	rbacv1.SchemeGroupVersion.WithResource("rolebindings"):                    newWeir[*rbacv1.RoleBinding],
	rbacv1.SchemeGroupVersion.WithResource("roles"):                           newWeir[*rbacv1.Role],
	storagev1.SchemeGroupVersion.WithResource("volumeattachments"):            newWeir[*storagev1.VolumeAttachment],
}
