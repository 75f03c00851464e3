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

// schedule runs kube-scheduler until it has bound all waiting pods: a tenth of the number of the
// other pods, but at most 5,000. It returns the node of each. The result depends only on the pods
// and nodes of the cluster: see schedulerConfig.
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

// schedulerConfig returns a configuration with which the order of the pods determines the node of
// each. The scheduler chooses randomly among nodes with equal scores, so no two scores may be
// equal: it scores all nodes, by free resources first and then by their number. All other scores
// are disabled.
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
`, kubeconfig, nodes+1) // a point for free resources counts more than the node number
	for i := range nodes {
		fmt.Fprintf(&b, "        - weight: %d\n          preference: {matchFields: [{key: metadata.name, operator: In, values: [%s]}]}\n", i+1, nodeName(i))
	}
	return b.String()
}

// bindings receives the bound pods.
type bindings chan *corev1.Pod

// watchBindings watches the waiting pods until the test ends.
func (w *world) watchBindings(t *testing.T, ctx context.Context) bindings {
	t.Helper()
	bound := make(bindings, w.pods.Len()) // each pod is bound once, so the handler never blocks
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

// await waits until count pods are bound. It returns the node of each pod, and the bindings per
// second since the first. If ctx ends first, it returns nil.
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
