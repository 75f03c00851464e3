package informer

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// TestDeniedThenGranted checks that an informer immediately reports a 403 as an error
// (controller-runtime issue 1653). It also checks that the informer syncs after the permission is
// granted.
func TestDeniedThenGranted(t *testing.T) {
	ctx := begin(t)
	client := admin(t)
	cfg, err := shared.ConfigFor("stranger")
	check.NoError(t, err)
	inf := run[*corev1.Pod](t, ctx, cfg, weir.Options{})
	if err := inf.WaitForErr(ctx); !errors.Is(err, weir.ErrForbidden) || !apierrors.IsForbidden(err) {
		t.Fatalf("a denial shows as %v", err)
	}
	rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}}
	meta := metav1.ObjectMeta{Name: "read-pods"}
	if _, err := client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "stranger"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	check.NoError(t, inf.WaitForSync(ctx))
	if err := inf.Err(); err != nil {
		t.Errorf("synced, but Err is %v", err)
	}
	equal(t, ctx, client, inf)
}

// TestResourceThatAppearsLater creates a CustomResourceDefinition after an informer of its resource
// has started. It checks that the informer first reports ErrUnknownResource, and then syncs.
func TestResourceThatAppearsLater(t *testing.T) {
	ctx := begin(t)
	gizmos := schema.GroupVersionResource{Group: "shop.example", Version: "v1", Resource: "gizmos"}
	inf := run[*unstructured.Unstructured](t, ctx, shared.Config(), weir.Options{Resource: gizmos})
	if err := inf.WaitForErr(ctx); !errors.Is(err, weir.ErrUnknownResource) {
		t.Fatalf("a resource that is not there shows as %v", err)
	}
	client, err := dynamic.NewForConfig(shared.Config())
	check.NoError(t, err)
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	if _, err := client.Resource(crds).Create(ctx, gizmoDefinition(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	check.NoError(t, inf.WaitForSync(ctx))
	gizmo := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "shop.example/v1", "kind": "Gizmo", "metadata": map[string]any{"name": "first"},
	}}
	made, err := client.Resource(gizmos).Namespace("default").Create(ctx, gizmo, metav1.CreateOptions{})
	check.NoError(t, err)
	check.NoError(t, inf.WaitForResourceVersion(ctx, made.GetResourceVersion()))
	got, err := inf.Get("default/first")
	if err != nil || got.GetUID() != made.GetUID() || got.GetKind() != "Gizmo" {
		t.Errorf("the informer holds %v, %v", got, err)
	}
}

// TestNotWatchable checks that an informer of componentstatuses syncs, and then reports
// ErrMethodNotAllowed. kube-apiserver can list componentstatuses, but answers 405 to a WATCH.
func TestNotWatchable(t *testing.T) {
	ctx := begin(t)
	inf := run[*corev1.ComponentStatus](t, ctx, shared.Config(), weir.Options{
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "componentstatuses"},
	})
	check.NoError(t, inf.WaitForSync(ctx))
	if err := inf.WaitForErr(ctx); !errors.Is(err, weir.ErrMethodNotAllowed) || !apierrors.IsMethodNotSupported(err) {
		t.Errorf("a resource that cannot be watched shows as %v", err)
	}
}

// TestShortQuietWatches runs an informer of a resource that does not change. The informer requests
// WATCHes that end after three to six seconds. The test checks that the end of a WATCH does not
// count as a failure, and does not cause another LIST.
func TestShortQuietWatches(t *testing.T) {
	ctx := begin(t)
	inf := run[*corev1.ResourceQuota](t, ctx, shared.Config(), weir.Options{ListWatch: weir.ListWatch{Mode: weir.ModeList, WatchTimeout: 3 * time.Second}})
	check.NoError(t, inf.WaitForSync(ctx))
	testenv.Eventually(t, ctx, "five WATCHes", func() bool { return inf.Stats().Requests > 5 })
	for _, s := range inf.Status() {
		if s.LastErr != nil || s.Relists > 0 {
			t.Errorf("%v, last error %v", s, s.LastErr)
		}
	}
}

func gizmoDefinition() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata":   map[string]any{"name": "gizmos.shop.example"},
		"spec": map[string]any{
			"group": "shop.example",
			"scope": "Namespaced",
			"names": map[string]any{"plural": "gizmos", "singular": "gizmo", "kind": "Gizmo", "listKind": "GizmoList"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
}
