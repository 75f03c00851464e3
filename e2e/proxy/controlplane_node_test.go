package proxy

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
)

const madeUpNode = "made-up"

// startNode creates a node without a machine, and simulates the node's kubelet.
func startNode(t *testing.T, ctx context.Context, client kubernetes.Interface) {
	t.Helper()
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	node, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: madeUpNode}}, metav1.CreateOptions{})
	check.NoError(t, err)
	address, port := serveLogs(t)
	node.Status = corev1.NodeStatus{
		Capacity: capacity, Allocatable: capacity,
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: port}},
		Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()},
		},
	}
	if _, err := client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	cluster.StartKubelet(t, ctx, client, informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = "spec.nodeName=" + madeUpNode }))
}

// theLog is the log that serveLogs returns for every container.
const theLog = "one\ntwo\n"

// serveLogs serves the part of the kubelet's API from which kube-apiserver reads logs. It answers
// with theLog, line by line, and then with the query of the request.
func serveLogs(t *testing.T) (address string, port int32) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/containerLogs/") {
			http.NotFound(w, r)
			return
		}
		for line := range strings.Lines(theLog) {
			_, _ = io.WriteString(w, line)
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = io.WriteString(w, r.URL.RawQuery+"\n")
	}))
	t.Cleanup(server.Close)
	at := server.Listener.Addr().(*net.TCPAddr)
	return at.IP.String(), int32(at.Port)
}
