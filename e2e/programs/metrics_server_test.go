package programs

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

// measures is the test of metrics-server, which reports the resource usage of pods and nodes. It
// runs metrics-server unchanged and changed to use the drop-in, and compares both. The test process
// itself serves the kubelets' metrics.
var measures = observer{
	prepare: func(t *testing.T, ctx context.Context, w *world) []string {
		server := httptest.NewServer(newUsage(w.pods))
		t.Cleanup(server.Close)
		at, err := url.Parse(server.URL)
		check.NoError(t, err)
		port, err := strconv.ParseInt(at.Port(), 10, 32)
		check.NoError(t, err)
		w.makeNodesOfPods(t, ctx, func(node *corev1.Node) {
			node.Annotations = map[string]string{"metrics.k8s.io/resource-metrics-path": "/" + node.Name}
			node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
		})
		return nil
	},
	count: func(w *world) int { return w.pods.Len() + len(w.pods.(*podsim.Pods).Nodes()) },
	changes: []change{func(t *testing.T, ctx context.Context, w *world) []string {
		for i := range min(300, w.pods.Len()) {
			if i%3 == 0 {
				continue
			}
			// metrics-server omits a pod that has ended. churn later sets these pods back to Running.
			pod := w.pods.Pod(i)
			patch := []byte(`{"status":{"phase":"Succeeded"}}`)
			if _, err := w.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
				t.Fatal(err)
			}
		}
		return []string{w.churn(t, ctx, 300)}
	}},
}

// podUsage serves the metrics of the pods of each node. The URL path is the node's name. The
// reported CPU usage grows at a constant rate.
type podUsage struct {
	began time.Time
	pods  map[string][]*corev1.Pod // pods by node
}

func newUsage(pods cluster.Pods) podUsage {
	u := podUsage{time.Now(), map[string][]*corev1.Pod{}}
	for i := range pods.Len() {
		pod := pods.Pod(i)
		u.pods[pod.Spec.NodeName] = append(u.pods[pod.Spec.NodeName], pod)
	}
	return u
}

func (u podUsage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	pods, ok := u.pods[r.URL.Path[1:]]
	if !ok {
		http.NotFound(w, r)
		return
	}
	now := time.Now()
	var out bytes.Buffer
	ran := now.Truncate(time.Millisecond).Sub(u.began.Truncate(time.Millisecond)).Seconds() + 1
	fmt.Fprintf(&out, "node_cpu_usage_seconds_total %v %d\n", ran*float64(len(pods)), now.UnixMilli())
	fmt.Fprintf(&out, "node_memory_working_set_bytes %d %d\n", len(pods)<<20, now.UnixMilli())
	for n, pod := range pods {
		for m, c := range pod.Spec.Containers {
			of := fmt.Sprintf("{container=%q,namespace=%q,pod=%q}", c.Name, pod.Namespace, pod.Name)
			fmt.Fprintf(&out, "container_start_time_seconds%s %d\n", of, u.began.Unix()-3600)
			fmt.Fprintf(&out, "container_cpu_usage_seconds_total%s %v %d\n", of, ran*float64(n+m+1)/8, now.UnixMilli())
			fmt.Fprintf(&out, "container_memory_working_set_bytes%s %d %d\n", of, (n+m+1)<<20, now.UnixMilli())
		}
	}
	// Ignore the error: the program may have ended.
	_, _ = w.Write(out.Bytes())
}
