package cluster

import (
	"context"
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// kubelet simulates the kubelets of some pods. A pending pod becomes Running immediately if its
// restart policy is Always, and otherwise Succeeded. A pod with a deletion timestamp is deleted
// immediately.
type kubelet struct {
	t      *testing.T
	ctx    context.Context
	client kubernetes.Interface
}

// StartKubelet starts a simulated kubelet for the pods that the informer options select, such as
// the pods of a namespace. The kubelet runs until the test ends. It reports failed writes as errors
// of the test.
func StartKubelet(t *testing.T, ctx context.Context, client kubernetes.Interface, pods ...informers.SharedInformerOption) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	k := &kubelet{t: t, ctx: ctx, client: client}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, pods...)
	if _, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { k.sync(o.(*corev1.Pod)) },
		UpdateFunc: func(_, o any) { k.sync(o.(*corev1.Pod)) },
	}); err != nil {
		cancel()
		t.Fatal(err)
	}
	factory.StartWithContext(ctx)
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
}

// sync writes the status of a pending pod, or deletes a pod that has a deletion timestamp.
func (k *kubelet) sync(pod *corev1.Pod) {
	pods := k.client.CoreV1().Pods(pod.Namespace)
	var err error
	if pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds > 0 {
		err = pods.Delete(k.ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	} else if pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodPending {
		var patch []byte
		if patch, err = json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": statusOf(pod)}); err == nil {
			_, err = pods.Patch(k.ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		}
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && k.ctx.Err() == nil {
		k.t.Errorf("the kubelet: %s: %v", pod.Name, err)
	}
}

func statusOf(pod *corev1.Pod) corev1.PodStatus {
	if pod.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		return corev1.PodStatus{Phase: corev1.PodSucceeded}
	}
	const address = "10.9.0.1" // all pods can share one address in these tests
	status := corev1.PodStatus{Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}}}
	for _, condition := range []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
	}
	return status
}
