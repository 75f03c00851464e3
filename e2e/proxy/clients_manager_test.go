package proxy

import (
	"context"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
	"github.com/weirproject/weir/proxy"
)

// copied is the label of ConfigMaps that are to be copied, and of the copies.
const copied = "copied"

// copier keeps a copy of each ConfigMap that asks for one, and owns it.
type copier struct{ client.Client }

// Reconcile is reconcile.Reconciler's.
func (c copier) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var original corev1.ConfigMap
	if err := c.Get(ctx, req.NamespacedName, &original); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if original.Labels[copied] != "wanted" || original.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	duplicate := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: original.Namespace, Name: original.Name + "-copy"}}
	_, err := controllerutil.CreateOrUpdate(ctx, c.Client, duplicate, func() error {
		duplicate.Data, duplicate.Labels = original.Data, map[string]string{copied: "made"}
		return controllerutil.SetControllerReference(&original, duplicate, c.Scheme())
	})
	return ctrl.Result{}, err // also when the cache was behind: it is tried again
}

// TestManager runs controller-runtime's manager, with its own cache, on the proxy alone.
func TestManager(t *testing.T) {
	ctx := begin(t)
	granted(t, ctx, "carol", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps", "configmaps/finalizers"}, Verbs: []string{"*"}})
	s := start(t, ctx, proxy.Options{Resources: []string{"configmaps"}, TrustCache: []string{"configmaps"}})
	ctrl.SetLogger(logr.Discard())
	carol := issue(t, callers, "carol")
	straight := shared.Config()
	straight.BearerToken, straight.CertData, straight.KeyData = "", carol.CertData, carol.KeyData
	asCarol := clientFor(t, straight)
	// Otherwise the manager's first watch would be passed on, and stay so.
	testenv.Eventually(t, ctx, "the permission has come", func() bool {
		_, err := asCarol.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
		return err == nil
	})
	cfg := through(t, s, carol)
	cluster.HTTPClient(t, cfg) // has the manager's connections, so that they end
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", Controller: config.Controller{SkipNameValidation: new(true)},
	})
	check.NoError(t, err)
	labelled := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetLabels()[copied] != "" })
	check.NoError(t, ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Owns(&corev1.ConfigMap{}).WithEventFilter(labelled).Complete(copier{mgr.GetClient()}))
	running, cancel := context.WithCancel(ctx)
	var manager sync.WaitGroup
	manager.Go(func() {
		if err := mgr.Start(running); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		manager.Wait()
	})

	maps := clientFor(t, shared.Config()).CoreV1().ConfigMaps("default")
	holds := func(what, value string) {
		t.Helper()
		testenv.Eventually(t, ctx, what, func() bool {
			m, err := maps.Get(ctx, "original-copy", metav1.GetOptions{})
			return err == nil && m.Data["key"] == value && metav1.GetControllerOf(m) != nil
		})
	}
	original := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "original", Labels: map[string]string{copied: "wanted"}}, Data: map[string]string{"key": "one"}}
	if _, err := maps.Create(ctx, original, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, name := range []string{"original", "original-copy"} {
			if err := maps.Delete(context.WithoutCancel(ctx), name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		}
	})
	holds("it is copied", "one")
	if _, err := maps.Patch(ctx, "original", types.MergePatchType, []byte(`{"data":{"key":"two"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	holds("the copy follows", "two")
	check.NoError(t, maps.Delete(ctx, "original-copy", metav1.DeleteOptions{}))
	holds("the copy comes back", "two")
	if metric(t, ctx, s, `weir_proxy_served_total{group="",resource="configmaps",verb="watch"}`) < 1 {
		t.Error("no watch was answered from the cache")
	}
}
