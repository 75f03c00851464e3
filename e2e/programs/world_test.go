package programs

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
)

var podsFlag = flag.Int("programs.pods", 0, "run the programs on a cluster of this many pods")

// world is a cluster on which programs run.
type world struct {
	cluster    *cluster.Cluster
	client     kubernetes.Interface
	objects    dynamic.Interface
	pods       cluster.Pods
	kubeconfig string
	churns     int
}

// newWorld starts a cluster with pods, and stops it when the test ends.
func newWorld(t *testing.T, ctx context.Context, pods cluster.Pods) *world {
	t.Helper()
	w := &world{pods: pods, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	var err error
	if w.cluster, err = cluster.Start(ctx, cluster.Options{Pods: w.pods, Logf: logf}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.cluster.Stop() })
	cfg := w.cluster.Config()
	cfg.QPS = -1
	if err = w.cluster.WriteKubeconfig(w.kubeconfig); err == nil {
		w.client, err = kubernetes.NewForConfig(cfg)
	}
	if err == nil {
		w.objects, err = dynamic.NewForConfig(cfg)
	}
	check.NoError(t, err)
	return w
}

func logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// churn changes or replaces up to n pods. All pods exist when it returns. It returns a label value
// that the last change sets. Each call uses a new value.
func (w *world) churn(t *testing.T, ctx context.Context, n int) (last string) {
	t.Helper()
	w.churns++
	for i := range min(n, w.pods.Len()) {
		pod := w.pods.Pod(i)
		pods := w.client.CoreV1().Pods(pod.Namespace)
		var err error
		switch i % 3 {
		case 0:
			_, err = pods.Patch(ctx, pod.Name, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"churn":"%d"},"annotations":{"at":"%d"}}}`, i, i), metav1.PatchOptions{})
		case 1:
			_, err = pods.Patch(ctx, pod.Name, types.MergePatchType, fmt.Appendf(nil, `{"status":{"podIP":"10.9.%d.%d","podIPs":[{"ip":"10.9.%d.%d"}],"phase":"Running"}}`, i>>8&255, i&255, i>>8&255, i&255), metav1.PatchOptions{}, "status")
		default:
			err = w.replace(ctx, i)
		}
		check.NoError(t, err)
	}
	last = fmt.Sprintf("last-%d", w.churns)
	pod := w.pods.Pod(0)
	_, err := w.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"churn":%q}}}`, last), metav1.PatchOptions{})
	check.NoError(t, err)
	return last
}

// replace deletes pod i, and creates a running pod with the same name and without owners.
func (w *world) replace(ctx context.Context, i int) error {
	pod := w.pods.Pod(i)
	pods := w.client.CoreV1().Pods(pod.Namespace)
	none := int64(0)
	if err := pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &none}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	pod.ResourceVersion, pod.UID, pod.ManagedFields, pod.OwnerReferences = "", "", nil, nil
	status := pod.Status
	made, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Status = status
	_, err = pods.UpdateStatus(ctx, made, metav1.UpdateOptions{})
	return err
}

// deadline bounds each step of a test.
const deadline = 10 * time.Minute
