package informers

import (
	"context"
	"errors"
	"fmt"
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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/testing/populations"
)

// group is several informers of a program, measured as one.
type group []informer

// manyKinds reports whether what is measured is an informer of each kind of the population.
func (s *spec) manyKinds() bool { return s.Verb == "sync" && s.Population == podsim.Mixed }

// kinds returns the resources that are held: those of the population, or pods.
func (s *spec) kinds() ([]schema.GroupVersionResource, error) {
	if !s.manyKinds() {
		return []schema.GroupVersionResource{podsResource}, nil
	}
	p, err := populations.New(s.Population, 1, 0) // its kinds do not depend on its size
	if err != nil {
		return nil, err
	}
	var all []schema.GroupVersionResource
	for i := range p.Kinds {
		all = append(all, p.Kinds[i].GroupVersionResource)
	}
	return all, nil
}

// newGroup makes an informer of each kind. Kinds without a Go type are unstructured on both sides.
func newGroup(cfg *rest.Config, s *spec) (informer, error) {
	kinds, err := s.kinds()
	if err != nil {
		return nil, err
	}
	if s.Side == sideClientgo || s.DropIn {
		return newSharedGroup(cfg, s, kinds)
	}
	var g group
	for _, gvr := range kinds {
		make := newWeirOf[*unstructured.Unstructured]
		if typed, ok := typedKinds[gvr]; ok && !s.Unstructured {
			make = typed
		}
		inf, err := make(cfg, s, gvr)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", gvr.Resource, err)
		}
		g = append(g, inf)
	}
	return g, nil
}

// newSharedGroup makes the informers in two factories, as programs do: a typed one, and a dynamic
// one for kinds without a Go type.
func newSharedGroup(cfg *rest.Config, s *spec, kinds []schema.GroupVersionResource) (informer, error) {
	protobuf := rest.CopyConfig(cfg)
	protobuf.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	protobuf.ContentType = runtime.ContentTypeProtobuf
	typed, err := newFactory(protobuf, s)
	if err != nil {
		return nil, err
	}
	dynamic, err := newDynamicFactory(cfg, s)
	if err != nil {
		return nil, err
	}
	var g group
	for _, gvr := range kinds {
		var of informers.GenericInformer
		if _, ok := typedKinds[gvr]; ok && !s.Unstructured {
			if of, err = typed.ForResource(gvr); err != nil {
				return nil, err
			}
		} else {
			of = dynamic.ForResource(gvr)
		}
		c := &sharedInformer{SharedIndexInformer: of.Informer()}
		if s.DropIn {
			c.look = lookAt[metav1.Object]
		}
		if err := c.transform(s); err != nil {
			return nil, err
		}
		g = append(g, c)
	}
	return g, nil
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

// resourceVersion returns nothing: each informer has its own.
func (g group) resourceVersion() string { return "" }

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
