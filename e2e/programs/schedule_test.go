package programs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

// schedule tests kube-scheduler. It runs the scheduler until all waiting pods are bound, and
// returns the node of each. There is one waiting pod per ten other pods, but there are at most
// 5,000 waiting pods. The result depends only on the pods and nodes (see schedulerConfig).
func schedule(t *testing.T, ctx context.Context, binary string) (usage, []string) {
	w := newWorld(t, ctx, population{bound: podsim.New(*podsFlag, 1), pending: podsim.New(min(*podsFlag/10, 5000), 2)})
	w.makeNodes(t, ctx)
	bound := w.watchBindings(t, ctx)
	config := filepath.Join(t.TempDir(), "config")
	check.NoError(t, os.WriteFile(config, []byte(schedulerConfig(w.kubeconfig)), 0o600))
	s, err := start(binary, w.kubeconfig, "--config="+config, "--secure-port=0")
	check.NoError(t, err)
	ctx, cancel := context.WithTimeout(s.alive(ctx), deadline)
	defer cancel()
	count := w.pods.(population).pending.Len()
	where, rate := bound.await(ctx, count)
	used := s.end()
	if where == nil {
		t.Fatalf("not all of %d pods are bound: %v\n%s", count, context.Cause(ctx), s.log)
	}
	t.Logf("%.0f pods/s", rate)
	return used, where
}

// schedulerConfig returns a configuration that makes the scheduler deterministic. The scheduler
// chooses randomly among nodes with equal scores. In this configuration all scores differ: they
// depend on the free resources, and then on the node's number. All other scores are disabled.
func schedulerConfig(kubeconfig string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: 1
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: %q, qps: 5000, burst: 5000}
profiles:
- schedulerName: default-scheduler
  percentageOfNodesToScore: 100
  plugins:
    score:
      disabled: [{name: "*"}]
      enabled: [{name: NodeResourcesFit, weight: %d}, {name: NodeAffinity, weight: 1}]
  pluginConfig:
  - name: NodeAffinity
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: NodeAffinityArgs
      addedAffinity:
        preferredDuringSchedulingIgnoredDuringExecution:
`, kubeconfig, nodes+1) // free resources count more than the node's number
	for i := range nodes {
		fmt.Fprintf(&b, "        - weight: %d\n          preference: {matchFields: [{key: metadata.name, operator: In, values: [%s]}]}\n", i+1, nodeName(i))
	}
	return b.String()
}

// bindings receives each pod after it was bound.
type bindings chan *corev1.Pod

// watchBindings watches the waiting pods until the test ends, and sends each bound pod.
func (w *world) watchBindings(t *testing.T, ctx context.Context) bindings {
	t.Helper()
	bound := make(bindings, w.pods.Len()) // a pod is bound only once, so sends never block
	factory := informers.NewSharedInformerFactoryWithOptions(w.client, 0, informers.WithNamespace(pendingNamespace))
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, after any) {
			if pod := after.(*corev1.Pod); before.(*corev1.Pod).Spec.NodeName == "" && pod.Spec.NodeName != "" {
				bound <- pod
			}
		},
	})
	check.NoError(t, err)
	ctx, cancel := context.WithCancel(ctx)
	factory.StartWithContext(ctx)
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	check.NoError(t, factory.WaitForCacheSyncWithContext(ctx).Err)
	return bound
}

// await waits until count pods are bound. It returns the nodes of the pods, and the rate of
// bindings per second after the first. If ctx ends first, it returns nil.
func (b bindings) await(ctx context.Context, count int) (nodes []string, rate float64) {
	var first time.Time
	for range count {
		select {
		case pod := <-b:
			nodes = append(nodes, pod.Name+" on "+pod.Spec.NodeName)
		case <-ctx.Done():
			return nil, 0
		}
		if first.IsZero() {
			first = time.Now()
		}
	}
	slices.Sort(nodes)
	return nodes, float64(count-1) / time.Since(first).Seconds()
}
