package programs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirproject/weir/internal/testing/check"
)

// restartsPolicy has the pods evicted that were restarted 100 times.
const restartsPolicy = `apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: restarts
  pluginConfig:
  - name: DefaultEvictor
    args:
      podProtections:
        defaultDisabled: [PodsWithLocalStorage]
  - name: RemovePodsHavingTooManyRestarts
    args:
      podRestartThreshold: 100
      includingInitContainers: true
  plugins:
    deschedule:
      enabled: [RemovePodsHavingTooManyRestarts]
`

// restartEvery is which of the pods were restarted too often.
const restartEvery = 10

// deschedules has the descheduler choose the pods that were restarted too often, of all of them.
var deschedules = observer{
	prepare: func(t *testing.T, ctx context.Context, w *world) []string {
		w.makeNodesOfPods(t, ctx, func(*corev1.Node) {})
		for i := 0; i < w.pods.Len(); i += restartEvery {
			w.restart(t, ctx, i, 100)
		}
		policy := filepath.Join(t.TempDir(), "policy.yaml")
		check.NoError(t, os.WriteFile(policy, []byte(restartsPolicy), 0o600))
		return []string{"-policy", policy}
	},
	count: func(w *world) int { return (w.pods.Len() + restartEvery - 1) / restartEvery },
	change: func(t *testing.T, ctx context.Context, w *world) string {
		w.churn(t, ctx, 300) // a pod that was replaced has no owner any more, so it is not evicted
		for i := 0; i < min(300, w.pods.Len()-1); i += restartEvery / 2 {
			// Those that had been restarted often have not, and the others have.
			w.restart(t, ctx, i, 200*(i%restartEvery))
		}
		last := w.pods.Len() - 1
		w.restart(t, ctx, last, 100)
		return w.pods.Pod(last).Name
	},
}

// restart has the status of a pod say how often its first container was restarted.
func (w *world) restart(t *testing.T, ctx context.Context, i, times int) {
	t.Helper()
	pod := w.pods.Pod(i)
	patch := fmt.Appendf(nil, `{"status":{"containerStatuses":[{"name":%q,"restartCount":%d}]}}`, pod.Spec.Containers[0].Name, times)
	if _, err := w.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}
