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

// restartsPolicy is a policy of the descheduler. It makes the descheduler evict pods whose
// containers were restarted 100 times.
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

// restartEvery is the distance between pods that were restarted too often: every tenth pod.
const restartEvery = 10

// deschedules is the test of the descheduler: it runs the descheduler unchanged and changed to use
// the drop-in, and compares both. The descheduler must select exactly the pods that were restarted
// too often.
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
	changes: []change{func(t *testing.T, ctx context.Context, w *world) []string {
		w.churn(t, ctx, 300) // the replaced pods have no owners, so the descheduler does not evict them
		for i := 0; i < min(300, w.pods.Len()-1); i += restartEvery / 2 {
			// Half of the pods in this loop were restarted often. Reset their restart counts, and set high
			// restart counts for the other half.
			w.restart(t, ctx, i, 200*(i%restartEvery))
		}
		last := w.pods.Len() - 1
		w.restart(t, ctx, last, 100)
		return []string{w.pods.Pod(last).Name}
	}},
}

// restart sets the restart count of the first container in the status of pod i.
func (w *world) restart(t *testing.T, ctx context.Context, i, times int) {
	t.Helper()
	pod := w.pods.Pod(i)
	patch := fmt.Appendf(nil, `{"status":{"containerStatuses":[{"name":%q,"restartCount":%d}]}}`, pod.Spec.Containers[0].Name, times)
	if _, err := w.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}
