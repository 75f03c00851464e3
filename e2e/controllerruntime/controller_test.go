package controllerruntime

import (
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	appLabel  = "app"
	madeLabel = "weir.example/made"
	checked   = "weir.example/checked"
)

// rosters is a controller. For each app of a namespace, it maintains a ConfigMap with the names of
// the app's pods. It reads from the cache by key and by index.
type rosters struct {
	client    client.Client // reads from the cache
	namespace string
}

func (r *rosters) setUp(ctx context.Context, mgr ctrl.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, appLabel, func(o client.Object) []string {
		return []string{o.GetLabels()[appLabel]}
	})
	if err != nil {
		return err
	}
	made := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetLabels()[madeLabel] != "" })
	return ctrl.NewControllerManagedBy(mgr).Named("rosters").
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.app)).
		Watches(&corev1.ConfigMap{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(made)).
		Complete(r)
}

// app returns a request to reconcile the app of a pod.
func (r *rosters) app(_ context.Context, o client.Object) []reconcile.Request {
	if o.GetNamespace() != r.namespace {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: r.namespace, Name: o.GetLabels()[appLabel]}}}
}

func (r *rosters) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if req.Namespace != r.namespace {
		return reconcile.Result{}, nil
	}
	var members corev1.PodList
	if err := r.client.List(ctx, &members, client.InNamespace(req.Namespace), client.MatchingFields{appLabel: req.Name}); err != nil {
		return reconcile.Result{}, err
	}
	names := map[string]struct{}{}
	for i := range members.Items {
		names[members.Items[i].Name] = struct{}{}
	}
	want := strings.Join(slices.Sorted(maps.Keys(names)), " ")

	var roster corev1.ConfigMap
	err := r.client.Get(ctx, req.NamespacedName, &roster)
	switch {
	case apierrors.IsNotFound(err) && want == "":
		return reconcile.Result{}, nil
	case apierrors.IsNotFound(err):
		err = r.client.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: req.Namespace, Name: req.Name, Labels: map[string]string{madeLabel: "yes"}},
			Data:       map[string]string{"pods": want},
		})
	case err != nil:
	case want == "":
		err = client.IgnoreNotFound(r.client.Delete(ctx, &roster, client.Preconditions{ResourceVersion: &roster.ResourceVersion}))
	case roster.Data["pods"] != want:
		roster.Data = map[string]string{"pods": want} // the object is a copy, which may be changed
		err = r.client.Update(ctx, &roster)
	}
	return reconcile.Result{}, err
}

// checks is a controller that annotates each pod of a namespace. It uses a metadata informer.
type checks struct {
	client    client.Client
	namespace string
}

func (c *checks) setUp(mgr ctrl.Manager) error {
	mine := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetNamespace() == c.namespace })
	return ctrl.NewControllerManagedBy(mgr).Named("checks").
		For(&corev1.Pod{}, builder.OnlyMetadata, builder.WithPredicates(mine)).
		Complete(c)
}

func (c *checks) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pod := &metav1.PartialObjectMetadata{}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	if err := c.client.Get(ctx, req.NamespacedName, pod); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if pod.Annotations[checked] == pod.Labels[appLabel] {
		return reconcile.Result{}, nil
	}
	before := pod.DeepCopy()
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, checked, pod.Labels[appLabel])
	return reconcile.Result{}, client.IgnoreNotFound(c.client.Patch(ctx, pod, client.MergeFrom(before)))
}
