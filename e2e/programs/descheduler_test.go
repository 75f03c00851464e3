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

// restartsPolicy makes the descheduler evict pods that were restarted 100 times.
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

// restartEvery is n if every n-th pod was restarted too often.
const restartEvery = 10

// deschedules is the trial of the descheduler, which must select exactly the pods that were
// restarted too often.
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
		w.churn(t, ctx, 300) // replaced pods have no owners, so they are not evicted
		for i := 0; i < min(300, w.pods.Len()-1); i += restartEvery / 2 {
			// Reset the restarts of pods that were restarted often (i%restartEvery is 0), and set many
			// restarts for the other pods.
			w.restart(t, ctx, i, 200*(i%restartEvery))
		}
		last := w.pods.Len() - 1
		w.restart(t, ctx, last, 100)
		return w.pods.Pod(last).Name
	},
}

// restart sets the number of restarts of a pod's first container in its status.
func (w *world) restart(t *testing.T, ctx context.Context, i, times int) {
	t.Helper()
	pod := w.pods.Pod(i)
	patch := fmt.Appendf(nil, `{"status":{"containerStatuses":[{"name":%q,"restartCount":%d}]}}`, pod.Spec.Containers[0].Name, times)
	if _, err := w.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}
