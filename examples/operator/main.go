// Command operator runs a Deployment for each Website, a custom resource. It is an example of an
// operator with controller-runtime, which uses Weir's informers by one line: NewCache.
//
//	kubectl apply -f examples/operator/crd.yaml
//	go run ./examples/operator
package main

import (
	"context"
	"log"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/weirproject/weir/controllerruntime"
)

func main() {
	ctrl.SetLogger(klog.Background())
	if err := run(ctrl.SetupSignalHandler(), ctrl.GetConfigOrDie()); err != nil {
		log.Fatal(err)
	}
}

// run runs the operator until ctx ends.
func run(ctx context.Context, cfg *rest.Config) error {
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:   newScheme(),
		Metrics:  metricsserver.Options{BindAddress: "0"}, // no server
		NewCache: controllerruntime.NewCache(),
	})
	if err != nil {
		return err
	}
	if err := ctrl.NewControllerManagedBy(mgr).For(&Website{}).Owns(&appsv1.Deployment{}).Complete(&reconciler{mgr.GetClient()}); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

type reconciler struct{ client.Client }

// Reconcile creates or updates the Deployment of a Website, and counts the pods that are ready.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var site Website
	if err := r.Get(ctx, req.NamespacedName, &site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, Name: site.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		labels, pod := map[string]string{"website": site.Name}, &deployment.Spec.Template
		deployment.Spec.Replicas, deployment.Spec.Selector, pod.Labels = &site.Spec.Replicas, &metav1.LabelSelector{MatchLabels: labels}, labels
		if len(pod.Spec.Containers) == 0 { // keeps the API server's defaults of a container
			pod.Spec.Containers = make([]corev1.Container, 1)
		}
		pod.Spec.Containers[0].Name, pod.Spec.Containers[0].Image = "web", site.Spec.Image
		return controllerutil.SetControllerReference(&site, deployment, r.Scheme())
	})
	if err != nil || site.Status.Ready == deployment.Status.ReadyReplicas {
		return ctrl.Result{}, err
	}
	site.Status.Ready = deployment.Status.ReadyReplicas
	return ctrl.Result{}, r.Status().Update(ctx, &site)
}

// Website is the custom resource of crd.yaml. controller-gen could generate the methods.
type Website struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Image    string `json:"image"`
		Replicas int32  `json:"replicas"`
	} `json:"spec"`
	Status struct {
		Ready int32 `json:"ready"`
	} `json:"status"`
}

// WebsiteList is a list of Websites.
type WebsiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Website `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (w *Website) DeepCopyObject() runtime.Object {
	out := *w
	w.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *WebsiteList) DeepCopyObject() runtime.Object {
	out := &WebsiteList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*Website))
	}
	return out
}

func newScheme() *runtime.Scheme {
	s, version := runtime.NewScheme(), schema.GroupVersion{Group: "example.com", Version: "v1"}
	_ = scheme.AddToScheme(s) // Kubernetes' own types; never an error
	s.AddKnownTypes(version, &Website{}, &WebsiteList{})
	metav1.AddToGroupVersion(s, version)
	return s
}
