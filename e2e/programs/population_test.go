package programs

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

// nodes is the number of nodes that makeNodes creates.
const nodes = 100

func nodeName(i int) string { return fmt.Sprintf("node-%02d", i) }

// population is the pods of a cluster with controllers. bound pods run on nodes that makeNodes
// creates. pending pods wait for a node. The pods have no owners, because controllers would delete
// pods whose owners do not exist.
type population struct{ bound, pending *podsim.Pods }

func (p population) Len() int { return p.bound.Len() + p.pending.Len() }

func (p population) Pod(i int) *corev1.Pod {
	if i < p.bound.Len() {
		pod := p.bound.Pod(i)
		pod.OwnerReferences, pod.Spec.NodeName = nil, nodeName(i%nodes)
		return pod
	}
	i -= p.bound.Len()
	pod := p.pending.Pod(i)
	pod.OwnerReferences, pod.Spec.NodeName, pod.Namespace = nil, "", pendingNamespace
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: pod.Status.QOSClass}
	// Different priorities make the scheduling order independent of the order in which the scheduler
	// receives the pods.
	pod.Spec.Priority = new(int32(p.pending.Len() - i))
	pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(100+37*(i%11)), resource.DecimalSI)
	return pod
}

func (p population) Namespaces() []string { return append(p.bound.Namespaces(), pendingNamespace) }

// pendingNamespace is the namespace of the pods that wait for a node.
const pendingNamespace = "pending"

// makeNodes creates nodes of different sizes. The nodes are large enough that all pods together
// request a third to a half of the resources.
func (w *world) makeNodes(t *testing.T, ctx context.Context) {
	t.Helper()
	var cpu, memory int64
	for i := range w.pods.Len() {
		for _, c := range w.pods.Pod(i).Spec.Containers {
			cpu += c.Resources.Requests.Cpu().MilliValue()
			memory += c.Resources.Requests.Memory().Value()
		}
	}
	for i := range nodes {
		size := int64(200 + i) // percent; if all nodes had 100, they would be full
		capacity := corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(cpu/nodes*size/100+1000, resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(memory/nodes*size/100+1<<30, resource.BinarySI),
			corev1.ResourcePods:   *resource.NewQuantity(int64(w.pods.Len()/nodes*5+10), resource.DecimalSI),
		}
		w.makeNode(t, ctx, nodeName(i), func(node *corev1.Node) {
			node.Status.Capacity, node.Status.Allocatable = capacity, capacity
		})
	}
}

// makeNodesOfPods creates the nodes that the simulated pods name, with a loopback address. It calls
// edit with each node before it creates the node.
func (w *world) makeNodesOfPods(t *testing.T, ctx context.Context, edit func(*corev1.Node)) {
	t.Helper()
	for _, name := range w.pods.(*podsim.Pods).Nodes() {
		w.makeNode(t, ctx, name, func(node *corev1.Node) {
			node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
			edit(node)
		})
	}
}

// makeNode creates a ready node. It calls edit with the node before it creates the node.
func (w *world) makeNode(t *testing.T, ctx context.Context, name string, edit func(*corev1.Node)) {
	t.Helper()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()},
		}},
	}
	edit(node)
	node, err := w.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err == nil {
		node.Spec.Taints = nil // a new node has a taint, which a controller would remove
		_, err = w.client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
	}
	check.NoError(t, err)
}
